// Package demo replays the two records that this project began with, on real
// sockets, in two arms at the same time: a go-sdk client on the bare transport
// and the same client with the middleware in between. Each arm has a server
// and a load balancer of its own, and all of it runs in this process, on
// loopback.
//
// It is for people who want to see the defects before they believe in them. It
// is not an experiment that can be configured: the methods are the records', and
// only the clock is scaled.
//
// What happens is recorded while it happens ([Recording]); every number and the
// verdict are computed afterwards from the two recordings and nothing else. What
// one record is made of, from its settings to its table, is a [Record]: the
// files that begin with its name.
package demo
