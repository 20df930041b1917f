// Package revenant holds no code: it is where the module is described and
// where the test of its architecture lives.
//
// A revenant is what comes back looking alive. In the streamable HTTP transport
// of MCP it is a session: a client reconnects its stream of events with
// Last-Event-ID, the server replays from a log and answers 200, and the client
// concludes that the session lives, though its record may be long gone. A
// successful replay proves that the log lives; only a request that the server
// must check against its session store proves that the session does.
//
// Whoever writes an MCP client or gateway wants
// [github.com/revenant-mcp/revenant/middleware], a [net/http.RoundTripper] in a
// module of its own that needs the standard library and nothing else. This
// module is what proves it: the folders under chaos break connections and
// sessions on purpose, interop drives the middleware with the real MCP clients,
// examples are programs to start from, and cmd/revenant is the command line.
// CONTRIBUTING.md has the tree.
package revenant
