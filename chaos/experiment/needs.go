package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// Need is something that an experiment needs of the machine.
type Need struct {
	// What names it for people.
	What string `json:"what"`
	// Engine is the load balancer's program that is needed, "" for none.
	Engine lb.Engine `json:"engine,omitzero"`
	// Namespaces is whether it is the right to make a network of the kernel's.
	Namespaces bool `json:"namespaces,omitzero"`
}

// Needs returns what d needs of the machine besides this process and loopback.
func (d *Definition) Needs() []Need {
	var needs []Need
	if b := d.Topology.LoadBalancer; b != nil && b.Engine != "" && b.Engine != lb.Embedded {
		needs = append(needs, Need{What: "the program " + string(b.Engine), Engine: b.Engine})
	}
	if d.Topology.Network == Namespaces {
		needs = append(needs, Need{What: "the right to make network namespaces", Namespaces: true})
	}
	return needs
}

// Available returns nil if this machine has what is needed, or an error that says
// on one line what is missing. To find out it may start a program or make a
// network, and takes either away again.
func (n Need) Available() error {
	var err error
	switch {
	case n.Namespaces:
		err = fault.Available()
	case n.Engine != "":
		err = lb.Available(n.Engine)
	}
	if err == nil {
		return nil
	}
	// One line, without the name of the package that found out.
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"fault: ", "lb: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return &missing{text, err}
}

// missing is an error in the words of an experiment.
type missing struct {
	text string
	err  error
}

func (m *missing) Error() string { return m.text }
func (m *missing) Unwrap() error { return m.err }

// notes says what is likely to surprise whoever runs d.
func (d *Definition) notes() (notes []string) {
	if d.Scale() > 1 && d.Topology.Servers.Retry == 0 {
		notes = append(notes, fmt.Sprintf("The servers say no retry, so that clients come back after delays of their own, of a second and more in real time: %v and more in the record's.",
			Duration(float64(1e9)*d.Scale())))
	}
	if d.Clients.MCPGo != nil && d.Clients.MCPGo.Streams() && d.Scale() > 1 {
		notes = append(notes, fmt.Sprintf("mcp-go opens its standalone stream again after a second in real time, %v in the record's, whatever the servers say.",
			Duration(float64(1e9)*d.Scale())))
	}
	if d.Topology.Network == Namespaces && !slices.ContainsFunc(d.Method, func(s Step) bool { return s.Fault != nil && s.Fault.Target == OnNetwork }) {
		notes = append(notes, "The network is one of the kernel's, and no step breaks it.")
	}
	return notes
}
