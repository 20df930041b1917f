// Package server is the control plane over HTTP: a [control.Backend] as the JSON
// API that openapi.yaml describes, with metrics, and with pages for people. It
// keeps nothing but what it needs to know who is who.
//
// # Who may ask
//
// The daemon is local, and so is every browser: any page that somebody has open
// could try to reach it. So
//
//   - a request must name the daemon by a host that is known to be its own, or it
//     is refused, whatever it wants. On a Unix socket any name will do;
//   - a request must bring the token, as a bearer, except on a Unix socket, whose
//     permissions say who may ask. Only /healthz, the form to log in and its style
//     are for everybody;
//   - a request of a browser that changes anything must come from a page of this
//     server. The rule is that of [net/http.CrossOriginProtection], on a Unix socket
//     too, since something may stand before that.
//
// A browser gives the token once, in a form, and gets a cookie that no script can
// read, that is not the token, and that ends after [SessionLength] or with the
// server. It opens the pages and reads the API, and the forms on the pages can be
// sent with it: each has a token of its own. The API takes no changes with it.
// Cookies know no ports, so other servers on the same host may see it; that is why
// it is worth so little.
//
// # What is bounded
//
// Headers, bodies, and the time that anything takes: that to read a request, that
// of the backend for an answer, and that of each write to who reads slowly.
// Streams last as long as the run, and are kept alive with comments.
//
// # The log
//
// One line for each request has its method, the pattern of its route, status and
// duration. What a request says is not in it: no path, query, header or body.
package server
