package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// feed is an event stream that a test writes piece by piece while it is open.
// Make it inside the bubble. Closing pieces ends the stream cleanly, closing
// broken breaks its connection.
type feed struct {
	first  string // what it begins with
	pieces chan string
	broken chan struct{}
}

func newFeed() *feed {
	return &feed{pieces: make(chan string), broken: make(chan struct{})}
}

func (f *feed) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	sseAnswer(f.first)(rw, r)
	for {
		select {
		case p, ok := <-f.pieces:
			if !ok {
				return
			}
			_, _ = io.WriteString(rw, p)
			_ = http.NewResponseController(rw).Flush()
		case <-f.broken:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}

// reader reads a body on a goroutine of its own.
type reader struct {
	body io.ReadCloser
	done chan struct{} // closed at the first error

	mu  sync.Mutex
	got []byte
	err error
	at  time.Time // when err came
}

// follow reads a response to its end, size bytes at most at a time.
func follow(resp *http.Response, size int) *reader {
	r := &reader{body: resp.Body, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		p := make([]byte, size)
		for {
			n, err := resp.Body.Read(p)
			r.mu.Lock()
			r.got = append(r.got, p[:n]...)
			if err != nil {
				r.err, r.at = err, time.Now()
				r.mu.Unlock()
				return
			}
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.got)
}

// ended returns the error by which the body ended, nil while it has not.
func (r *reader) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// outcome is what a RoundTrip on a goroutine of its own came to.
type outcome struct {
	done chan struct{} // closed when it has returned
	resp *http.Response
	err  error
	at   time.Time
}

func send(rt http.RoundTripper, req *http.Request) *outcome {
	o := &outcome{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.resp, o.err = rt.RoundTrip(req)
		o.at = time.Now()
	}()
	return o
}

// returned reports whether the RoundTrip is over. Ask after synctest.Wait.
func (o *outcome) returned() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// failure is the typed error of an outcome, in its error or in its response.
func (o *outcome) failure(t *testing.T) *middleware.SessionResumptionError {
	t.Helper()
	<-o.done
	err := o.err
	if err == nil {
		err = middleware.ErrorFrom(o.resp)
	}
	return typed(t, err)
}

func typed(t *testing.T, err error) *middleware.SessionResumptionError {
	t.Helper()
	var e *middleware.SessionResumptionError
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want a *SessionResumptionError", err)
	}
	return e
}

// message is a POST of one JSON-RPC request with the given method.
func (w *world) message(ctx context.Context, method string) *http.Request {
	return w.request(ctx, "POST", "", `{"jsonrpc":"2.0","id":41,"method":"`+method+`"}`)
}

// mustCall sends a request, reads its answer and wants the status.
func (w *world) mustCall(method string, want int) string {
	w.t.Helper()
	resp, err := w.call(method)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != want {
		w.t.Fatalf("call(%q) = %v, want %v", method, resp.StatusCode, want)
	}
	return read(w.t, resp)
}

// initialize starts the session sid; the server answers with a result.
func (w *world) initialize() {
	w.t.Helper()
	post := w.post
	w.post = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Mcp-Session-Id", sid)
		alive(rw, r)
	}
	req := w.message(w.t.Context(), "initialize")
	req.Header.Del("Mcp-Session-Id")
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	read(w.t, resp)
	w.post = post
	w.mu.Lock()
	w.wire = nil
	w.mu.Unlock()
}

// open opens the session's standalone stream for the first time.
func (w *world) open() *http.Response {
	w.t.Helper()
	resp, err := w.reconnect("")
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// kill lets a request of the session be answered 404.
func (w *world) kill() {
	w.t.Helper()
	post := w.post
	w.post = gone
	w.mustCall("tools/last", http.StatusNotFound)
	w.post = post
}

// count is how many requests that read like this have reached the wire: "GET",
// "POST ping" or, with a cursor, "GET 7".
func (w *world) count(what string) (n int) {
	for _, line := range w.requests() {
		if line == what || strings.HasPrefix(line, what+" ") {
			n++
		}
	}
	return n
}

// times is when requests that read like this reached the wire.
func (w *world) times(what string) (at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.wire {
		if line := s.String(); line == what || strings.HasPrefix(line, what+" ") {
			at = append(at, s.at)
		}
	}
	return at
}

// kinds counts the events of a kind that the hook was told.
func (w *world) kinds(k middleware.Kind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// all is every observed event of a kind.
func (w *world) all(k middleware.Kind) []middleware.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.events), func(e middleware.Event) bool { return e.Kind != k })
}

// baseFunc is a Base for tests that need one which misbehaves, or no network.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer makes a response of a Base without a network.
func fakeAnswer(req *http.Request, status int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1, Request: req,
	}
}

// rpcMethod reads the method of a JSON-RPC request and closes its body, as a
// Base does.
func rpcMethod(req *http.Request) string {
	if req.Body == nil {
		return ""
	}
	defer req.Body.Close()
	var m struct {
		Method string `json:"method"`
	}
	_ = json.NewDecoder(req.Body).Decode(&m)
	return m.Method
}

// requestBody is a request's body that counts its closes.
type requestBody struct {
	io.Reader
	mu     sync.Mutex
	closes int
}

func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closes++
	return nil
}

func (b *requestBody) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closes > 0
}

// problem asserts that a response is the terminal outcome and returns its
// typed error. Its body must not be what a client takes for a JSON-RPC message.
func problem(t *testing.T, resp *http.Response, err error) *middleware.SessionResumptionError {
	t.Helper()
	if err != nil {
		t.Fatalf("RoundTrip = %v, want a response", err)
	}
	if got, want := resp.Header.Get("Content-Type"), "application/problem+json"; resp.StatusCode != 404 || got != want {
		t.Errorf("answer is %s of type %q, want 404 of %q", resp.Status, got, want)
	}
	e := typed(t, middleware.ErrorFrom(resp))
	text := read(t, resp)
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Errorf("json.Unmarshal(%q) = %v, want nil", text, err)
	}
	if m["status"] != float64(404) {
		t.Errorf("status in %q = %v, want 404", text, m["status"])
	}
	for _, member := range []string{"jsonrpc", "id", "error", "result", "method"} {
		if _, ok := m[member]; ok {
			t.Errorf("member %q in %q, want none of a JSON-RPC message", member, text)
		}
	}
	if int64(len(text)) != resp.ContentLength {
		t.Errorf("body has %d bytes, want ContentLength %d", len(text), resp.ContentLength)
	}
	return e
}
