package control

import (
	"encoding/json"
	"time"
)

// Kind is what a resource is. Its text is its value, and its path below /v1.
type Kind string

// The kinds of resources.
const (
	Servers       Kind = "servers"
	LoadBalancers Kind = "load-balancers"
	Experiments   Kind = "experiments"
)

// Kinds returns all kinds, in the order in which they are shown and started.
func Kinds() []Kind { return []Kind{Servers, LoadBalancers, Experiments} }

// State is how a resource is. Its text is its value.
type State string

// The states.
const (
	// Running: it serves. An experiment is Running when it can be run.
	Running State = "running"
	// Failed: it does not, and Status.Reason says why. The daemon tries again.
	Failed State = "failed"
)

// Resource is one thing that a daemon keeps.
type Resource struct {
	Kind Kind `json:"kind"`
	// Name is its own among those of its kind: lower-case letters, digits and
	// single dashes between them, up to 63.
	Name string `json:"name"`
	// ID is never used again, not for another resource of the same name either.
	ID string `json:"id"`
	// Generation is 1 at first and grows with each change of the Spec.
	Generation int64     `json:"generation"`
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"`
	// Spec is what is wanted: a ServerSpec, LoadBalancerSpec or ExperimentSpec.
	Spec json.RawMessage `json:"spec"`
	// Status is what is there.
	Status Status `json:"status"`
}

// Status is what is there of a resource.
type Status struct {
	State State `json:"state"`
	// Reason is why it is Failed, for people.
	Reason string `json:"reason,omitempty"`
	// Addr is the address that it listens on, as host:port, and URL the endpoint
	// that clients use: of several replicas the first. The same after each restart.
	Addr string `json:"addr,omitempty"`
	URL  string `json:"url,omitempty"`
	// Addrs are those of all replicas.
	Addrs []string `json:"addrs,omitempty"`
	// LastRun is the id of an experiment's latest run, and Verdict that of its
	// latest run that is over.
	LastRun string `json:"last_run,omitempty"`
	Verdict string `json:"verdict,omitempty"`
}

// ServerSpec is the settings of an MCP server, or of several replicas over one
// event log: the keys of topology.servers in the definition of an experiment, with
// durations in real time. See experiment.Servers.
type ServerSpec struct {
	// Addrs are the loopback addresses to listen on, as host:port, one for each
	// replica. Empty: free ports, which are then kept.
	Addrs []string `json:"addrs,omitempty"`
	// Settings are the keys of experiment.Servers.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// LoadBalancerSpec is the settings of a load balancer.
type LoadBalancerSpec struct {
	// Addr is the loopback address to listen on, as host:port. Empty: a free port,
	// which is then kept.
	Addr string `json:"addr,omitempty"`
	// Server is the name of the server resource that it stands before. Upstreams
	// are addresses of somebody else's, as host:port. One of the two.
	Server    string   `json:"server,omitempty"`
	Upstreams []string `json:"upstreams,omitempty"`
	// Settings are the keys of topology.load_balancer in a definition, with
	// durations in real time. See experiment.LoadBalancer.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// ExperimentSpec is an experiment that can be run.
type ExperimentSpec struct {
	// Definition is a definition, as YAML or JSON text.
	Definition string `json:"definition"`
	// Server and LoadBalancer are the names of resources whose settings take the
	// place of topology.servers and topology.load_balancer. Each arm still has its
	// own, made by these settings: an experiment breaks nothing that stands.
	Server       string `json:"server,omitempty"`
	LoadBalancer string `json:"load_balancer,omitempty"`
}
