package lb_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// idle is the limit of the tests in virtual time.
const idle = 60 * time.Second

// network is a client, a load balancer and an upstream in memory, for one
// bubble.
type network struct {
	*lb.LoadBalancer
	seen   events
	client *http.Client
	dial   func(ctx context.Context, network, addr string) (net.Conn, error) // as a client
	began  time.Time
	open   *atomic.Int64 // the load balancer's connections, to both sides
	stop   func()        // stops the load balancer
	close  func()        // stops everything
}

// newNetwork starts a network. cfg needs no addresses; a Dial or an Observe in it
// is kept.
func newNetwork(t *testing.T, cfg lb.Config, handler http.HandlerFunc) *network {
	t.Helper()
	front, back := memnettest.New(), memnettest.New()
	server := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(back)
	}()

	n := &network{seen: newEvents(), dial: front.DialContext, began: time.Now(), open: new(atomic.Int64)}
	cfg.Listener = countedListener{front, n.open}
	cfg.Upstream = "upstream:80"
	if cfg.Observe == nil {
		cfg.Observe = n.seen.observe
	}
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := back.DialContext(ctx, network, addr)
			return count(conn, n.open), err
		}
	}
	var stop func()
	n.LoadBalancer, stop = start(t, cfg)
	n.stop = sync.OnceFunc(stop)
	transport := &http.Transport{DialContext: front.DialContext}
	n.client = &http.Client{Transport: transport}
	n.close = func() {
		n.stop()
		transport.CloseIdleConnections()
		server.Close()
		<-served
	}
	return n
}

// raw opens a bare client connection and sends request on it,
// whose lines are joined by CRLF and need not be complete.
func (n *network) raw(t *testing.T, request ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := n.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Join(request, "\r\n")); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// at checks that it is exactly d since the network was made.
func (n *network) at(t *testing.T, what string, d time.Duration) {
	t.Helper()
	if got := time.Since(n.began); got != d {
		t.Errorf("%s after %v, want %v", what, got, d)
	}
}

// countedListener counts the connections that it has accepted and that are open.
type countedListener struct {
	net.Listener
	open *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return count(conn, l.open), err
}

type countedConn struct {
	net.Conn
	done func()
}

// count counts conn, which may be nil, until it is closed.
func count(conn net.Conn, open *atomic.Int64) net.Conn {
	if conn == nil {
		return nil
	}
	open.Add(1)
	return countedConn{conn, sync.OnceFunc(func() { open.Add(-1) })}
}

func (c countedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// lateConn delivers one more piece once it has been closed.
type lateConn struct {
	net.Conn
	piece string // owned by the reader
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.piece != "" {
		n, err = copy(p, c.piece), nil
		c.piece = ""
	}
	return n, err
}
