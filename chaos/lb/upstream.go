package lb

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// maxIdleUpstream is how many unused connections to the upstream are kept.
const maxIdleUpstream = 64

// upstream keeps count of the dials under way and of the open connections, so
// that close can wait for them: http.Transport does not.
type upstream struct {
	dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	transport *http.Transport

	mu     sync.Mutex
	closed bool           // no more dials
	open   sync.WaitGroup // Add only while !closed, under mu
}

func newUpstream(cfg Config) *upstream {
	u := &upstream{dial: cfg.Dial}
	u.transport = &http.Transport{
		DialContext:         u.dialContext,
		DisableCompression:  true, // what the client did not ask for must not be asked for
		MaxIdleConnsPerHost: maxIdleUpstream,
	}
	return u
}

// roundTrip sends r. A dial made for it ends with the context of r: by itself
// the transport would go on dialling for the benefit of later requests.
func (u *upstream) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	return u.transport.RoundTrip(r.WithContext(context.WithValue(ctx, requestContext{}, ctx)))
}

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
		return nil, err
	}
	return &countedConn{Conn: conn, closed: sync.OnceFunc(u.open.Done)}, nil
}

// close closes the unused connections and waits until the others, whose
// requests have been cancelled, are closed too.
func (u *upstream) close() {
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.transport.CloseIdleConnections()
	u.open.Wait()
}

// countedConn tells that it has been closed, once.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
