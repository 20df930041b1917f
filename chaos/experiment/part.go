package experiment

import (
	"reflect"
	"strings"
)

// The paths of the parts that can be read alone.
const (
	serversPath  = "topology.servers"
	balancerPath = "topology.load_balancer"
)

// ParseWith is [Parse] of a definition that is not whole: change puts in what is
// missing, or in the place of what is there, before anything is held against
// anything else.
func ParseWith(name string, data []byte, change func(*Definition)) (*Definition, error) {
	d, body, err := open(name, data)
	if err != nil {
		return nil, err
	}
	def := new(Definition)
	d.decodeDocument(body, def)
	change(def)
	d.problems = append(d.problems, d.placed(def.validate(d.unclear))...)
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return def, nil
}

// ParseServers reads what may stand below topology.servers in a definition, as
// YAML or JSON, for servers that run in real time: see [Definition.Servers] of a
// definition that has nothing else. The error is a [Problems], whose paths begin
// below topology.servers, and whose places are none.
func ParseServers(data []byte) (*Servers, error) {
	// Behind a load balancer anything is right that is right anywhere.
	def := &Definition{Topology: Topology{LoadBalancer: new(LoadBalancer)}}
	if err := parsePart(data, serversPath, def, reflect.ValueOf(&def.Topology.Servers).Elem()); err != nil {
		return nil, err
	}
	return &def.Topology.Servers, nil
}

// ParseLoadBalancer is [ParseServers] for topology.load_balancer: see
// [Definition.Balancer].
func ParseLoadBalancer(data []byte) (*LoadBalancer, error) {
	def := &Definition{Topology: Topology{LoadBalancer: new(LoadBalancer)}}
	if err := parsePart(data, balancerPath, def, reflect.ValueOf(def.Topology.LoadBalancer).Elem()); err != nil {
		return nil, err
	}
	return def.Topology.LoadBalancer, nil
}

// parsePart reads the part of def that v is, and that has the path.
func parsePart(data []byte, path string, def *Definition, v reflect.Value) error {
	d, body, err := open("", data)
	if err == nil {
		d.collectAnchors(body)
		d.value(body, v, path, check{})
		judge := &validator{def: def, unclear: d.unclear}
		judge.walk(v, path, check{})
		judge.topology()
		d.problems = append(d.problems, judge.problems...)
		err = d.problems.err()
	}
	problems, _ := err.(Problems)
	for _, p := range problems {
		p.Line, p.Column = 0, 0
		p.Path = strings.TrimPrefix(strings.TrimPrefix(p.Path, path), ".")
	}
	return err
}

// Nearest returns the one of some words that a misspelled one was probably meant
// to be, or "" if it is near none of them.
func Nearest(word string, words []string) string { return nearest(word, words) }
