// Package client is the real MCP clients of an experiment's arm behind one
// interface: one of go-sdk, one of mcp-go, and a naive one of our own. Each
// stands for a whole application: a [Client] keeps a session, calls tools, lets
// a [Person] answer what the server asks, and initializes again when it is told
// that its session is dead.
//
// It is for the experiment engine, which gives it an [net/http.RoundTripper],
// bare in the control arm and the middleware in the protected one, and reads its
// [Log] afterwards. It judges nothing: package history does.
//
// # What is logged
//
// A [Log] has what the application saw, and every HTTP exchange twice: at the
// [Edge], as the client asked for it and was answered, and on the [Wire], below
// the middleware. Without the middleware both are alike.
//
//	client ─ Edge ─ (middleware) ─ Wire ─ network
//
// Session ids stand there in full. What leaves the process names them by
// [journal.Abbreviate], as the JSON of package history does.
//
// # How the clients differ
//
// All are pinned to MCP 2025-11-25, the latest version that has sessions. Time
// is that of package time: where an experiment is scaled, the server's `retry`
// is what scales the reconnects, and these delays stay as they are:
//
//   - [GoSDK] waits for `retry`, else one second and more. It resumes with a
//     cursor, hands on whatever comes, and ends its session by itself after five
//     reconnects without progress, or at a status such as 400. Its close waits for
//     the calls that are under way, so these outlive a session that its application
//     leaves.
//   - [MCPGo] comes back on its standalone stream every second, whatever the
//     server says, and never with a cursor; it resumes the stream of a call after
//     a clean end only, after `retry`. It cancels what its person is asked when
//     the stream breaks, and after 30 seconds. It tells nobody of a dead session
//     before the next call: as its examples do, its application listens to the
//     middleware's hook, which is [Log.Observe]. Its Initialize must not run
//     beside a call, so a new session is a new mcp-go client.
//   - [Naive] waits for `retry`, else [DefaultRetry]. It resumes all streams with
//     a cursor for ever, and takes a 200 for proof that its session lives. A GET
//     that is answered 404 or 410 tells it of the death; a call so answered is
//     made again [naiveRetries] times before it believes it. It shows each
//     request that comes to its person, however often.
package client
