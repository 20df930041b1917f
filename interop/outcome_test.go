package interop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// C11, C83: the session ends as the SDK's own error says, nothing is sent for
// it any more, not even a DELETE, and a new one begins at once.
func TestGoSDKSessionEndsWithErrSessionMissing(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: time.Second}, lb.Config{}, func(t *testing.T, b *bed) {
		a := b.arm("protected", middleware.Config{})
		c := a.connectOfficial()
		session := c.ID()
		b.emit(session, "one")
		b.cut(lb.FIN)
		b.emit(session, "two")
		b.server.Reap(session)
		b.until(time.Second + promptly)
		if c.alive() || !errors.Is(c.err, gosdk.ErrSessionMissing) {
			t.Fatalf("Wait() = %v, want ErrSessionMissing", c.err)
		}
		if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); err == nil {
			t.Errorf("call after the end = nil, want an error")
		}
		if err := c.Close(); err != nil && !errors.Is(err, gosdk.ErrSessionMissing) {
			t.Errorf("Close() = %v, want nil or ErrSessionMissing", err)
		}
		again := a.connectOfficial()
		if again.ID() == session {
			t.Errorf("the new session has the old id")
		}
		if text, err := again.call(t.Context(), "echo", map[string]any{"text": "hi"}); text != "hi" || err != nil {
			t.Errorf("call of the new session = %q, %v, want hi", text, err)
		}
		b.until(10 * time.Minute)
		deletes := 0
		for _, r := range b.server.Oracle().History().Requests {
			if r.Method == http.MethodDelete && r.SessionID == session {
				deletes++
			}
		}
		if deletes != 0 {
			t.Errorf("%d DELETEs of the dead session reached the server, want 0", deletes)
		}
		if !again.alive() {
			t.Errorf("the new session ended: %v", again.err)
		}
	})
}

// A call whose stream is resumed leaves the old id on mcp-go's client. Its
// Initialize carries it, and works.
func TestMcpGoInitializesAfterADeadResume(t *testing.T) {
	for _, listen := range []bool{false, true} {
		t.Run(fmt.Sprintf("listening=%v", listen), func(t *testing.T) {
			virtual(t, mcpserver.Config{Retry: 5 * time.Second}, lb.Config{}, func(t *testing.T, b *bed) {
				a := b.arm("protected", middleware.Config{})
				c := a.connectMarks(listen)
				session := c.GetSessionId()
				done := a.start(c, "work", map[string]any{"events": 100, "interval_ms": 300, "detached": true})
				b.until(500 * time.Millisecond)
				if listen {
					b.emit(session, "standalone")
				}
				b.cut(lb.CleanEnd)
				b.server.Reap(session)
				b.until(5*time.Second + 500*time.Millisecond + promptly)
				o, over := settled(t, done)
				if !over || !errors.Is(o.err, transport.ErrSessionTerminated) {
					t.Fatalf("call = %+v, over %v, want ErrSessionTerminated", o, over)
				}
				if !listen && c.GetSessionId() != session {
					t.Errorf("GetSessionId() = %q: this test is about a client that keeps the old id", c.GetSessionId())
				}
				at := b.now()
				if err := c.initialize(t.Context()); err != nil {
					t.Fatalf("Initialize() = %v, want nil", err)
				}
				if got := c.GetSessionId(); got == session || got == "" {
					t.Errorf("GetSessionId() = %q, want a new one", got)
				}
				if text, err := c.call(t.Context(), "echo", map[string]any{"text": "hi"}); text != "hi" || err != nil {
					t.Errorf("call of the new session = %q, %v, want hi", text, err)
				}
				b.until(time.Minute)
				if stale := a.tap.of(session, at); len(stale) != 0 {
					t.Errorf("on the wire with the old id after Initialize: %v, want nothing", stale)
				}
				if listen {
					b.emit(c.GetSessionId(), "of the new session")
					b.until(2 * time.Minute)
					if got := c.all(); !slices.Contains(got, "of the new session") {
						t.Errorf("the client has %q, want what the new session's stream said", got)
					}
				}
			})
		})
	}
}

