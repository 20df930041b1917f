package lb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// LoadBalancer forwards HTTP/1.1 requests to one upstream. It owns its listener
// and all connections. Make one with [New]; its methods may be called from any
// goroutine.
type LoadBalancer struct {
	// Immutable after New.
	cfg      Config
	listener net.Listener
	upstream *upstream

	claimed  atomic.Bool   // by Run, or by a Close that came first
	requests atomic.Uint64 // so far

	// serving counts the clients' connections that net/http serves and the
	// requests under way. Add happens before Serve returns, or while a
	// connection is counted.
	serving sync.WaitGroup

	mu      sync.Mutex
	streams map[*stream]struct{} // responses under way
}

// New validates cfg, reporting all its faults at once, and binds its port: from
// then on clients can connect, and wait. It starts nothing. The caller either
// calls Run, which frees the port when it ends, or Close.
func New(cfg Config) (*LoadBalancer, error) {
	cfg, err := cfg.compile()
	if err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("lb: %w", err) // it names the address
		}
	}
	return &LoadBalancer{
		cfg:      cfg,
		listener: listener,
		upstream: newUpstream(cfg),
		streams:  make(map[*stream]struct{}),
	}, nil
}

// Addr returns the address that clients connect to.
func (l *LoadBalancer) Addr() net.Addr { return l.listener.Addr() }

// URL returns "http://" and Addr, without a slash at the end.
func (l *LoadBalancer) URL() string { return "http://" + l.Addr().String() }

// Run serves until ctx ends. Then it frees the port, breaks off what is under
// way by closing the connections, waits until no request, connection or dial is
// left, and returns nil. It returns an error, after the same waiting, if the
// listener fails. A LoadBalancer runs once.
func (l *LoadBalancer) Run(ctx context.Context) error {
	if !l.claimed.CompareAndSwap(false, true) {
		return errors.New("lb: Run called twice, or after Close")
	}
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(ErrStopped)

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:                      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(run, w, r) }),
		BaseContext:                  func(net.Listener) context.Context { return run },
		ConnState:                    l.countConn,
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols,
		IdleTimeout:                  l.cfg.IdleTimeout,
		ReadHeaderTimeout:            l.cfg.IdleTimeout,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l.listener) }()

	var err error
	select {
	case <-ctx.Done():
		stop(ErrStopped)
		server.Close()
		<-served
	case err = <-served:
		err = fmt.Errorf("lb: %w", err)
		stop(ErrStopped)
		server.Close()
	}
	l.serving.Wait()
	l.upstream.close()
	return err
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
// not yet reached, and returns how many those are. It does not wait for the
// cuts; Observe reports each of them. An Expiry that is none of the constants
// cuts nothing.
func (l *LoadBalancer) Cut(how Expiry) int {
	if !how.valid() {
		return 0
	}
	l.mu.Lock()
	streams := slices.Collect(maps.Keys(l.streams))
	l.mu.Unlock()

	n := 0
	for _, s := range streams {
		if s.decide(&cut{how: how, why: ErrCut}) {
			n++
		}
	}
	return n
}

// countConn is the server's ConnState hook. Closed is the last thing that the
// goroutine of a connection reports; one that has been hijacked is left to the
// request that did it.
func (l *LoadBalancer) countConn(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		l.serving.Add(1)
	case http.StateClosed, http.StateHijacked:
		l.serving.Done()
	}
}

// add makes s a response that Cut cuts.
func (l *LoadBalancer) add(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams[s] = struct{}{}
}

func (l *LoadBalancer) remove(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, s)
}
