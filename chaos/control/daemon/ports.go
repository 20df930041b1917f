package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
)

// The ports that are given away: below those that systems give to outgoing
// connections (32768 on Linux, 49152 elsewhere), so that no such connection has
// one when its resource is started again.
const (
	firstPort = 20000
	lastPort  = 29999
	attempts  = 200
)

// loopback is where ports are given away.
const loopback = "127.0.0.1"

// reserve binds a port that is free on a host, and not kept for anybody.
func reserve(host string, kept func(addr string) bool) (net.Listener, error) {
	var last error
	for range attempts {
		addr := net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)))
		if kept(addr) {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port from %d to %d: %w", firstPort, lastPort, errors.Join(last))
}

// checkListen says what is wrong with an address to listen on, "" for nothing. port
// is 0 where any free one is wanted.
func checkListen(addr string) (at netip.AddrPort, fault string) {
	at, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return at, fmt.Sprintf("is %q, want an address and a port, such as %s:8080", addr, loopback)
	case !at.Addr().IsLoopback() || at.Addr().Zone() != "":
		return at, fmt.Sprintf("is %q, want an address that only this machine can reach, such as %s:%d", addr, loopback, at.Port())
	}
	return at, ""
}
