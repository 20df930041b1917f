package lb

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// httpProxy is engine embedded in HTTP mode.
type httpProxy struct {
	// Immutable.
	cfg      Config
	pool     *pool
	upstream *upstream

	requests atomic.Uint64 // so far

	// serving counts the clients' connections that net/http serves and the
	// requests under way. Add happens before Serve returns, or while a
	// connection is counted.
	serving sync.WaitGroup

	underWay underWay // responses
}

func newHTTPProxy(cfg Config) *httpProxy {
	return &httpProxy{cfg: cfg, pool: newPool(cfg), upstream: newUpstream(cfg)}
}

func (p *httpProxy) run(ctx context.Context, listener net.Listener, ready func()) error {
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(ErrStopped)

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:                      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(run, w, r) }),
		BaseContext:                  func(net.Listener) context.Context { return run },
		ConnState:                    p.countConn,
		DisableGeneralOptionsHandler: true,
		Protocols:                    protocols,
		IdleTimeout:                  p.cfg.IdleTimeout,
		ReadHeaderTimeout:            p.cfg.IdleTimeout,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ready()

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
	p.serving.Wait()
	p.upstream.close()
	return err
}

func (p *httpProxy) cut(how Expiry) int { return p.underWay.cut(how) }

// countConn is the server's ConnState hook. Closed is the last thing that the
// goroutine of a connection reports; one that has been hijacked is left to the
// request that did it.
func (p *httpProxy) countConn(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		p.serving.Add(1)
	case http.StateClosed, http.StateHijacked:
		p.serving.Done()
	}
}

// underWay is the set of what Cut cuts. The zero value is an empty one.
type underWay struct {
	mu  sync.Mutex
	all map[decider]struct{}
}

// decider settles how it ends, unless that is settled already, and reports
// whether it did.
type decider interface{ decide(cause error) bool }

func (u *underWay) add(d decider) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[decider]struct{})
	}
	u.all[d] = struct{}{}
}

func (u *underWay) remove(d decider) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, d)
}

func (u *underWay) cut(how Expiry) int {
	u.mu.Lock()
	all := slices.Collect(maps.Keys(u.all))
	u.mu.Unlock()

	n := 0
	for _, d := range all {
		if d.decide(&cut{how: how, why: ErrCut}) {
			n++
		}
	}
	return n
}
