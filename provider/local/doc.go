// Package local is the daemon that the Terraform provider starts for itself, from
// both sides: [Daemon] finds the one that has a data directory, or starts it, and
// talks to it; [Serve] is that process.
//
// There is one daemon for each data directory, whoever starts it: package daemon's
// lock decides between those that start at once, and who loses talks to the winner.
// It is asked over a Unix socket in the directory, at the place where revenant serve
// has its own, so that either can use the other's.
//
// # How it ends
//
// A daemon of Serve ends when it keeps nothing any more, runs nothing, and has not
// been asked for a while. It then takes away its files, all but the log. Somebody
// may come just then: it looks once more when nobody can reach it, and who finds it
// gone starts the next one.
package local
