package experiment

import "github.com/revenant-mcp/revenant/chaos/mcpserver"

// Rule makes certain requests go wrong at the servers. Delay and one of Status,
// Hang and ReapAfterReplay go together; one of the four is required.
type Rule struct {
	_ struct{}

	// On is which kind of request: any, get, get_first (of a session that had no
	// stream before), get_resume (a reconnect), post or delete. Default: any.
	On mcpserver.On `json:"on,omitzero"`

	// RPC is the JSON-RPC method that a POST must have, such as ping, or response
	// for a client's answer. Only with on: post. Default: any.
	RPC string `json:"rpc,omitzero" check:"max=100"`

	// Count says which requests are counted together: session, those of the same
	// session; server, all. Default: session.
	Count mcpserver.Count `json:"count,omitzero"`

	// From is the first request that it is about, counted from 1. Default: 1.
	From int `json:"from,omitzero" check:"min=1,max=1000000"`

	// To is the last one. Default: without end.
	To int `json:"to,omitzero" check:"min=1,max=1000000"`

	// Delay is how long the request waits before anything else is done about it.
	Delay Duration `json:"delay,omitzero" check:"real=5ms"`

	// Status, from 200 to 599, answers the request. Default: it is served.
	Status int `json:"status,omitzero" check:"min=200,max=599"`

	// RetryAfter is the answer's header, which has whole seconds: in real time,
	// too. Only with a status. Default: none.
	RetryAfter Duration `json:"retry_after,omitzero" check:"seconds"`

	// ContentType is the answer's. Only with a status.
	ContentType string `json:"content_type,omitzero" check:"max=200"`

	// Body is the answer's. Only with a status.
	Body string `json:"body,omitzero" check:"max=65536"`

	// Hang gives no answer for as long as the client waits.
	Hang bool `json:"hang,omitzero"`

	// ReapAfterReplay has the server lose the session of a GET when the replay has
	// been written, and before anything else is. Only with on: get, get_first or
	// get_resume.
	ReapAfterReplay bool `json:"reap_after_replay,omitzero"`
}
