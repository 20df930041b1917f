// Package lb is the load balancer of the chaos suite: one set of knobs, a
// [Config], in front of three engines. [Embedded] runs in this process, and its
// idle clock and its way of cutting a stream are under control to the byte.
// [HAProxy] and [NGINX] are the real programs, run as child processes.
//
// It is for experiments that need to know to the byte what a client sees when
// a load balancer gives up: a FIN without the terminating chunk, a reset, a
// clean end, or nothing at all. docs/load-balancers.md has what each engine can
// do and what was measured. Engine embedded also serves tests in virtual time,
// in both modes: hand it an in-memory listener and dialer.
//
// It is not for production traffic. Engine embedded speaks neither TLS nor
// HTTP/2, refuses CONNECT, drops Upgrade and passes no 1xx response of the
// upstream on. An upstream that breaks off before its response headers, while the
// client pauses in the middle of its request body, is noticed only at the next
// byte of that.
//
// # Limits
//
// Every request has clocks of its own, which start when its headers have been
// read. (In TCP mode a connection has them, from its beginning, and there is no
// HeaderTimeout.) The idle clock starts again at each byte of that request's body
// or of its response, so a keepalive comment keeps a stream alive. A byte counts
// when it has been read from its sender, and once more when the write to the
// client is complete: a client that does not read is as idle as a silent
// upstream. Nothing starts the clocks of HeaderTimeout and MaxDuration again.
// When one has run out, a request without response headers is answered with
// [Config].HeaderStatus, and a response under way is cut as [Config].OnExpiry
// says.
//
// # Programs
//
// An engine refuses, in [Config.Validate], every setting that it cannot carry out.
// Before a program is started it checks its configuration itself. It inherits the
// socket that [New] has bound, so no port is ever lost to somebody else. It runs
// in a process group of its own with its files in a private directory, and
// neither survives the owner, whatever ends that: see internal/child.
//
// Tested with haproxy 2.6.12 and nginx 1.22.1, those of Debian 12.
package lb
