package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// network is a listener and its dialer inside one process: a synctest bubble
// cannot advance its clock while a goroutine waits on a real socket.
type network struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newNetwork() *network {
	return &network{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error   { n.once.Do(func() { close(n.done) }); return nil }
func (n *network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (n *network) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// seen is one request as the server saw it.
type seen struct {
	method, session, cursor, rpc string
	header                       http.Header
	at                           time.Time
}

func (s seen) String() string {
	return strings.TrimSpace(s.method + " " + s.rpc + s.cursor)
}

// world is a server whose answers a test writes by hand, and a client behind a
// Transport. Make it inside the bubble; its end is t.Cleanup's or close's.
type world struct {
	t         *testing.T
	base      *http.Transport
	transport *middleware.Transport
	client    *http.Client
	url       string
	close     func()

	// The server's, set before the first request. nil: 405.
	get  http.HandlerFunc
	post http.HandlerFunc
	del  http.HandlerFunc

	mu     sync.Mutex
	wire   []seen
	events []middleware.Event
}

const sid = "5f8a7c1e-session"

func newWorld(t *testing.T, cfg middleware.Config) *world {
	t.Helper()
	w := &world{t: t, url: "http://mcp.test/mcp"}
	n := newNetwork()
	srv := &http.Server{Handler: http.HandlerFunc(w.serve)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := srv.Serve(n); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	}()
	w.base = &http.Transport{DialContext: n.DialContext}
	if cfg.Base == nil {
		cfg.Base = w.base
	}
	observe := cfg.Observe
	cfg.Observe = func(e middleware.Event) {
		w.mu.Lock()
		w.events = append(w.events, e)
		w.mu.Unlock()
		if observe != nil {
			observe(e)
		}
	}
	var err error
	if w.transport, err = middleware.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.client = &http.Client{Transport: w.transport}
	w.close = sync.OnceFunc(func() {
		w.base.CloseIdleConnections()
		srv.Close()
		<-served
	})
	t.Cleanup(w.close)
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s := seen{
		method: r.Method, session: r.Header.Get("Mcp-Session-Id"), cursor: r.Header.Get("Last-Event-ID"),
		header: r.Header.Clone(), at: time.Now(),
	}
	if m := between(string(body), `"method":"`, `"`); m != "" {
		s.rpc = m
	}
	w.mu.Lock()
	w.wire = append(w.wire, s)
	w.mu.Unlock()
	h := map[string]http.HandlerFunc{"GET": w.get, "POST": w.post, "DELETE": w.del}[r.Method]
	if h == nil {
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h(rw, r)
}

// requests is what has reached the wire so far, one line each.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, s := range w.wire {
		out = append(out, s.String())
	}
	return out
}

func (w *world) last() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wire[len(w.wire)-1]
}

// observed is the kinds of what the hook was told.
func (w *world) observed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		out = append(out, e.Kind.String())
	}
	return out
}

func (w *world) event(k middleware.Kind) middleware.Event {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == k {
			return e
		}
	}
	w.t.Fatalf("no event %q was observed", k)
	return middleware.Event{}
}

// request makes a request of the session; cursor "" sends none.
func (w *world) request(ctx context.Context, method, cursor, body string) *http.Request {
	w.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url, r)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", sid)
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req
}

// reconnect resumes at a cursor.
func (w *world) reconnect(cursor string) (*http.Response, error) {
	return w.transport.RoundTrip(w.request(w.t.Context(), "GET", cursor, ""))
}

func (w *world) call(method string) (*http.Response, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q}`, method)
	return w.transport.RoundTrip(w.request(w.t.Context(), "POST", "", body))
}

// sse answers with an event stream and ends it.
func sseAnswer(blocks ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		startSSE(rw)
		for _, b := range blocks {
			_, _ = io.WriteString(rw, b)
			_ = http.NewResponseController(rw).Flush()
		}
	}
}

// openSSE is sseAnswer for a stream that stays open until the client leaves.
func openSSE(blocks ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		sseAnswer(blocks...)(rw, r)
		<-r.Context().Done()
	}
}

func startSSE(rw http.ResponseWriter) {
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(rw).Flush()
}

// status answers with a status and a body of its own.
func status(code int, contentType, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			rw.Header().Set("Content-Type", contentType)
		}
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, body)
	}
}

// alive answers every request with a result, as JSON.
func alive(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{}}`, rpcID(string(body)))
}

var gone = status(http.StatusNotFound, "text/plain", "Session not found")

// rpcID is the id of a JSON-RPC request as it stands.
func rpcID(body string) string {
	if s := between(body, `"id":"`, `"`); s != "" {
		return `"` + s + `"`
	}
	return between(body, `"id":`, ",")
}

func between(s, from, to string) string {
	_, rest, ok := strings.Cut(s, from)
	if !ok {
		return ""
	}
	v, _, ok := strings.Cut(rest, to)
	if !ok {
		return ""
	}
	return v
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	resp.Body.Close()
	return string(b)
}

// deadErr asserts that err is the typed error of a dead session.
func deadErr(t *testing.T, err error) *middleware.SessionResumptionError {
	t.Helper()
	var e *middleware.SessionResumptionError
	if !errors.As(err, &e) || !errors.Is(err, middleware.ErrSessionDead) {
		t.Fatalf("error is %v, want a *SessionResumptionError that is ErrSessionDead", err)
	}
	return e
}
