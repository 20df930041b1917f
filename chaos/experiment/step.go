package experiment

import (
	"iter"
	"reflect"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// Step is one thing that is done, once or every so often, in both arms. A step has
// exactly one action. In an arm of a kind of client the steps are done in their
// order: one that is late holds up those after it.
type Step struct {
	_ struct{}

	// Name says what it is for, in the journal and in the plan. Default: what the
	// action says of itself.
	Name string `json:"name,omitzero" check:"max=120"`

	// At is when it is done, on the experiment's clock. Not before starts_at, nor
	// before the step above it, and not after length.
	At Duration `json:"at" check:"required"`

	// Every has it done again and again, so long after the time before. Needs
	// until. Default: once.
	Every Duration `json:"every,omitzero" check:"real=5ms"`

	// Until is the last moment at which a step with every is done.
	Until Duration `json:"until,omitzero"`

	// When has it wait, from at on, for what the clients are doing: away, none of
	// them has a stream open that it had before; back, all of them have one again.
	// If that is not so by the time of the next step, or of length, the step fails
	// and the run is inconclusive. Default: it does not wait.
	When When `json:"when,omitzero"`

	// Clients is for how many clients of each kind it is done, from the first on.
	// Only of actions that are done for each client. Default: all.
	Clients int `json:"clients,omitzero" check:"min=1,max=10000"`

	Action
}

// When is what a step waits for. "" is nothing.
type When string

// What a step may wait for.
const (
	WhenAway When = "away" // none of the clients has its streams open
	WhenBack When = "back" // all of them have them open again
)

// Action is what a step does: exactly one field is set.
type Action struct {
	_ struct{}

	// Connect has the clients begin a session each, and be sent one event. A
	// session that they have is left first.
	Connect *Connect `json:"connect,omitzero"`

	// Disconnect has the clients leave their sessions.
	Disconnect *Disconnect `json:"disconnect,omitzero"`

	// Emit has the servers send events on the standalone stream of each client, or
	// log them while that is away.
	Emit *Emit `json:"emit,omitzero"`

	// Call has each client call a tool.
	Call *Call `json:"call,omitzero"`

	// Ask has the servers ask the person of each client something, on the
	// standalone stream.
	Ask *Ask `json:"ask,omitzero"`

	// Cut has the load balancer cut everything that is under way.
	Cut *Cut `json:"cut,omitzero"`

	// Fault breaks a link or the network for a while.
	Fault *Fault `json:"fault,omitzero"`

	// Rule makes certain requests go wrong for a while.
	Rule *TimedRule `json:"rule,omitzero"`

	// Reap has the servers lose the clients' sessions, and keep their events.
	Reap *Reap `json:"reap,omitzero"`

	// RestartServers restarts replicas. That loses their sessions, and keeps the
	// log.
	RestartServers *RestartServers `json:"restart_servers,omitzero"`

	// RestartLoadBalancer stops the load balancer and starts it again. That breaks
	// every connection.
	RestartLoadBalancer *RestartLoadBalancer `json:"restart_load_balancer,omitzero"`
}

// Rollback is one thing that is done at the end. It has exactly one action.
type Rollback struct {
	_ struct{}

	// Name says what it is for. Default: what the action says of itself.
	Name string `json:"name,omitzero" check:"max=120"`

	// Disconnect has the clients leave their sessions.
	Disconnect *Disconnect `json:"disconnect,omitzero"`

	// Call has each client call a tool.
	Call *Call `json:"call,omitzero"`

	// Reap has the servers lose the clients' sessions.
	Reap *Reap `json:"reap,omitzero"`

	// RestartServers restarts replicas.
	RestartServers *RestartServers `json:"restart_servers,omitzero"`

	// RestartLoadBalancer stops the load balancer and starts it again.
	RestartLoadBalancer *RestartLoadBalancer `json:"restart_load_balancer,omitzero"`
}

// Label is the rollback's name, or what it does where it has none.
func (r *Rollback) Label() string {
	if r.Name != "" {
		return r.Name
	}
	action := r.Action()
	return action.words()
}

// Action returns what a step with the same action does.
func (r *Rollback) Action() Action {
	return Action{
		Disconnect: r.Disconnect, Call: r.Call, Reap: r.Reap,
		RestartServers: r.RestartServers, RestartLoadBalancer: r.RestartLoadBalancer,
	}
}

// Connect begins sessions.
type Connect struct{ _ struct{} }

// Disconnect ends the use of sessions.
type Disconnect struct {
	_ struct{}

	// How is delete, with a DELETE that ends the session; or vanish, without a
	// word: the connections are closed, and the session lives on. Default: delete.
	How Leaving `json:"how,omitzero"`
}

// Leaving is how a client leaves. "" is [Delete].
type Leaving string

// How a client may leave.
const (
	Delete Leaving = "delete"
	Vanish Leaving = "vanish"
)

// Emit sends events.
type Emit struct {
	_ struct{}

	// Events is how many, to each client. Default: 1.
	Events int `json:"events,omitzero" check:"min=1,max=100000"`

	// Every is the time between two of them. Default: none.
	Every Duration `json:"every,omitzero" check:"real=1ms"`

	// Bytes is how long the text of each is. Default: a few bytes.
	Bytes int `json:"bytes,omitzero" check:"min=1,max=16777216"`
}

// Number is Events with its default.
func (e *Emit) Number() int { return max(1, e.Events) }

// Ask asks a person something.
type Ask struct {
	_ struct{}

	// Message is what they read.
	Message string `json:"message" check:"required,max=1000"`
}

// Cut cuts what is under way.
type Cut struct {
	_ struct{}

	// How is what a client sees: fin, rst, clean_end, silent or silent_then_rst.
	// Default: what the load balancer does when a limit is reached.
	How lb.Expiry `json:"how,omitzero"`
}

// Reap loses sessions.
type Reap struct{ _ struct{} }

// RestartServers restarts replicas.
type RestartServers struct {
	_ struct{}

	// Replica is the number of the one to restart, from 0. Default: all, one after
	// the other.
	Replica *int `json:"replica,omitzero" check:"min=0,max=63"`

	// Pause is the time between two of them, if all are restarted. Default: none.
	Pause Duration `json:"pause,omitzero"`
}

// RestartLoadBalancer restarts the load balancer.
type RestartLoadBalancer struct {
	_ struct{}

	// DownFor is how long it is away. Default: no longer than it takes.
	DownFor Duration `json:"down_for,omitzero"`
}

// TimedRule is a [Rule] that is in force for a while.
type TimedRule struct {
	_ struct{}

	// For is how long it is in force. Default: to the end.
	For Duration `json:"for,omitzero" check:"real=5ms"`

	Rule
}

// Target is where a [Fault] acts.
type Target string

// The targets.
const (
	OnFront   Target = "front"   // the link of this name
	OnBack    Target = "back"    // the links of this name, or one of them
	OnNetwork Target = "network" // the network of the kernel's
)

// Fault is what to break, where, and for how long. What is broken is whole again
// at the end in any case. See docs/faults.md for what each kind does.
type Fault struct {
	_ struct{}

	// Target is where it acts: the link front or back, which the topology has to
	// have, or network, which has to be namespaces.
	Target Target `json:"target" check:"required"`

	// Replica is the number of the one replica whose link it acts on, from 0.
	// Only with target: back. Default: all.
	Replica *int `json:"replica,omitzero" check:"min=0,max=63"`

	// For is how long it is in force. Default: to the end.
	For Duration `json:"for,omitzero" check:"real=5ms"`

	// Kind is what it does. On links: fin, rst, blackhole, cut_after,
	// cut_in_event, latency, bandwidth, partition. In the network: partition,
	// silent_drop, silent_drop_then_reset, packet_loss, reset.
	Kind fault.Kind `json:"kind" check:"required"`

	// Direction is which way the bytes go that it acts on: to_client or to_server.
	// Default: both.
	Direction fault.Direction `json:"direction,omitzero"`

	// Conn is the one connection that it acts on, counted from 1 as they were
	// opened. Not with limit. Default: all.
	Conn int `json:"conn,omitzero" check:"min=1,max=1000000"`

	// Limit is on how many connections it acts. Default: without limit.
	Limit int `json:"limit,omitzero" check:"min=1,max=1000000"`

	// Bytes is after how many bytes cut_after cuts. Default: 0.
	Bytes int64 `json:"bytes,omitzero" check:"min=0,max=1099511627776"`

	// Event is which event cut_in_event cuts, counted from 1.
	Event int `json:"event,omitzero" check:"min=1,max=1000000"`

	// Offset is after how many bytes of it. Default: after all but the blank line.
	Offset int64 `json:"offset,omitzero" check:"min=0,max=1099511627776"`

	// How is in which way cut_after and cut_in_event cut: rst or blackhole.
	// Default: a FIN.
	How fault.How `json:"how,omitzero"`

	// Delay is how long latency delays each byte.
	Delay Duration `json:"delay,omitzero" check:"real=1ms"`

	// Jitter is how much that varies, to both sides. No more than delay.
	Jitter Duration `json:"jitter,omitzero"`

	// BytesPerSecond is the bandwidth of each connection, in seconds of the
	// record.
	BytesPerSecond int64 `json:"bytes_per_second,omitzero" check:"min=1,max=1099511627776"`

	// After is how long a connection has to be idle for silent_drop and
	// silent_drop_then_reset to forget it: whole seconds, in real time, too.
	// Default: all are forgotten at once.
	After Duration `json:"after,omitzero" check:"seconds"`

	// Probability is how likely packet_loss drops a packet, up to 1.
	Probability float64 `json:"probability,omitzero" check:"min=0.000001,max=1"`
}

// Kind returns the key of the action, such as "restart_servers", or "" for an
// Action with none or with several.
func (a *Action) Kind() string {
	if set := a.set(); len(set) == 1 {
		return set[0]
	}
	return ""
}

// set lists the keys of the actions that are set.
func (a *Action) set() []string { return pointersSet(reflect.ValueOf(a).Elem()) }

// pointersSet lists the keys of the fields of a struct that are pointers to
// structs, and are not nil.
func pointersSet(v reflect.Value) []string {
	var set []string
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		if at.Kind() == reflect.Pointer && at.Type().Elem().Kind() == reflect.Struct && !at.IsNil() {
			set = append(set, f.name)
		}
	}
	return set
}

