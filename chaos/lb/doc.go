// Package lb is the load balancer of the chaos suite: an HTTP/1.1 reverse proxy
// in front of one upstream, whose idle clock and whose way of cutting a stream
// are under the control of whoever runs it.
//
// It is for experiments that need to know to the byte what a client sees when
// a load balancer gives up: a FIN without the terminating chunk, a reset, a
// clean end, or nothing at all. It also serves tests in virtual time: hand it
// an in-memory listener and dialer.
//
// It is not for production traffic. It speaks neither TLS nor HTTP/2, refuses
// CONNECT, drops Upgrade and passes no 1xx response of the upstream on. An
// upstream that breaks off before its response headers, while the client pauses
// in the middle of its request body, is noticed only at the next byte of that.
//
// # The idle clock
//
// Every request has a clock of its own. It starts when the request has been
// read and starts again at each byte of that request's body or of its response,
// so a keepalive comment keeps a stream alive. A byte counts when it has been
// read from its sender, and once more when the write to the client is complete:
// a client that does not read is as idle as a silent upstream. When the clock
// reaches [Config].IdleTimeout, a request without response headers is answered
// 504, and a response under way is cut as [Config].OnExpiry says.
package lb
