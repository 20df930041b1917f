package experiment

import "github.com/revenant-mcp/revenant/middleware"

// ClientKind names a kind of client.
type ClientKind string

// The kinds of clients. A journal's arms have these names.
const (
	GoSDK ClientKind = "gosdk" // github.com/modelcontextprotocol/go-sdk
	MCPGo ClientKind = "mcpgo" // github.com/mark3labs/mcp-go
	Naive ClientKind = "naive" // net/http alone, which resumes and believes
)

// ClientKinds returns all kinds, in the order in which they are shown.
func ClientKinds() []ClientKind { return []ClientKind{GoSDK, MCPGo, Naive} }

// Clients are the clients of one arm, by their kind. At least one is required.
type Clients struct {
	_ struct{}

	// GoSDK are clients of the official SDK for Go. They resume both kinds of
	// streams with a cursor.
	GoSDK *Client `json:"gosdk,omitzero"`

	// MCPGo are clients of mcp-go. They open their standalone stream again without
	// a cursor, every second in real time, and resume the stream of a call only
	// after a clean end.
	MCPGo *Client `json:"mcpgo,omitzero"`

	// Naive are plain HTTP clients that resume with a cursor, and take every 200
	// for a living session.
	Naive *Client `json:"naive,omitzero"`
}

// Client is how the clients of one kind are used.
type Client struct {
	_ struct{}

	// Count is how many there are in each arm, up to 10000. Default: 1.
	Count int `json:"count,omitzero" check:"min=1,max=10000"`

	// StandaloneStream is whether they open the standalone stream. Without it
	// every stream is that of a call. Default: true.
	StandaloneStream *bool `json:"standalone_stream,omitzero"`

	// OnSessionEnd is what an application does when it has been told that its
	// session is over, at a reconnect or by a call: initialize, begin another one
	// at once, for which later calls wait; nothing. Default: initialize.
	OnSessionEnd OnSessionEnd `json:"on_session_end,omitzero"`
}

// OnSessionEnd is what an application does when its session is over. "" is
// [Initialize].
type OnSessionEnd string

// What an application may do.
const (
	Initialize OnSessionEnd = "initialize" // begin another session
	DoNothing  OnSessionEnd = "nothing"    // until a step has it connect
)

// Streams is whether the clients open the standalone stream.
func (c *Client) Streams() bool { return c.StandaloneStream == nil || *c.StandaloneStream }

// Number is Count with its default.
func (c *Client) Number() int { return max(1, c.Count) }

// Of returns the clients of a kind, nil if there are none.
func (c *Clients) Of(kind ClientKind) *Client {
	switch kind {
	case GoSDK:
		return c.GoSDK
	case MCPGo:
		return c.MCPGo
	case Naive:
		return c.Naive
	}
	return nil
}

// Kinds returns the kinds of which there are clients.
func (c *Clients) Kinds() []ClientKind {
	var kinds []ClientKind
	for _, k := range ClientKinds() {
		if c.Of(k) != nil {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Person is who answers what the server asks. Each client has one, and so much
// patience has its model, too.
type Person struct {
	_ struct{}

	// Replies has what they do about the first prompt that their client shows
	// them, the second, and so on. The last one is for all further prompts.
	// Default: they accept all of them at once.
	Replies []Reply `json:"replies,omitzero" check:"max=100"`
}

// Reply is what a person does about one prompt.
type Reply struct {
	_ struct{}

	// After is how long they take. Default: none.
	After Duration `json:"after,omitzero"`

	// Action is what they do then: accept, decline, cancel, or never, which leaves
	// the prompt where it is. Default: accept.
	Action PersonAction `json:"action,omitzero"`
}

// PersonAction is what a person does about a prompt. "" is [Accept].
type PersonAction string

// What a person may do.
const (
	Accept  PersonAction = "accept"
	Decline PersonAction = "decline"
	Cancel  PersonAction = "cancel"
	Never   PersonAction = "never"
)

// Middleware is the settings of the protected arm's middleware, as
// middleware.Config has them. What is not set is its default, in real time, but
// for StaleGrace.
type Middleware struct {
	_ struct{}

	// SessionHeader names the header that carries the session id. Default:
	// Mcp-Session-Id.
	SessionHeader string `json:"session_header,omitzero" check:"max=100"`

	// ProbeMethod is the JSON-RPC method of the probe. Default: ping.
	ProbeMethod string `json:"probe_method,omitzero" check:"max=100"`

	// ProbeLiveErrorCodes are JSON-RPC error codes, besides -32601, that show a
	// living session. Default: none.
	ProbeLiveErrorCodes []int `json:"probe_live_error_codes,omitzero" check:"max=50"`

	// ProbeDeadStatusCodes are statuses from 400 to 599, besides 404 and 410, that
	// show a dead session. Default: none.
	ProbeDeadStatusCodes []int `json:"probe_dead_status_codes,omitzero" check:"max=50"`

	// ProbeTimeout bounds one attempt of a probe. Default: 5 s in real time.
	ProbeTimeout Duration `json:"probe_timeout,omitzero" check:"real=50ms"`

	// ProbeBudget bounds all attempts of one hold. Not less than ProbeTimeout.
	// Default: 15 s in real time.
	ProbeBudget Duration `json:"probe_budget,omitzero" check:"real=50ms"`

	// AmbiguousRounds is how many reconnects in a row may end without a verdict
	// before the session is declared unusable. Default: 3.
	AmbiguousRounds int `json:"ambiguous_rounds,omitzero" check:"min=1,max=1000"`

	// MaxHeldBytes bounds what is held of one replay. Default: 1 MiB.
	MaxHeldBytes int `json:"max_held_bytes,omitzero" check:"min=256,max=1073741824"`

	// MaxEventBytes bounds one event. Default: 16 MiB.
	MaxEventBytes int `json:"max_event_bytes,omitzero" check:"min=256,max=1073741824"`

	// LivenessLease lets events through only within that time of the last proof of
	// life. Default: off.
	LivenessLease Duration `json:"liveness_lease,omitzero" check:"real=20ms"`

	// Pending is what becomes of requests of the server's that come again:
	// reconcile, strict or off. Default: reconcile.
	Pending Pending `json:"pending,omitzero"`

	// StaleGrace is how long after its answer a request must still be replayed to
	// be found stale. Default: 1m, in the record's time like all of this file.
	StaleGrace Duration `json:"stale_grace,omitzero" check:"real=20ms"`

	// Terminal is how a client learns that its session is over: response, a 404;
	// error, an error of the round trip. Default: response.
	Terminal Terminal `json:"terminal,omitzero"`

	// MaxSessions bounds the sessions of which state is kept. Default: 4096.
	MaxSessions int `json:"max_sessions,omitzero" check:"min=1,max=16777216"`
}

// Pending is the text of a middleware.Pending. "" is [Reconcile].
type Pending string

// The texts.
const (
	Reconcile Pending = "reconcile"
	Strict    Pending = "strict"
	Off       Pending = "off"
)

// Terminal is the text of a middleware.Terminal. "" is [Response].
type Terminal string

// The texts.
const (
	Response     Terminal = "response"
	TerminalFail Terminal = "error"
)

var (
	pendings  = map[Pending]middleware.Pending{"": 0, Reconcile: middleware.PendingReconcile, Strict: middleware.PendingStrict, Off: middleware.PendingOff}
	terminals = map[Terminal]middleware.Terminal{"": 0, Response: middleware.TerminalResponse, TerminalFail: middleware.TerminalError}
)