// witness writes down in which order things end. There is one below the
// middleware, which sees calls leave the wire, and one above, which sees what an
// SDK is given: nobody can tell when a goroutine goes on after its RoundTrip.
type witness struct {
	next  http.RoundTripper
	above bool
	log   *diary
}

type diary struct {
	mu    sync.Mutex
	lines []string
	errs  []error // with which calls ended, above
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (w *witness) callOver(err error) {
	if !w.above {
		w.log.note("call over")
		return
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.errs = append(w.log.errs, err)
}

func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	resp, err := w.next.RoundTrip(req)
	isCall := strings.Contains(string(body), `"tools/call"`)
	switch {
	case isCall && err != nil:
		w.callOver(err)
	case isCall && resp.StatusCode == http.StatusOK:
		resp.Body = &witnessedBody{ReadCloser: resp.Body, w: w}
	case w.above && err == nil && req.Method == http.MethodGet && resp.StatusCode != http.StatusOK:
		w.log.note(fmt.Sprint("GET ", resp.StatusCode))
	}
	return resp, err
}

type witnessedBody struct {
	io.ReadCloser
	w    *witness
	once sync.Once
}

func (b *witnessedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(func() { b.w.callOver(err) })
	}
	return n, err
}

// C07, C73, C74: what is in flight on another goroutine when a reconnect finds
// the session dead has returned, as of unknown outcome, before the reconnect
// does: the initialize to come cannot collide with it.
func TestWhatIsInFlightReturnsBeforeTheReconnect(t *testing.T) {
	calls := map[string]func(w http.ResponseWriter, r *http.Request, id json.RawMessage){
		"without an answer yet": func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() },
		"on a stream": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
			open(w, note("call/1", "under way"))
			<-r.Context().Done()
		},
	}
	for name, handler := range calls {
		for _, sdk := range []string{"go-sdk", "mcp-go"} {
			t.Run(sdk+" "+name, func(t *testing.T) {
				virtualStub(t, func(t *testing.T, b *bed, s *stub) {
					s.call = handler
					s.get = func(w http.ResponseWriter, r *http.Request, n int) {
						if r.Header.Get(headerSession) != "stub-1" {
							quiet(w, r)
							return
						}
						open(w, note(fmt.Sprint("get/", n), "x"))
						pause(r.Context(), 10*time.Second) // and then the stream ends
					}
					a := b.arm("protected", middleware.Config{})
					log := &diary{}
					a.tap.base = &witness{next: a.tap.base, log: log}
					a.http = &http.Client{Transport: &witness{next: a.guard, above: true, log: log}}
					var c caller
					var gone error
					again := func() error { return nil }
					switch sdk {
					case "go-sdk":
						c, gone = a.connectOfficial(), gosdk.ErrSessionMissing
						again = func() error { _, err := a.tryOfficial(t.Context()); return err }
					case "mcp-go":
						m := a.connectMarks(true)
						c, gone = m, transport.ErrSessionTerminated
						again = func() error { return m.initialize(t.Context()) }
					}
					b.until(time.Second)
					done := []<-chan outcome{a.start(c, "x", nil), a.start(c, "y", nil), a.start(c, "z", nil)}
					b.until(9 * time.Second)
					s.kill("stub-1")
					b.until(20 * time.Second)

					want := []string{"call over", "call over", "call over", "GET 404"}
					if !slices.Equal(log.lines, want) {
						t.Errorf("in this order: %q, want %q", log.lines, want)
					}
					if len(log.errs) != len(done) {
						t.Errorf("%d calls ended with an error of the middleware, want %d", len(log.errs), len(done))
					}
					for _, err := range log.errs {
						var lost *middleware.SessionResumptionError
						if !errors.As(err, &lost) || !lost.OutcomeUnknown || lost.Phase != middleware.PhaseProbe {
							t.Errorf("a call ended with %v, want a *SessionResumptionError of phase probe, outcome unknown", err)
						}
					}
					for i, d := range done {
						o, over := settled(t, d)
						if !over || o.err == nil {
							t.Fatalf("call %d = %+v, over %v, want an error", i, o, over)
						}
						var lost *middleware.SessionResumptionError
						kept := errors.As(o.err, &lost)
						if kept && !lost.OutcomeUnknown {
							t.Errorf("call %d = %v, want its outcome unknown", i, o.err)
						}
						// Both keep the chain of what RoundTrip returns, and drop that of a
						// body. go-sdk ends a call by whichever comes first, its own error or
						// the session's end.
						switch sessionEnd := errors.Is(o.err, gosdk.ErrSessionMissing); {
						case kept, sdk == "go-sdk" && sessionEnd:
						case sdk == "mcp-go" && name == "on a stream":
						default:
							t.Errorf("call %d = %v, want a *SessionResumptionError in its chain", i, o.err)
						}
					}
					if e := a.sessionErr("stub-1"); !e.OutcomeUnknown || !errors.Is(e, middleware.ErrSessionDead) {
						t.Errorf("SessionErr(session) = %v, want a death, outcome unknown", e)
					}
					if _, err := c.call(t.Context(), "x", nil); err == nil || sdk == "mcp-go" && !errors.Is(err, gone) {
						t.Errorf("call after the death = %v, want %v", err, gone)
					}
					at := b.now()
					if err := again(); err != nil {
						t.Errorf("initialize after the death = %v, want nil", err)
					}
					b.until(time.Minute)
					if stale := a.tap.of("stub-1", at); len(stale) != 0 {
						t.Errorf("on the wire with the old id after the initialize: %v, want nothing", stale)
					}
				})
			})
		}
	}
}

