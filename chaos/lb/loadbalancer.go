package lb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
)

// LoadBalancer is a load balancer, whatever its engine is. It owns its listener
// and everything behind it: connections, or the program that it runs. Make one
// with [New]; its methods may be called from any goroutine.
type LoadBalancer struct {
	// Immutable after New.
	cfg      Config
	listener net.Listener
	engine   engine
	ready    chan struct{} // closed by run

	claimed atomic.Bool // by Run, or by a Close that came first
}

// engine does the balancing.
type engine interface {
	// run serves the clients of listener, and calls ready, once, when it does.
	// It closes the listener and leaves nothing behind. It returns nil if it
	// ends because ctx has.
	run(ctx context.Context, listener net.Listener, ready func()) error
	// cut cuts what is under way, in a way that CanCut allows.
	cut(how Expiry) int
}

// New validates cfg, reporting all its faults at once, and binds its port: from
// then on clients can connect, and wait. It starts nothing. The caller either
// calls Run, which frees the port when it ends, or Close.
//
// Where the program of the engine is missing, the error wraps [ErrMissing].
func New(cfg Config) (*LoadBalancer, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	l := &LoadBalancer{cfg: cfg, listener: cfg.Listener, ready: make(chan struct{})}
	switch {
	case cfg.Engine == HAProxy || cfg.Engine == NGINX:
		if l.engine, err = newProgram(cfg); err != nil {
			return nil, err
		}
	case cfg.Mode == TCP:
		l.engine = newTCPProxy(cfg)
	default:
		l.engine = newHTTPProxy(cfg)
	}
	if l.listener == nil {
		if l.listener, err = net.Listen("tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("lb: %w", err) // it names the address
		}
	}
	return l, nil
}

// Addr returns the address that clients connect to.
func (l *LoadBalancer) Addr() net.Addr { return l.listener.Addr() }

// URL returns "http://" and Addr, without a slash at the end.
func (l *LoadBalancer) URL() string { return "http://" + l.Addr().String() }

// Config returns the settings with the profile and the defaults filled in: see
// [Config.Resolve]. It shares no memory with the LoadBalancer.
func (l *LoadBalancer) Config() Config {
	c := l.cfg
	c.Upstreams = slices.Clone(c.Upstreams)
	c.Buffering = new(*c.Buffering)
	return c
}

// Ready returns a channel that is closed when clients are served: soon after the
// start of Run, or never if Run fails before.
func (l *LoadBalancer) Ready() <-chan struct{} { return l.ready }

// Run serves until ctx ends. Then it frees the port, breaks off what is under
// way by closing the connections, waits until no request, connection, dial or
// process is left, and returns nil. It returns an error, after the same waiting,
// if the listener fails, or the program does not start or ends by itself. A
// LoadBalancer runs once.
//
// A program does not outlive this process, however that ends, nor do its files.
func (l *LoadBalancer) Run(ctx context.Context) error {
	if !l.claimed.CompareAndSwap(false, true) {
		return errors.New("lb: Run called twice, or after Close")
	}
	return l.engine.run(ctx, l.listener, func() { close(l.ready) })
}

// Close frees the port of a LoadBalancer that never ran. It is idempotent, and
// does nothing during or after Run: what ends Run is its context.
func (l *LoadBalancer) Close() error {
	if !l.claimed.CompareAndSwap(false, true) {
		return nil
	}
	return l.listener.Close()
}

// Cut cuts every response that is under way, its headers passed on and its end
// not yet reached (in TCP mode: every connection), and returns how many those
// are. It does not wait for the cuts; Observe reports each of them. Where
// [Config.CanCut] has an error it cuts nothing. haproxy also cuts the requests
// that have no response yet.
func (l *LoadBalancer) Cut(how Expiry) int {
	if l.cfg.CanCut(how) != nil {
		return 0
	}
	return l.engine.cut(how)
}
