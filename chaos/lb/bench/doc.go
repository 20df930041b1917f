// Package bench measures the load balancers of chaos/lb against each other, and
// against toxiproxy if there is one. It has benchmarks only, for Linux, whose
// /proc tells what a process uses: scripts/bench.sh runs them and prints the
// rows, docs/load-balancers.md says how they are to be read.
//
// Upstream, load balancer and clients are processes of their own, so that what
// is measured of a load balancer is that alone: the benchmark has the clients,
// and starts itself again in the other roles.
package bench
