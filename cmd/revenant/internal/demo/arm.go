package demo

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// The names of the arms.
const (
	Control   = "control"
	Protected = "protected"
)

// arm is one client and all that it talks to.
type arm struct {
	name     string
	server   *mcpserver.Server
	balancer *lb.LoadBalancer
	base     *http.Transport
	guard    *middleware.Transport // nil in the control arm
	app      *application
	rec      *recorder
}

// newArm binds what an arm needs. guarded is whether it has the middleware. It
// owns the listener if there is no error.
func newArm(name string, guarded bool, of setup, listener net.Listener) (*arm, error) {
	a := &arm{name: name, rec: newRecorder()}
	var err error
	of.server.Observe = a.rec.server
	if a.server, err = mcpserver.New(of.server); err != nil {
		return nil, err
	}
	a.rec.oracle = a.server.Oracle()
	of.balancer.Upstream, of.balancer.Observe = a.server.Addr().String(), a.rec.balancer
	of.balancer.Listener = listener
	if a.balancer, err = lb.New(of.balancer); err != nil {
		a.server.Close()
		return nil, err
	}

	// A transport of the arm's own, that no proxy setting of the environment
	// concerns. It gives an unused connection up before the load balancer does:
	// a POST on one that is being closed would be lost.
	a.base = &http.Transport{IdleConnTimeout: of.balancer.IdleTimeout / 2}
	a.app = newApplication(a.balancer.URL()+"/mcp", of.callsOnly, a.base, a.rec)
	if guarded {
		of.guard.Base, of.guard.Observe = a.base, a.rec.guard
		if a.guard, err = middleware.New(of.guard); err != nil {
			a.close()
			return nil, err
		}
		a.app.client.Transport = a.guard
		a.app.reason = a.guard.SessionErr
	}
	return a, nil
}

// close frees what newArm has bound, of an arm that is not served.
func (a *arm) close() {
	a.balancer.Close()
	a.server.Close()
}

// serve runs the server and the load balancer until stop is called, which ends
// the client first, so that nobody is cut off, and waits for everything. fail
// is told if one of them cannot go on.
func (a *arm) serve(fail context.CancelCauseFunc) (stop func()) {
	var running sync.WaitGroup
	run := func(f func(context.Context) error) context.CancelFunc {
		ctx, cancel := context.WithCancel(context.Background())
		running.Go(func() {
			if err := f(ctx); err != nil {
				fail(err)
			}
		})
		return cancel
	}
	stopServer, stopBalancer := run(a.server.Run), run(a.balancer.Run)
	return func() {
		a.app.stop()
		a.base.CloseIdleConnections()
		stopBalancer()
		stopServer()
		running.Wait()
	}
}

// session is the application's latest session, zero if it has none yet.
func (a *arm) session() Session {
	rec, _ := a.rec.recording()
	s, _ := rec.session(len(rec.Sessions) - 1)
	return s
}
