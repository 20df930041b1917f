package lb

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
)

// maxIdleUpstream is how many unused connections to the upstream are kept.
const maxIdleUpstream = 64

// upstream knows the dials under way and the open connections to the upstreams,
// so that close can end them and wait: http.Transport does neither.
type upstream struct {
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	transport *http.Transport

	mu     sync.Mutex
	closed bool           // no more dials
	open   sync.WaitGroup // Add only while !closed, under mu
	conns  map[*upstreamConn]struct{}
}

func newUpstream(cfg Config) *upstream {
	u := &upstream{dial: dialer(cfg), conns: make(map[*upstreamConn]struct{})}
	u.transport = &http.Transport{
		DialContext:         u.dialContext,
		DisableCompression:  true, // what the client did not ask for must not be asked for
		MaxIdleConnsPerHost: maxIdleUpstream,
	}
	return u
}

// dialer connects to the upstreams of cfg.
func dialer(cfg Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if cfg.Dial != nil {
		return cfg.Dial
	}
	return new(net.Dialer).DialContext
}

// roundTrip sends r, and returns the connection that the response is read from,
// too. A dial made for r ends with the context of r: by itself the transport would
// go on dialling for the benefit of later requests.
func (u *upstream) roundTrip(r *http.Request) (*http.Response, *upstreamConn, error) {
	var conn *upstreamConn
	ctx := context.WithValue(r.Context(), requestContext{}, r.Context())
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn.(*upstreamConn) }, // dialContext's
	})
	res, err := u.transport.RoundTrip(r.WithContext(ctx))
	return res, conn, err
}

// dialError says that an upstream could not be connected to, so that it has had
// nothing of the request.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// requestContext is the key under which the transport's dial, whose context has
// the values of the request's and not its end, finds the latter.
type requestContext struct{}

func (u *upstream) dialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return nil, ErrStopped
	}
	u.open.Add(1)
	u.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if request, ok := ctx.Value(requestContext{}).(context.Context); ok {
		defer context.AfterFunc(request, cancel)()
	}
	conn, err := u.dial(ctx, network, addr)
	if err != nil {
		u.open.Done()
		return nil, &dialError{err}
	}
	c := &upstreamConn{Conn: conn}
	c.closed = sync.OnceFunc(func() {
		u.mu.Lock()
		delete(u.conns, c)
		u.mu.Unlock()
		u.open.Done()
	})
	u.mu.Lock()
	closed := u.closed
	u.conns[c] = struct{}{}
	u.mu.Unlock()
	if closed {
		c.Close()
		return nil, ErrStopped
	}
	return c, nil
}

// close closes every connection, each request on one having been cancelled, and
// waits until they are closed and no dial is left. It does not leave that to
// the transport, which may have a connection in hand that is neither in use nor
// idle yet.
func (u *upstream) close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.transport.CloseIdleConnections()
	u.mu.Lock()
	conns := slices.Collect(maps.Keys(u.conns))
	u.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	u.open.Wait()
}
