// Package history is the record of an experiment's run as plain values, and the
// pure functions that count over it.
//
// It is for the experiment engine, which makes a [History] with [New] of what
// the oracle, the clients' logs and the load balancers have, asks the [Measures]
// of it, and has [Arm] fill the journal. It observes nothing, and waits for
// nothing: the same History gives the same numbers, today and from its JSON.
//
// # Problems
//
// Each function first checks the assumptions without which its number would mean
// nothing: that nothing is missing, that clocks agree, that the oracle saw every
// request on the wire, that every stamp is known. Where one does not hold, the
// error is [Problems], which say why, and the number means nothing. It is not 0
// by default: an experiment of which nothing can be said is inconclusive. A
// function that panics has a Problem, too.
//
// # Time
//
// All moments are durations since [History.Zero] in the time of the process.
// The experiment's own time runs [History.Scale] times faster; what is meant for
// people, which is [Arm] and the Measures in seconds, is in that.
//
// # What counts as an event of a dead session
//
// An event that was handed to the application when its session was dead, and
// that was either stored after the death, or brought by a reconnect that set out
// after it was stored: a replay. What was on its way on an open stream when the
// session died is neither, and no client can know better.
package history
