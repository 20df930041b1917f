// Package fault breaks the network between the parts of an experiment: what is
// broken, and how, is a value, and putting it in force returns its undo.
//
// There are two places to break. A [Link] is a TCP relay in user space, between
// a client and a load balancer or between that and a server; it needs no right,
// can tell one server-sent event from the next, and works in virtual time. A
// [Network] is three network namespaces of the Linux kernel in a row, with a
// router in the middle that forgets, drops and rejects real packets; it needs
// the right that [Available] asks for. docs/faults.md has the table of kinds.
//
// It is for the chaos suite. It is not a proxy to leave running, and not a way
// to break a network that somebody else uses: a [Network] changes nothing
// outside its own namespaces, and has no name by which anything could get in.
//
// # Undo
//
// A [Fault] is in force from the return of [Fault.Apply] to the call of its
// undo. A [Stack] keeps the undos of a run and calls all of them, the last
// first, when it is closed or its context ends. What the kernel holds for a
// process goes with the process, also after kill -9: no program, no name and no
// file is left to clean up.
package fault
