// Package interop holds the middleware against the real thing: the clients and
// the servers of the Go SDKs, go-sdk and mcp-go, and a model client and server
// under a property test. It has tests only. They live here and not in
// middleware, whose module requires nothing.
//
// The tests run in virtual time wherever a stream is cut or a clock runs out:
// the seeds' half hours take milliseconds, and times are asserted exactly. The
// tests that need sockets, TLS or HTTP/2 run on loopback and assert no times.
package interop
