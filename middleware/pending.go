package middleware

import (
	"encoding/json"
	"strings"
)

// Pending says what becomes of a server-to-client request, such as
// `elicitation/create`, that a session's streams bring more than once. Ids of
// requests are never used twice within a session (MCP 2025-11-25 basic,
// requests). A ping is none of these, nor is any method without a slash: they
// pass as often as they come.
type Pending uint8

const (
	// PendingReconcile, the zero value: a request reaches the application
	// once. What comes again is kept back, until it is certain that the server
	// no longer waits: then the client's call that it belongs to fails once,
	// with the JSON-RPC error −32001. A request that a replay brings first is
	// delivered, unless its cancellation or its call's answer came with it.
	PendingReconcile Pending = iota
	// PendingStrict fails the call of every replayed request that does not
	// assert its liveness, and of every one that was never seen before. What
	// arrives before the verdict, or within a second of the reconnect's answer,
	// counts as replayed.
	PendingStrict
	// PendingOff lets every request through as often as it comes.
	PendingOff
)

var pendingNames = [...]string{PendingReconcile: "reconcile", PendingStrict: "strict", PendingOff: "off"}

// String returns "reconcile", "strict" or "off".
func (p Pending) String() string {
	if int(p) < len(pendingNames) {
		return pendingNames[p]
	}
	return "unknown"
}

// ReplayedRequest is a server-to-client request that has come again, for
// [Config.LivenessAssertion]. Its values must not be changed, nor kept.
type ReplayedRequest struct {
	// SessionID is the session, in full.
	SessionID string
	// RequestID is the JSON-RPC id as the server wrote it, in JSON.
	RequestID string
	// Method is the JSON-RPC method, such as "elicitation/create".
	Method string
	// FirstMeta is `params._meta` as last delivered, nil for none. A request
	// whose _meta exceeds 4 KiB is never asserted.
	FirstMeta json.RawMessage
	// Meta is `params._meta` now, nil for none, and Message the whole message.
	Meta, Message json.RawMessage
}

// livenessToken is the `_meta` entry by which a server says that it still waits
// for a request: it is a new one whenever the request is sent again.
const livenessToken = "revenant/livenessToken"

func freshToken(r ReplayedRequest) bool {
	first, _ := parseRPC(r.FirstMeta)
	now, _ := parseRPC(r.Meta)
	token := strings.TrimSpace(string(now[livenessToken]))
	return token != "" && token != "null" && token != strings.TrimSpace(string(first[livenessToken]))
}
