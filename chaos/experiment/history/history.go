package history

import (
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// DefaultSoon is what a zero [History.Soon] means.
const DefaultSoon = 500 * time.Millisecond

// History is what was recorded of one run against one server, or one cluster. It
// is a value: nothing here changes it. Moments are since Zero; a pointer is nil
// where something did not happen before the End.
type History struct {
	_ struct{}

	// Zero is the instant of T+0, and End when the run was over, before the
	// clients were closed. What came later is not in the History.
	Zero time.Time     `json:"zero"`
	End  time.Duration `json:"end_ns"`
	// Scale is how many times faster than the process's time the experiment's own
	// time runs. 0 is 1.
	Scale float64 `json:"time_scale"`
	// Soon is how long something may take, in the process's time, that has
	// nothing to wait for: an event on an open stream, an answer, a report. Less
	// than that before the End nothing can be missed. 0: [DefaultSoon].
	Soon time.Duration `json:"soon_ns"`
	// Patience is how long a call may take before it hangs, in the process's time.
	// It is no less than Soon.
	Patience time.Duration `json:"patience_ns"`

	Oracle    Oracle     `json:"oracle"`
	Clients   []Client   `json:"clients"`
	Balancers []Balancer `json:"balancers"`
	Faults    []Fault    `json:"faults"`
}

// Oracle is what the server's oracle knows: the truth. See package mcpserver for
// what its fields mean.
type Oracle struct {
	Sessions []Session `json:"sessions"`
	Events   []Event   `json:"events"` // in the order of the log
	Requests []Request `json:"requests"`
	Asks     []Ask     `json:"asks"`
	Answers  []Answer  `json:"answers"`
	Dropped  int       `json:"dropped"`
}

// Session is one life of a session.
type Session struct {
	ID      string         `json:"id"`
	Created time.Duration  `json:"created_ns"`
	Died    *time.Duration `json:"died_ns,omitempty"`
	Why     mcpserver.Why  `json:"why,omitempty"`
	Replica int            `json:"replica"`
	Adopted bool           `json:"adopted,omitempty"`
}

// Event is one message in the event log.
type Event struct {
	Stamp   mcpserver.Stamp `json:"stamp"` // zero: the message has none
	Session string          `json:"session"`
	ID      string          `json:"id"`
	Stream  string          `json:"stream"`
	At      time.Duration   `json:"at_ns"`
	Alive   bool            `json:"alive"` // the session, when it was stored
}

// Request is one HTTP request that came to the server.
type Request struct {
	N          int            `json:"n"`
	At         time.Duration  `json:"at_ns"`
	Ended      *time.Duration `json:"ended_ns,omitempty"`
	Method     string         `json:"method"`
	RPC        string         `json:"rpc,omitempty"`
	Session    string         `json:"session,omitempty"`
	Cursor     string         `json:"cursor,omitempty"`
	Alive      bool           `json:"alive"`
	Status     int            `json:"status"`
	Replica    int            `json:"replica"`
	Rule       int            `json:"rule,omitempty"`
	Replayed   int            `json:"replayed,omitempty"`
	AnsweredAs string         `json:"answered_as,omitempty"`
}

// Ask is one server-to-client request.
type Ask struct {
	Session   string          `json:"session"`
	ID        int64           `json:"id"`
	Method    string          `json:"method"`
	Call      string          `json:"call,omitempty"`
	Stamp     mcpserver.Stamp `json:"stamp"`
	At        time.Duration   `json:"at_ns"`
	SentAgain int             `json:"sent_again"`
	Answered  *time.Duration  `json:"answered_ns,omitempty"`
	Cancelled *time.Duration  `json:"cancelled_ns,omitempty"`
	Why       mcpserver.Why   `json:"why,omitempty"`
}

// Answer is one POST that answers a server-to-client request.
type Answer struct {
	At      time.Duration `json:"at_ns"`
	Request int           `json:"request"`
	Session string        `json:"session"`
	ID      string        `json:"id"`
	Status  int           `json:"status"`
	Taken   bool          `json:"taken"`
}

// Client is what one client's log has, sorted by what it is about.
type Client struct {
	// Name is its own in the run. Arm and Kind are those of the journal.
	Name string      `json:"name"`
	Arm  string      `json:"arm"`
	Kind client.Kind `json:"kind"`

	Began     []Began        `json:"began"`
	Failed    []Failed       `json:"failed"`
	Left      []Began        `json:"left"` // by the application, of its own accord
	Reports   []Report       `json:"reports"`
	Applied   []Applied      `json:"applied"`
	Prompts   []Prompt       `json:"prompts"`
	Calls     []Call         `json:"calls"`
	Exchanges []Exchange     `json:"exchanges"`
	Guard     []Decision     `json:"guard"`
	Closed    *time.Duration `json:"closed_ns,omitempty"`
	Dropped   int            `json:"dropped"`
}

// Began is a session that a client has begun, or left.
type Began struct {
	At      time.Duration `json:"at_ns"`
	Session string        `json:"session"`
}

// Failed is a session that it could not begin.
type Failed struct {
	At  time.Duration `json:"at_ns"`
	Err string        `json:"err"`
}

// Report is that the application was told that a session is over.
type Report struct {
	At      time.Duration `json:"at_ns"`
	Session string        `json:"session"`
	By      client.By     `json:"by"`
	Dead    bool          `json:"dead"`
	Err     string        `json:"err,omitempty"`
}

// Applied is a notification that was handed to the application.
type Applied struct {
	At     time.Duration   `json:"at_ns"`
	Method string          `json:"method"`
	Stamp  mcpserver.Stamp `json:"stamp"`
}

// Prompt is a request of the server's that was put to the person.
type Prompt struct {
	Ref       int             `json:"ref"`
	At        time.Duration   `json:"at_ns"`
	Method    string          `json:"method"`
	Stamp     mcpserver.Stamp `json:"stamp"`
	Answered  *time.Duration  `json:"answered_ns,omitempty"`
	Action    client.Action   `json:"action,omitempty"`
	Withdrawn *time.Duration  `json:"withdrawn_ns,omitempty"`
}

// Call is a tool call.
type Call struct {
	Ref     int             `json:"ref"`
	At      time.Duration   `json:"at_ns"`
	Tool    string          `json:"tool"`
	Session string          `json:"session,omitempty"`
	Ended   *time.Duration  `json:"ended_ns,omitempty"`
	How     client.Outcome  `json:"how,omitempty"` // "" while it is open
	Code    int64           `json:"code,omitempty"`
	Err     string          `json:"err,omitempty"`
	Stamp   mcpserver.Stamp `json:"stamp"` // of the result
}

// Exchange is one HTTP exchange, as it was seen at a layer.
type Exchange struct {
	Ref     int            `json:"ref"`
	Layer   client.Layer   `json:"layer"`
	At      time.Duration  `json:"at_ns"` // when the request set out
	Method  string         `json:"method"`
	RPC     string         `json:"rpc,omitempty"`
	Session string         `json:"session,omitempty"` // as sent; of initialize, as answered
	Cursor  string         `json:"cursor,omitempty"`
	Headed  *time.Duration `json:"headed_ns,omitempty"`
	Status  int            `json:"status,omitempty"`
	Type    string         `json:"content_type,omitempty"`
	// Delivered are the events that were read from the body, at the edge only.
	Delivered []Delivered    `json:"delivered,omitempty"`
	Over      *time.Duration `json:"over_ns,omitempty"`
	Bytes     int64          `json:"bytes,omitempty"`
	Err       string         `json:"err,omitempty"`
}

// Delivered is an event that a client has read.
type Delivered struct {
	At time.Duration `json:"at_ns"`
	ID string        `json:"id"`
}

// Decision is something that the middleware has decided. See
// [middleware.Event].
type Decision struct {
	At      time.Duration `json:"at_ns"`
	Kind    string        `json:"kind"`
	Session string        `json:"session"`
	Cursor  string        `json:"cursor,omitempty"`
	Method  string        `json:"method,omitempty"`
	Request string        `json:"request,omitempty"`
	RPC     string        `json:"rpc,omitempty"`
	Verdict string        `json:"verdict,omitempty"`
	Status  int           `json:"status,omitempty"`
	Events  int           `json:"events,omitempty"`
	Bytes   int64         `json:"bytes,omitempty"`
	Took    time.Duration `json:"took_ns,omitempty"`
	Err     string        `json:"err,omitempty"`
}

// Balancer is what one load balancer has reported.
type Balancer struct {
	Name   string          `json:"name"`
	Events []BalancerEvent `json:"events"`
}

// BalancerEvent is one thing that happened to a request. See [lb.Event].
type BalancerEvent struct {
	At     time.Duration `json:"at_ns"`
	Kind   string        `json:"kind"`
	Stream uint64        `json:"stream"`
	Method string        `json:"method,omitempty"`
	Status int           `json:"status,omitempty"`
	Bytes  int64         `json:"bytes,omitempty"`
	Expiry lb.Expiry     `json:"expiry,omitzero"`
	Err    string        `json:"err,omitempty"`
}

// Fault is something that was broken on purpose, and when that was undone.
type Fault struct {
	Name   string         `json:"name"`
	At     time.Duration  `json:"at_ns"`
	Undone *time.Duration `json:"undone_ns,omitempty"`
}

func (h *History) soon() time.Duration {
	if h.Soon > 0 {
		return h.Soon
	}
	return DefaultSoon
}

func (h *History) patience() time.Duration { return max(h.Patience, h.soon()) }

func (h *History) scale() float64 {
	if h.Scale > 0 {
		return h.Scale
	}
	return 1
}

// scaled is a moment, or a length, in the experiment's own time.
func (h *History) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * h.scale())
}
