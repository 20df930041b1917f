// Package daemon is the daemon behind the control plane's API: it keeps servers
// and load balancers running, runs experiments, and has all of it in a database,
// so that after its end, whatever that was, the next one goes on from there. It is
// for the command line; HTTP is package server's part.
//
// # What lasts
//
// What a method of [Daemon] has acknowledged is on the disk. A resource keeps its
// addresses until it is deleted, and is started with them again. A run that was
// active when a daemon ended is interrupted, and one that was queued still is.
//
// # What runs
//
// Servers and the embedded load balancers run in this process, and the programs of
// the others, as all that an experiment breaks, end with it: see packages lb and
// engine. What ends by itself has failed, and is started again, after a pause that
// grows. So is what cannot start, because somebody has its port for example.
//
// # One at a time
//
// Those who change the same resource wait for each other, and those who change
// different ones do not, but for the moment of the decision: what may refer to
// what, who has which address, and what is written down is decided by one at a
// time. A server's turn is taken before those of the load balancers before it.
package daemon
