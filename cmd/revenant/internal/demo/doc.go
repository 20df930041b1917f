// Package demo replays the record that this project began with, on real
// sockets, in two arms at the same time: a go-sdk client on the bare transport
// and the same client with the middleware in between. Each arm has a server
// and a load balancer of its own, and all of it runs in this process, on
// loopback.
//
// It is for people who want to see the defect before they believe in it. It is
// not an experiment that can be configured: the method is the record's, and
// only the clock is scaled.
//
// What happens is recorded while it happens ([Recording]); every number and the
// verdict are computed afterwards from the two recordings and nothing else.
package demo
