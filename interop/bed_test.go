package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
	"github.com/revenant-mcp/revenant/middleware"
)

const (
	headerSession = "Mcp-Session-Id"
	headerCursor  = "Last-Event-Id"
	// version is what the clients are pinned to: the newest that has sessions.
	version = "2025-11-25"
	// promptly is how long a dead session's held events may be waited for before
	// they are counted: see the middleware's catchUp.
	promptly = 25 * time.Millisecond
)

// bed is a server behind a load balancer, in memory and in virtual time.
type bed struct {
	t        *testing.T
	began    time.Time
	server   *mcpserver.Server // nil where the server is a handler
	balancer *lb.LoadBalancer
	front    *memnettest.Listener
	url      string
}

// virtual runs f in a bubble, against a chaos server behind a load balancer.
func virtual(t *testing.T, server mcpserver.Config, balancer lb.Config, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		back := memnettest.New()
		server.Listener = back
		s, err := mcpserver.New(server)
		if err != nil {
			t.Fatal(err)
		}
		background(t, s.Run)
		b := newBed(t, back, balancer)
		b.server = s
		f(t, b)
	})
}

// newHandlerBed is a bed with a handler for its server; both are made inside
// the bubble. close, if not nil, ends what the handler has started.
func newHandlerBed(t *testing.T, h http.Handler, close func()) *bed {
	t.Helper()
	back := memnettest.New()
	srv := &http.Server{Handler: h}
	background(t, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			if close != nil {
				close()
			}
			srv.Close()
		})()
		_ = srv.Serve(back)
		return nil
	})
	return newBed(t, back, lb.Config{})
}

func newBed(t *testing.T, back *memnettest.Listener, balancer lb.Config) *bed {
	t.Helper()
	front := memnettest.New()
	balancer.Listener, balancer.Upstream = front, "127.0.0.1:1"
	balancer.Dial = back.DialContext
	l, err := lb.New(balancer)
	if err != nil {
		t.Fatal(err)
	}
	background(t, l.Run)
	return &bed{t: t, began: time.Now(), balancer: l, front: front, url: "http://127.0.0.1:1/mcp"}
}

// background runs what ends with its context until the test's end, and waits
// for it.
func background(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// now is the time since the bed was made.
func (b *bed) now() time.Duration { return time.Since(b.began) }

// until lets time go by, to a time since the bed was made, and everything
// happen that happens by then.
func (b *bed) until(at time.Duration) {
	b.t.Helper()
	if at < b.now() {
		b.t.Fatalf("it is %v already, want %v", b.now(), at)
	}
	time.Sleep(at - b.now())
	synctest.Wait()
}

// cut has the load balancer cut every stream, once what was sent has arrived.
func (b *bed) cut(how lb.Expiry) {
	synctest.Wait()
	b.balancer.Cut(how)
	synctest.Wait()
}

// emit sends messages on a session's standalone stream, and lets them arrive if
// that is open.
func (b *bed) emit(session string, texts ...string) {
	b.t.Helper()
	defer synctest.Wait()
	for _, text := range texts {
		if _, err := b.server.Emit(session, text); err != nil {
			b.t.Fatalf("Emit(%q) = %v, want nil", text, err)
		}
	}
}

// arm is one HTTP client with what it needs, guarded or not.
type arm struct {
	t     *testing.T
	b     *bed
	url   string
	guard *middleware.Transport // nil for control
	tap   *tap
	http  *http.Client
	quiet bool // clients are to have no standalone stream

	mu     sync.Mutex
	events []middleware.Event
}

// arms are the two groups of every experiment.
var arms = []string{"control", "protected"}

// arm makes an arm. cfg is for the protected one.
func (b *bed) arm(name string, cfg middleware.Config) *arm {
	b.t.Helper()
	base := &http.Transport{DialContext: b.front.DialContext, MaxIdleConnsPerHost: 100}
	b.t.Cleanup(base.CloseIdleConnections)
	a := newArm(b.t, name, cfg, base)
	a.b, a.url, a.tap.began = b, b.url, b.began
	return a
}

func newArm(t *testing.T, name string, cfg middleware.Config, base http.RoundTripper) *arm {
	t.Helper()
	a := &arm{t: t, tap: &tap{base: base, began: time.Now()}}
	if name == "control" {
		a.http = &http.Client{Transport: a.tap}
		return a
	}
	cfg.Base = a.tap
	cfg.Observe = func(e middleware.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, e)
	}
	guard, err := middleware.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.guard, a.http = guard, &http.Client{Transport: guard}
	return a
}

// observed is what the middleware's hook was told of some kinds.
func (a *arm) observed(kinds ...middleware.Kind) []middleware.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.events), func(e middleware.Event) bool { return !slices.Contains(kinds, e.Kind) })
}

// sessionErr is the typed reason why a session is fenced.
func (a *arm) sessionErr(session string) *middleware.SessionResumptionError {
	a.t.Helper()
	err := a.guard.SessionErr(session)
	if err == nil {
		a.t.Fatalf("SessionErr(%q) = nil, want a *SessionResumptionError", session)
	}
	return err.(*middleware.SessionResumptionError)
}

// onWire is a request that reached the wire.
type onWire struct {
	at      time.Duration
	method  string
	rpc     string // JSON-RPC method of a POST
	session string
	cursor  string
	status  int // 0: no answer
	// contentType is the answer's.
	contentType string
}

func (w onWire) String() string {
	return fmt.Sprintf("%v %s %s cursor %q: %d", w.at, w.method, w.rpc, w.cursor, w.status)
}

// tap sees what reaches the wire.
type tap struct {
	base  http.RoundTripper
	began time.Time

	mu   sync.Mutex
	seen []*onWire
}

func (p *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &onWire{
		at: time.Since(p.began), method: req.Method,
		session: req.Header.Get(headerSession), cursor: req.Header.Get(headerCursor),
	}
	if req.Method == http.MethodPost {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		var head struct{ Method string }
		_ = json.Unmarshal(body, &head)
		w.rpc = head.Method
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	p.mu.Lock()
	p.seen = append(p.seen, w)
	p.mu.Unlock()
	resp, err := p.base.RoundTrip(req)
	if err == nil {
		p.mu.Lock()
		w.status, w.contentType = resp.StatusCode, resp.Header.Get("Content-Type")
		p.mu.Unlock()
	}
	return resp, err
}

// CloseIdleConnections is what [http.Client] asks for.
func (p *tap) CloseIdleConnections() {
	if c, ok := p.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// of lists what reached the wire from a time on, for a session or, with "",
// for any.
func (p *tap) of(session string, from time.Duration) []onWire {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []onWire
	for _, w := range p.seen {
		if w.at >= from && (session == "" || w.session == session) {
			found = append(found, *w)
		}
	}
	return found
}

// count counts requests of an HTTP method and, for POST, a JSON-RPC method;
// "" is any.
func count(all []onWire, method, rpc string) int {
	n := 0
	for _, w := range all {
		if w.method == method && (rpc == "" || w.rpc == rpc) {
			n++
		}
	}
	return n
}

// inbox is what an application was given.
type inbox struct {
	mu    sync.Mutex
	texts []string
}

func (i *inbox) put(text any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.texts = append(i.texts, fmt.Sprint(text))
}

func (i *inbox) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.texts)
}

// numbered is prefix1 to prefixN.
func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i+1))
	}
	return all
}

// eachArm runs f as a subtest for both arms.
func eachArm(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range arms {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}
