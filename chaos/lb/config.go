package lb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// DefaultAddr is where a [LoadBalancer] listens if its [Config] does not say: a
// free port on loopback.
const DefaultAddr = "127.0.0.1:0"

// Config is the settings of a [LoadBalancer]. Only Upstream is required. A
// Config is copied by [New] and may be changed afterwards.
type Config struct {
	_ struct{}

	// Addr is the TCP address to listen on, as host:port. Port 0 is any free
	// one. "": [DefaultAddr]. Unused if Listener is set.
	Addr string

	// Listener accepts the clients' connections, in place of a listener of
	// New's own. Once New has succeeded it belongs to the LoadBalancer, which
	// closes it; if New fails it is still the caller's. nil: listen on Addr.
	Listener net.Listener

	// Upstream is where every request goes, as host:port. Required.
	Upstream string

	// Dial connects to Upstream. It has to give up when its context ends: that
	// is when the request that needs the connection is over. nil: a
	// [net.Dialer].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// IdleTimeout is how long a request may be without a byte in either
	// direction: see the package comment. Within it a client also has to
	// complete its request headers, and to send its next request if it keeps
	// its connection. 0: without limit.
	IdleTimeout time.Duration

	// OnExpiry is what a client sees when IdleTimeout is reached in the middle
	// of a response. The zero value is FIN.
	OnExpiry Expiry

	// Observe, if not nil, is told what happens to each request. It is called
	// synchronously, never under a lock, by the goroutine that serves the
	// request: from several at once, and holding up only that request. It may
	// call [LoadBalancer.Cut]; it must not wait for Run to return. All calls
	// have returned when Run returns.
	Observe func(Event)
}

// compile returns c with its defaults filled in, or every fault of it.
func (c Config) compile() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("lb: Config."+format, args...))
	}

	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if _, err := splitAddr(c.Addr); err != nil {
		fault("Addr is %q, want host:port: %w", c.Addr, err)
	}
	if c.Upstream == "" {
		fault("Upstream is empty, want host:port")
	} else if port, err := splitAddr(c.Upstream); err != nil {
		fault("Upstream is %q, want host:port: %w", c.Upstream, err)
	} else if port == 0 || c.Upstream[0] == ':' {
		fault("Upstream is %q, want a host, and a port from 1 to 65535", c.Upstream)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.IdleTimeout < 0 {
		fault("IdleTimeout is %v, want 0 for no limit, or more", c.IdleTimeout)
	}
	if !c.OnExpiry.valid() {
		fault("OnExpiry is %v, want one of %q", c.OnExpiry, expiryNames)
	}
	return c, errors.Join(faults...)
}

// splitAddr returns the port of addr, which has to be a number: names of
// services mean different things on different machines.
func splitAddr(addr string) (port uint16, err error) {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	return uint16(n), err
}
