package client

import (
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// RecordKind says what a [Record] is about. Its text is its value.
type RecordKind string

// The kinds of records. The comments name the fields that are set beside N, At
// and Kind.
const (
	// Connected: a session has begun. SessionID.
	Connected RecordKind = "connected"
	// ConnectFailed: one has not. Err.
	ConnectFailed RecordKind = "connect_failed"
	// Left: the application leaves its session, by [Client.Disconnect]. SessionID.
	Left RecordKind = "left"
	// SessionOver: the application is told that its session is over, the first
	// time for each. SessionID, By, Dead, Err.
	SessionOver RecordKind = "session_over"

	// Applied: the application was handed a notification. SessionID, Method,
	// Stamp, zero if it had none.
	Applied RecordKind = "applied"
	// Prompted: a request of the server's is put to the person. SessionID,
	// Method, Stamp, zero if it had none; Ref numbers the client's prompts from 1.
	Prompted RecordKind = "prompted"
	// Answered: the person has answered it. As Prompted, and Action. The server
	// has not got it yet.
	Answered RecordKind = "answered"
	// Withdrawn: it was taken away before that. As Prompted, and Err.
	Withdrawn RecordKind = "withdrawn"

	// CallBegun: a tool is called. Tool; SessionID, "" if the call has to wait
	// for one; Ref numbers the client's calls from 1.
	CallBegun RecordKind = "call_begun"
	// CallEnded: what became of it. As CallBegun, with How, and with Code, Err,
	// and Stamp where there is one.
	CallEnded RecordKind = "call_ended"

	// Asked: an HTTP request sets out. Layer, HTTPMethod, Method of JSON-RPC,
	// SessionID, Cursor; Ref numbers the exchanges of the log from 1.
	Asked RecordKind = "asked"
	// Headed: the response's headers are there. Layer, Ref, Status, ContentType,
	// SessionID as the response names it.
	Headed RecordKind = "headed"
	// Delivered: a whole event with an id has been read from the response's body.
	// At the Edge only. Layer, Ref, EventID.
	Delivered RecordKind = "delivered"
	// Over: there is no more of it: the body has ended or was closed, or no
	// response came. Layer, Ref, Bytes of the response's body, Err unless it
	// ended in order.
	Over RecordKind = "over"

	// Decided: the middleware has decided something. Guard.
	Decided RecordKind = "decided"
	// Closed: the client is closed. What comes after that is its own leaving.
	Closed RecordKind = "closed"
)

// Layer is where an exchange was seen. Its text is its value.
type Layer string

// The layers.
const (
	Edge Layer = "edge" // between the client and the transport that it was given
	Wire Layer = "wire" // below the middleware
)

// By is where a session was found to be over. Its text is its value.
type By string

// The places.
const (
	ByReconnect By = "reconnect" // a GET, or the probe after it
	ByCall      By = "call"      // any other request
)

// Outcome is how a call ended. Its text is its value.
type Outcome string

// The outcomes.
const (
	Result         Outcome = "result"          // the tool's result
	ToolError      Outcome = "tool_error"      // the tool's result, which says that it is an error
	RPCError       Outcome = "rpc_error"       // a JSON-RPC error, with its code
	SessionError   Outcome = "session_error"   // the client's word for a session that is over, or that it has none
	TransportError Outcome = "transport_error" // any other error of the client's
	Hanging        Outcome = "hanging"         // open when it was given up: after its timeout, or with its session or the client
)

// StaleCode is the code of the JSON-RPC error by which the middleware fails a
// call whose request nobody waits for.
const StaleCode = -32001

// Record is one thing that happened to a client. Which fields are set, its kind
// says.
type Record struct {
	N    int       // from 1, in the order of the log
	At   time.Time // with a monotonic reading, and never before that of the record before
	Kind RecordKind
	Ref  int

	SessionID string // in full
	Stamp     mcpserver.Stamp
	Method    string // of JSON-RPC; "response" for an answer to the server

	Tool   string
	How    Outcome
	Code   int64
	Action Action
	By     By
	// Dead is whether the client was told that the server does not know the
	// session: a 404, a 410 or the middleware's error. Otherwise it has given up.
	Dead bool
	Err  error

	Layer       Layer
	HTTPMethod  string
	Cursor      string
	Status      int
	ContentType string
	EventID     string
	Bytes       int64

	Guard *middleware.Event // nil but for Decided
}
