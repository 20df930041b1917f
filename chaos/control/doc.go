// Package control is the control plane's contract: what a daemon keeps, in the
// words of its JSON API, and a [Client] for it. Who wants a daemon uses package
// daemon; who wants to talk to one needs this package alone.
//
// A daemon keeps resources, each under a name of its kind: MCP servers and load
// balancers, which run for as long as they are there, and experiments, which are
// definitions to run. A run of an experiment is an operation: it is begun,
// followed, and leaves a journal.
//
// # Writing
//
// A resource is written as a whole. Its Generation counts its changes, and whoever
// changes one says which generation they have seen, so that of two who change it
// at once one is told. To write what is there already changes nothing.
//
// # Errors
//
// Errors of the API are problems (RFC 9457), of type application/problem+json: a
// [Problem] says what was wrong, with which field, and what would be right.
package control
