package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// bodyCounter is a Base that counts the bodies of its answers and their closes.
type bodyCounter struct {
	http.RoundTripper
	mu     sync.Mutex
	bodies []*countedBody
}

type countedBody struct {
	io.ReadCloser
	of     string
	c      *bodyCounter
	closes int // guarded by c.mu
}

func (c *bodyCounter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	b := &countedBody{ReadCloser: resp.Body, of: fmt.Sprint(req.Method, " ", req.Header.Get("Last-Event-ID"), " ", resp.StatusCode), c: c}
	c.mu.Lock()
	c.bodies = append(c.bodies, b)
	c.mu.Unlock()
	resp.Body = b
	return resp, nil
}

func (b *countedBody) Close() error {
	b.c.mu.Lock()
	b.closes++
	b.c.mu.Unlock()
	return b.ReadCloser.Close()
}

func (c *bodyCounter) check(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		if b.closes == 0 {
			t.Errorf("the body of the answer to %q was not closed", b.of)
		}
	}
}

// path is one way through the middleware. Its requests are sent one after the
// other; what each gets is read to its end and closed.
type path struct {
	name     string
	cfg      middleware.Config
	get      http.HandlerFunc
	post     http.HandlerFunc
	del      http.HandlerFunc
	requests []string // "METHOD cursor", of the one session
	within   time.Duration
	statuses []int // of the answers; 0 for an error
}

var cutOff http.HandlerFunc = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

var paths = []path{
	{name: "no event stream", post: status(202, "", ""), requests: []string{"POST"}, statuses: []int{202}},
	{name: "a JSON answer", post: alive, requests: []string{"POST"}, statuses: []int{200}},
	{name: "an SSE answer", post: sseAnswer(replayed), requests: []string{"POST"}, statuses: []int{200}},
	{name: "a call that breaks", post: cutOff, requests: []string{"POST"}, statuses: []int{0}},
	{name: "a call answered 404", post: gone, requests: []string{"POST", "POST", "GET 4", "DELETE"}, statuses: []int{404, 404, 404, 404}},
	{name: "a session deleted", del: status(204, "", ""), requests: []string{"DELETE", "POST"}, statuses: []int{204, 404}},
	{name: "the first GET", get: sseAnswer(replayed), requests: []string{"GET"}, statuses: []int{200}},
	{name: "a first GET refused", get: status(405, "", ""), requests: []string{"GET"}, statuses: []int{405}},
	{name: "live", get: sseAnswer(replayed), post: alive, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "live by SSE", get: sseAnswer(replayed), post: resultSSE, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "live and torn", get: sseAnswer(replayed + "data: x"), post: alive, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "live, over the limit", cfg: middleware.Config{MaxHeldBytes: 256}, get: sseAnswer(strings.Repeat(replayed, 99)), post: alive, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "live and too large", cfg: middleware.Config{MaxEventBytes: 256}, get: sseAnswer(sized(257)), post: alive, requests: []string{"GET 4", "GET 4", "GET 4"}, statuses: []int{200, 200, 404}},
	{name: "empty replays", get: sseAnswer(), post: alive, requests: []string{"GET 4", "GET 4"}, statuses: []int{200, 200}},
	{name: "a cursor put back", get: sseAnswer(replayed), post: alive, requests: []string{"GET", "GET"}, statuses: []int{200, 200}},
	{name: "dead", get: openSSE(replayed), post: gone, requests: []string{"GET 4"}, statuses: []int{404}},
	{name: "dead by another's name", get: openSSE(replayed), post: func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Mcp-Session-Id", "another")
		alive(rw, r)
	}, requests: []string{"GET 4"}, statuses: []int{404}},
	{name: "dead at the GET", get: status(410, "text/plain", "gone"), requests: []string{"GET 4"}, statuses: []int{404}},
	{name: "a GET refused", get: status(401, "text/plain", "who?"), requests: []string{"GET 4"}, statuses: []int{401}},
	{name: "ambiguous", get: openSSE(replayed), post: status(400, "text/plain", "no"), requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "ambiguous for good", cfg: middleware.Config{AmbiguousRounds: 2}, get: openSSE(replayed), post: status(202, "", ""), requests: []string{"GET 4", "GET 4", "GET 4"}, statuses: []int{200, 404, 404}},
	{name: "ambiguous by time", get: openSSE(replayed), post: silent, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "ambiguous by an SSE answer without end", get: openSSE(replayed), post: openSSE(": wait\n\n"), requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "ambiguous by a JSON answer without end", get: openSSE(replayed), post: halfJSON, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "ambiguous by a broken probe", get: openSSE(replayed), post: cutOff, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "a GET answered 503", get: status(503, "text/plain", "later"), requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "a GET answered HTML", get: status(200, "text/html", "<html>"), requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "a GET that breaks", get: cutOff, requests: []string{"GET 4"}, statuses: []int{0}},
	{name: "a GET never answered", get: silent, post: alive, requests: []string{"GET 4"}, statuses: []int{200}},
	{name: "held by the lease", cfg: middleware.Config{LivenessLease: time.Minute}, get: sseAnswer(replayed), post: alive, requests: []string{"GET"}, statuses: []int{200}},
	{name: "dead by the lease", cfg: middleware.Config{LivenessLease: time.Minute}, get: openSSE(replayed), post: gone, requests: []string{"GET"}, statuses: []int{200}},
	{name: "ambiguous by the lease", cfg: middleware.Config{LivenessLease: time.Minute}, get: openSSE(replayed), post: status(400, "", ""), requests: []string{"GET"}, statuses: []int{200}},
	{name: "errors, not responses", cfg: middleware.Config{Terminal: middleware.TerminalError}, get: openSSE(replayed), post: gone, requests: []string{"GET 4", "POST"}, statuses: []int{0, 0}},
	{name: "cancelled while held", get: openSSE(replayed), post: silent, requests: []string{"GET 4"}, within: time.Second, statuses: []int{0}},
	{name: "cancelled while sent", get: silent, requests: []string{"GET 4"}, within: time.Second, statuses: []int{0}},
	{name: "cancelled while read", get: openSSE(replayed), post: alive, requests: []string{"GET 4"}, within: time.Second, statuses: []int{200}},
	{name: "cancelled while a JSON answer is read", post: halfJSON, requests: []string{"POST"}, within: time.Second, statuses: []int{200}},
}