// forClients is whether an action is done for each client.
func forClients(kind string) bool {
	switch kind {
	case "connect", "disconnect", "emit", "call", "ask", "reap":
		return true
	}
	return false
}

// Times yields the moments at which a step is done.
func (s *Step) Times() iter.Seq[Duration] {
	return func(yield func(Duration) bool) {
		for at := s.At; ; at += s.Every {
			if !yield(at) || s.Every <= 0 || at+s.Every > s.Until {
				return
			}
		}
	}
}

// Label is the step's name, or what it does where it has none.
func (s *Step) Label() string {
	if s.Name != "" {
		return s.Name
	}
	return s.words()
}

// last is the last moment at which it is done.
func (s *Step) last() Duration {
	if s.Every <= 0 || s.Until <= s.At {
		return s.At
	}
	return s.At + (s.Until-s.At)/s.Every*s.Every
}

// count is how often it is done.
func (s *Step) count() int {
	if s.Every <= 0 || s.Until <= s.At {
		return 1
	}
	return int((s.Until-s.At)/s.Every) + 1
}

// maxTimes is how often a periodic step is done at most.
const maxTimes = 100_000

// NewFault returns the fault of a step in real time, without its target.
func (d *Definition) NewFault(f *Fault) fault.Fault {
	return f.scaled(d.Real, d.Scale())
}

func (f *Fault) scaled(real func(Duration) time.Duration, scale float64) fault.Fault {
	return fault.Fault{
		Kind: f.Kind, Direction: f.Direction, Conn: f.Conn, Limit: f.Limit, Bytes: f.Bytes,
		Event: f.Event, Offset: f.Offset, How: f.How, Delay: real(f.Delay), Jitter: real(f.Jitter),
		BytesPerSecond: int64(float64(f.BytesPerSecond) * scale), After: real(f.After).Round(time.Second),
		Probability: f.Probability,
	}
}