// C08, C10: a call that finds its session dead says so by the SDK's error, and
// the typed reason is there for who holds the transport.
func TestACallThatFindsTheSessionDead(t *testing.T) {
	for _, sdk := range []string{"go-sdk", "mcp-go"} {
		t.Run(sdk, func(t *testing.T) {
			virtual(t, mcpserver.Config{}, lb.Config{}, func(t *testing.T, b *bed) {
				a := b.arm("protected", middleware.Config{})
				var c caller
				var session string
				var gone error
				if sdk == "go-sdk" {
					o := a.connectOfficial()
					c, session, gone = o, o.ID(), gosdk.ErrSessionMissing
				} else {
					m := a.connectMarks(true)
					c, session, gone = m, m.GetSessionId(), transport.ErrSessionTerminated
				}
				b.until(time.Second)
				other := a.start(c, "work", map[string]any{"events": 1, "interval_ms": 60_000})
				b.until(2 * time.Second)
				b.server.Reap(session)
				before := len(b.server.Oracle().History().Requests)
				if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, gone) {
					t.Errorf("call = %v, want %v", err, gone)
				}
				o, over := settled(t, other)
				var lost *middleware.SessionResumptionError
				if !over || !errors.As(o.err, &lost) && !errors.Is(o.err, gone) {
					t.Errorf("the call in flight = %+v, over %v, want it ended by the session's death", o, over)
				}
				for range 5 {
					if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); err == nil {
						t.Errorf("call after the death = nil, want an error")
					}
				}
				b.until(time.Minute)
				if n := len(b.server.Oracle().History().Requests) - before; n != 1 {
					t.Errorf("%d requests reached the server from the death on, want the 1 that found it", n)
				}
				e := a.sessionErr(session)
				if e.Phase != middleware.PhaseRequest || !e.OutcomeUnknown || e.StatusCode != http.StatusNotFound {
					t.Errorf("SessionErr(session) = %+v, want phase request, status 404, outcome unknown", e)
				}
			})
		})
	}
}
