// Package middleware is a [net/http.RoundTripper] that keeps an MCP client from
// believing that its session lives because its event stream does.
//
// MCP over streamable HTTP resumes a broken stream with Last-Event-ID, and the
// server replays what it has logged. Log and session are two stores: the replay
// proves that the log lives, and the session may be long gone. A [Transport]
// holds what a reconnect replays, asks the server something that it must check
// against its session store, and then releases the events or quarantines them:
//
//	t, err := middleware.New(middleware.Config{})
//	client := &http.Client{Transport: t}
//
// It depends on the standard library alone and works below any client that
// takes an [net/http.Client].
//
// # What it does
//
//   - A request without a session id, or of MCP 2026-07-28 or later, MUST pass
//     untouched. The first GET of a session MUST NOT be delayed.
//   - A GET with Last-Event-ID, or any GET of a session whose standalone stream
//     was open before, is a reconnect. Its events MUST NOT reach the client
//     before a probe that was sent after the replay had opened says Live; then
//     they MUST reach it first, byte for byte.
//   - 404 or 410 to a request that carries the session id is Dead. What is not
//     known to live is Ambiguous, and nothing is released.
//   - A dead session is fenced: later requests with its id MUST NOT reach the
//     wire, and what is in flight is cancelled before the client hears of it.
//   - The client gets one terminal outcome, 404, from which [ErrorFrom] recovers
//     the typed error. The middleware MUST NOT repeat a request of the client's,
//     but for a reconnecting GET: one that was answered 409, 429 or 5xx, or one
//     on which the server refused a cursor that the client had lost.
//   - A server-to-client request, an elicitation say, MUST reach the application
//     at most once in a session, unless a replay asserts that the server still
//     waits. Where the server no longer does, the client's own call fails once,
//     with the JSON-RPC error −32001, so that the application can issue it
//     anew: see [Config.Pending].
//
// # What it cannot do
//
// A server that checks only the form of a session id, or a gateway that answers
// the probe for a dead upstream, says Live of a dead session. An
// [net/http.Client] with a Timeout cuts every stream after that time, guarded or
// not: leave it 0.
package middleware