// request makes the path's i-th request, with a body that counts.
func (p path) request(ctx context.Context, w *world, i int) (*http.Request, *requestBody) {
	method, cursor, _ := strings.Cut(p.requests[i], " ")
	req := w.request(ctx, method, cursor, "")
	req.Header["X-Tenant"] = []string{"a", "b"}
	req.Header.Set("Cookie", "lb=1")
	req.Header.Set("Authorization", "Bearer b-1")
	req.URL.RawQuery = "x=1"
	if method == "GET" {
		return req, nil
	}
	text := `{"jsonrpc":"2.0","id":41,"method":"tools/call"}`
	body := &requestBody{Reader: strings.NewReader(text)}
	req.Body, req.ContentLength = body, int64(len(text))
	req.Header.Set("Content-Type", "application/json")
	return req, body
}

// snapshot is all of a request that a RoundTripper must leave as it is.
type snapshot struct {
	header, trailer http.Header
	url             url.URL
	rest            string
	ctx             context.Context
	body            io.ReadCloser
}

func snap(req *http.Request) snapshot {
	return snapshot{
		header: req.Header.Clone(), trailer: req.Trailer.Clone(), url: *req.URL,
		rest: fmt.Sprint(req.Method, req.Host, req.ContentLength, req.Close, req.TransferEncoding, req.RequestURI, req.GetBody == nil),
		ctx:  req.Context(), body: req.Body,
	}
}

func (s snapshot) String() string {
	return fmt.Sprintf("%v %v %v %v %p %v", s.header, s.trailer, s.url.String(), s.rest, s.ctx, s.body == nil)
}

// I6 and the contract of http.RoundTripper, on every path: the request is left
// as it was and its body closed, and every body from upstream is closed.
func TestEveryPathClosesItsBodiesAndLeavesTheRequestAlone(t *testing.T) {
	for _, p := range paths {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &bodyCounter{}
				cfg := p.cfg
				cfg.Base = base
				w := newWorld(t, cfg)
				base.RoundTripper = w.base
				defer w.close()
				w.get, w.post, w.del = p.get, p.post, p.del
				serving := w.serving()
				for i := range p.requests {
					ctx, cancel := context.WithCancel(t.Context())
					if p.within > 0 {
						ctx, cancel = context.WithTimeout(t.Context(), p.within)
					}
					req, body := p.request(ctx, w, i)
					before := snap(req)
					resp, err := w.transport.RoundTrip(req)
					got := 0
					if err == nil {
						got = resp.StatusCode
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if got != p.statuses[i] {
						t.Errorf("%q: RoundTrip = %d, %v, want %d", p.requests[i], got, err, p.statuses[i])
					}
					if after := snap(req); after.String() != before.String() || after.body != before.body || after.ctx != before.ctx {
						t.Errorf("%q: the request is now %v, want %v", p.requests[i], after, before)
					}
					synctest.Wait() // net/http closes the request's body when it comes to it
					if body != nil && !body.closed() {
						t.Errorf("%q: the request's body was not closed", p.requests[i])
					}
					cancel()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				base.check(t)
				if n := serving.Load(); n != 0 {
					t.Errorf("%d requests are still open upstream, want none", n)
				}
				for _, info := range w.transport.Sessions() {
					if info.InFlight != 0 {
						t.Errorf("Sessions() = %+v, want nothing in flight", info)
					}
				}
			})
		})
	}
}

// A body that was read to its end is closed upstream even if the client does
// not: go-sdk drains and forgets some.
func TestAStreamThatHasEndedIsClosedUpstream(t *testing.T) {
	for _, stream := range streams {
		for name, answer := range map[string]http.HandlerFunc{"whole": sseAnswer(replayed), "torn": sseAnswer("data: x"), "too large": openSSE(sized(2000))} {
			t.Run(stream.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base := &bodyCounter{}
					w := newWorld(t, middleware.Config{Base: base, MaxEventBytes: 1000})
					base.RoundTripper = w.base
					defer w.close()
					resp, err := stream.open(w, answer)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.ReadAll(resp.Body)
					synctest.Wait() // the probe's answer is closed when it comes to it
					base.check(t)
					if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 0 {
						t.Errorf("Sessions() = %+v, want nothing in flight", got)
					}
				})
			})
		}
	}
}

// A Base that answers with an error has closed the request's body, and has
// given no body.
func TestABaseThatFails(t *testing.T) {
	broken := errors.New("no route to host")
	for _, request := range []string{"GET", "GET 4", "POST", "DELETE"} {
		t.Run(request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					_ = rpcMethod(req)
					return nil, broken
				})})
				defer w.close()
				for range 10 { // it is no verdict, however often it happens
					req, _ := path{requests: []string{request}}.request(t.Context(), w, 0)
					if resp, err := w.transport.RoundTrip(req); resp != nil || !errors.Is(err, broken) {
						t.Errorf("RoundTrip = %v, %v, want %v", resp, err, broken)
					}
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr = %v, want nil", err)
				}
				if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 0 {
					t.Errorf("Sessions() = %+v, want nothing in flight", got)
				}
			})
		})
	}
}
