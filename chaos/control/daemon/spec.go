package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// spec is what is wanted of a resource, read and checked as far as that needs
// nothing else.
type spec interface {
	// text is the spec as JSON, the same for specs that say the same.
	text() []byte
	// listens returns the addresses to listen on; one with port 0 stands for any
	// on that host.
	listens() []netip.AddrPort
	// refers returns the resources that it needs, by the field that names each.
	refers() map[string]key
}

// parseSpec reads a spec. The error is a *control.Problem with everything that is
// wrong.
func parseSpec(kind control.Kind, data []byte) (spec, error) {
	r := &reader{}
	var s spec
	switch kind {
	case control.Servers:
		s = r.server(data)
	case control.LoadBalancers:
		s = r.balancer(data)
	case control.Experiments:
		s = r.experiment(data)
	default:
		return nil, noKind(kind)
	}
	if r.problem != nil {
		return nil, r.problem
	}
	return s, nil
}

func noKind(kind control.Kind) error {
	return control.NewProblem(control.NotFound, "%q is no kind of resource, want one of %v", string(kind), control.Kinds())
}

// reader reads a spec and collects what is wrong with it.
type reader struct {
	problem *control.Problem
}

func (r *reader) fault(field, format string, args ...any) {
	if r.problem == nil {
		r.problem = control.NewProblem(control.Invalid, "")
	}
	r.problem.Fields = append(r.problem.Fields, control.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
}

// faults are those of a part of an experiment's definition, which stands at a field.
func (r *reader) faults(field string, err error) {
	var problems experiment.Problems
	if !errors.As(err, &problems) {
		r.fault(field, "%v", err)
		return
	}
	for _, p := range problems {
		r.fault(strings.TrimSuffix(field+"."+p.Path, "."), "%s", detail(p))
	}
}

// detail is what is wrong, and the place in the text if it has one.
func detail(p *experiment.Problem) string {
	text := p.Message
	if p.Suggestion != "" {
		text += "; did you mean " + p.Suggestion + "?"
	}
	if p.Line > 0 {
		text += fmt.Sprintf(" (line %d, column %d)", p.Line, p.Column)
	}
	return text
}

// object reads a JSON object whose keys are those of fields, into what those point
// to.
func (r *reader) object(data []byte, fields map[string]any) {
	var values map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&values)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = errors.New("there is more after it")
		}
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) || err == nil && values == nil {
		r.fault("", "is no JSON object, want the spec")
		return
	}
	if err != nil {
		r.problem = control.NewProblem(control.Malformed, "the spec is no JSON: %v", err)
		return
	}
	known := slices.Sorted(maps.Keys(fields))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		into, ok := fields[name]
		if !ok {
			text := "is no key here, want one of " + strings.Join(known, ", ")
			if near := experiment.Nearest(name, known); near != "" {
				text = "is no key here; did you mean " + near + "?"
			}
			r.fault(name, "%s", text)
			continue
		}
		if err := json.Unmarshal(values[name], into); err != nil {
			want := "a text"
			if _, list := into.(*[]string); list {
				want = "a list of texts"
			}
			r.fault(name, "is %s, want %s", short(values[name]), want)
		}
	}
}

// short is a value for an error.
func short(value []byte) string {
	const most = 60
	if r := []rune(string(value)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(value)
}

// settings returns JSON in its one form: keys sorted, no blanks. None is {}.
func (r *reader) settings(data json.RawMessage) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // 1 and 1.0 stay what they are
	var value any
	if len(data) == 0 || decoder.Decode(&value) != nil || value == nil {
		return json.RawMessage("{}")
	}
	return compact(value)
}

// compact is a value as JSON, without what is for HTML.
func compact(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(fmt.Sprintf("daemon: a %T that was JSON is none: %v", value, err))
	}
	return bytes.TrimSpace(out.Bytes())
}

// name checks a reference.
func (r *reader) name(field, name string) {
	if name != "" && !control.ValidName(name) {
		r.fault(field, "is %q, want the name of a resource: %s", name, control.NameRule)
	}
}

// serverSpec is a control.ServerSpec.
type serverSpec struct {
	wire     control.ServerSpec
	addrs    []netip.AddrPort
	settings experiment.Servers
	cluster  mcpserver.ClusterConfig // without addresses
}

func (r *reader) server(data []byte) spec {
	s := new(serverSpec)
	r.object(data, map[string]any{"addrs": &s.wire.Addrs, "settings": &s.wire.Settings})
	s.wire.Settings = r.settings(s.wire.Settings)
	settings, err := experiment.ParseServers(s.wire.Settings)
	if err != nil {
		r.faults("settings", err)
		return s
	}
	s.settings = *settings
	s.cluster = (&experiment.Definition{Topology: experiment.Topology{Servers: *settings}}).Servers()
	for i, addr := range s.wire.Addrs {
		s.addrs = append(s.addrs, r.listen(fmt.Sprintf("addrs[%d]", i), addr, s.wire.Addrs[:i]))
	}
	if n := len(s.wire.Addrs); n > 0 && n != s.cluster.Replicas {
		r.fault("addrs", "has %d addresses, want none, or %d, one for each replica", n, s.cluster.Replicas)
	}
	for len(s.addrs) < s.cluster.Replicas {
		s.addrs = append(s.addrs, netip.MustParseAddrPort(loopback+":0"))
	}
	return s
}

