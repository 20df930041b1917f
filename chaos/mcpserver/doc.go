// Package mcpserver is a real MCP server for the chaos suite, in which a
// session's record and the log of its events are two stores with two
// lifetimes.
//
// The protocol is mcp-go's streamable HTTP server, unmodified. The session
// store and the event log behind it are this package's own, with knobs. That
// makes the defect visible that this project is about: when a session's record
// is gone and its log is not, a GET with Last-Event-ID is answered 200 with a
// replay, because it asks the log only, while a POST with the same session id
// is answered 404, because it asks the session store.
//
// Beside the server stands the [Oracle]. It knows for each event which session
// it belonged to and whether that lived, when each session died and why, and
// what every request was answered. Every message of the server carries a
// [Stamp], so that what a client was given can be held against what it should
// have been given.
//
// # Sessions as mcp-go sees them
//
// mcp-go queues a session's notifications in one channel, and the session's
// standalone stream and all of its POSTs in flight take from it whatever comes
// next. A message on the wrong stream would make every measurement a matter of
// luck. So mcp-go is shown one session for the standalone stream and one more
// for each POST; on the wire there is one. Everything that [Server.Emit] sends
// goes on the standalone stream, everything that a tool sends goes on the
// stream of its own call, and an answer that needs no stream is plain JSON and
// leaves nothing in the log.
//
// # What the server asks
//
// A server-to-client request that a tool makes goes on the stream of its call,
// and by default outlives that stream's connection. mcp-go has the means for
// elicitation/create alone, and drops an empty answer before it has looked for
// whom it is; so the requests, their ids and the wait for their answers are this
// package's, for all methods alike, and mcp-go carries them and judges the POSTs
// with the answers. Four knobs say what goes wrong: [Config.Replay],
// [Config.OnBreak], [Config.StaleAnswer] and [Config.LivenessToken]. The Oracle
// has an [Ask] for every request and an [Answer] for every answer, and
// [Oracle.Pending] lists what is open now.
//
// The death of its session ends a request as [BreakCancels] does: nothing is
// written, and the answer gets the 404 of a dead session. What deletes the
// session ends the call, too.
//
// # How it misbehaves
//
// By default a dead session is known to POSTs alone, and they get 404. Four knobs
// change what a client is told: [Config.GETChecksSession], [Config.UnknownSession],
// [Config.Conflict], and [Config.Cookie] for load balancers that look for one. A
// [Rule] makes single requests go wrong whatever the server's state: late,
// refused, answered by a page, or never. [Server.Reap] kills one session; with
// [Rule.ReapAfterReplay] that happens between a replay and all that follows.
// [Server.Restart] kills all, and keeps the log.
//
// A [Cluster] is several replicas over one log. Unless they share their sessions,
// a reconnect that comes to another replica gets its replay, and nothing more.
//
// The Oracle has all of it: [Request] says which replica a request came to, which
// rule was applied, and in whose name it was answered.
//
// # Other differences
//
// In three more things the server differs from mcp-go as it comes: a GET without
// a session id is refused with 400, where mcp-go opens a stream for a session
// that it tells nobody of; a handler's messages still reach the stream of a POST
// whose connection is broken; and what mcp-go holds for a dead session is
// discarded when its last event is forgotten and its last request has ended, no
// sooner: until then its open streams stay open.
//
// # Tools
//
//   - echo: answers its text.
//   - emit: sends count notifications on the stream of its call, then answers.
//   - work: sends a notification every interval_ms, events times, then answers.
//     It ends with its connection, as mcp-go's handlers do; with detached it
//     goes on, and whoever resumes the stream gets the rest. As with every call that
//     sends something, the answer's header comes with its first event.
//   - confirm: asks the user with elicitation/create in form mode, times times,
//     then works like work, and answers what the user did, one line for each
//     time: the action, and the content as JSON.
//   - confirm_url: the same in URL mode, once. When the user accepts, it sends
//     notifications/elicitation/complete before it answers.
//   - sample, roots, ping_client: ask the client with sampling/createMessage,
//     roots/list and ping, and answer what it answered.
//
// The last five ask whether or not the client has said that it can answer. They
// answer with isError what they could not learn: the client's error, an answer
// that is none, or a stream that broke.
//
// Only versions of MCP that have sessions are offered. It is a server for
// tests: it has no authentication, and whoever reaches it may make it work.
package mcpserver