// listen checks an address to listen on, and that it is none of those before it.
func (r *reader) listen(field, addr string, before []string) netip.AddrPort {
	at, fault := checkListen(addr)
	if fault != "" {
		r.fault(field, "%s", fault)
	} else if at.Port() != 0 && slices.Contains(before, addr) {
		r.fault(field, "is %q, want each address once", addr)
	}
	return at
}

func (s *serverSpec) text() []byte              { return compact(s.wire) }
func (s *serverSpec) listens() []netip.AddrPort { return s.addrs }
func (s *serverSpec) refers() map[string]key    { return nil }

// balancerSpec is a control.LoadBalancerSpec.
type balancerSpec struct {
	wire     control.LoadBalancerSpec
	addr     netip.AddrPort
	settings experiment.LoadBalancer
	config   lb.Config // without addresses, but for Upstreams that are given
}

func (r *reader) balancer(data []byte) spec {
	b := &balancerSpec{addr: netip.MustParseAddrPort(loopback + ":0")}
	r.object(data, map[string]any{"addr": &b.wire.Addr, "server": &b.wire.Server, "upstreams": &b.wire.Upstreams, "settings": &b.wire.Settings})
	if b.wire.Addr != "" {
		b.addr = r.listen("addr", b.wire.Addr, nil)
	}
	r.name("server", b.wire.Server)
	switch {
	case b.wire.Server == "" && len(b.wire.Upstreams) == 0:
		r.fault("server", "is missing, want the name of a server, or upstreams")
	case b.wire.Server != "" && len(b.wire.Upstreams) > 0:
		r.fault("upstreams", "are given beside server, %q, want one of the two", b.wire.Server)
	}
	b.wire.Settings = r.settings(b.wire.Settings)
	settings, err := experiment.ParseLoadBalancer(b.wire.Settings)
	if err != nil {
		r.faults("settings", err)
		return b
	}
	b.settings = *settings
	b.config, _ = (&experiment.Definition{Topology: experiment.Topology{LoadBalancer: settings}}).Balancer()
	if len(b.wire.Upstreams) > 0 {
		b.config.Upstreams = b.wire.Upstreams
		r.upstreams(b.config.Validate())
	}
	if slices.Contains(b.wire.Upstreams, b.wire.Addr) {
		r.fault("upstreams", "has %q, which is its own addr", b.wire.Addr)
	}
	return b
}

// upstreams are the faults of those: the settings have none any more.
func (r *reader) upstreams(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		field, rest, _ := strings.Cut(strings.TrimPrefix(line, "lb: Config."), " ")
		r.fault(strings.ToLower(field), "%s", rest)
	}
}

func (b *balancerSpec) text() []byte              { return compact(b.wire) }
func (b *balancerSpec) listens() []netip.AddrPort { return []netip.AddrPort{b.addr} }
func (b *balancerSpec) refers() map[string]key {
	if b.wire.Server == "" {
		return nil
	}
	return map[string]key{"server": {control.Servers, b.wire.Server}}
}

// experimentSpec is a control.ExperimentSpec. Its definition is read when it is
// known what stands for its topology.
type experimentSpec struct {
	wire control.ExperimentSpec
}

func (r *reader) experiment(data []byte) spec {
	e := new(experimentSpec)
	r.object(data, map[string]any{"definition": &e.wire.Definition, "server": &e.wire.Server, "load_balancer": &e.wire.LoadBalancer})
	r.name("server", e.wire.Server)
	r.name("load_balancer", e.wire.LoadBalancer)
	if strings.TrimSpace(e.wire.Definition) == "" && r.problem == nil {
		r.fault("definition", "is empty, want an experiment's definition")
	}
	return e
}

func (e *experimentSpec) text() []byte              { return compact(e.wire) }
func (e *experimentSpec) listens() []netip.AddrPort { return nil }
func (e *experimentSpec) refers() map[string]key {
	all := make(map[string]key)
	if e.wire.Server != "" {
		all["server"] = key{control.Servers, e.wire.Server}
	}
	if e.wire.LoadBalancer != "" {
		all["load_balancer"] = key{control.LoadBalancers, e.wire.LoadBalancer}
	}
	return all
}

// define reads the definition, with the settings of resources in the place of its
// own, nil for none. The error is a *control.Problem.
func (e *experimentSpec) define(servers *experiment.Servers, balancer *experiment.LoadBalancer) (*experiment.Definition, error) {
	d, err := experiment.ParseWith("", []byte(e.wire.Definition), func(d *experiment.Definition) {
		if servers != nil {
			d.Topology.Servers = *servers
		}
		if balancer != nil {
			d.Topology.LoadBalancer = balancer
		}
	})
	if err == nil {
		return d, nil
	}
	r := &reader{}
	var problems experiment.Problems
	if !errors.As(err, &problems) {
		r.fault("definition", "%v", err)
	}
	for _, p := range problems {
		switch {
		case servers != nil && strings.HasPrefix(p.Path, "topology.servers."):
			r.fault("server", "is %q, whose %s %s", e.wire.Server, strings.TrimPrefix(p.Path, "topology.servers."), p.Message)
		case balancer != nil && strings.HasPrefix(p.Path, "topology.load_balancer."):
			r.fault("load_balancer", "is %q, whose %s %s", e.wire.LoadBalancer, strings.TrimPrefix(p.Path, "topology.load_balancer."), p.Message)
		default:
			r.fault(strings.TrimSuffix("definition."+p.Path, "."), "%s", detail(p))
		}
	}
	return nil, r.problem
}
