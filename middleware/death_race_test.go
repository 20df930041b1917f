package middleware_test

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// A probe is a request of its session like any other: once that is fenced, by
// whomever, the next attempt does not reach the wire.
func TestAProbeThatIsAboutToBeSentIsFencedToo(t *testing.T) {
	post := func(w *world) *http.Request { return w.message(w.t.Context(), "tools/last") }
	get := func(w *world) *http.Request { return w.request(w.t.Context(), "GET", "lost", "") }
	del := func(w *world) *http.Request { return w.request(w.t.Context(), "DELETE", "", "") }
	for name, tc := range map[string]struct {
		end     func(*world) *http.Request // what ends the session meanwhile
		attempt int                        // of the probe, that is about to be sent
		want    []string
	}{
		"a call's 404, first attempt":       {post, 1, []string{"GET c-1", "POST tools/last"}},
		"a call's 404, second attempt":      {post, 2, []string{"GET c-1", "POST ping", "POST tools/last"}},
		"a reconnect's 404, first attempt":  {get, 1, []string{"GET c-1", "GET lost"}},
		"a reconnect's 404, second attempt": {get, 2, []string{"GET c-1", "POST ping", "GET lost"}},
		"a DELETE, first attempt":           {del, 1, []string{"GET c-1", "DELETE"}},
		"a DELETE, second attempt":          {del, 2, []string{"GET c-1", "POST ping", "DELETE"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				ends := make(chan *outcome, 1)
				var slipped atomic.Int32
				w = newWorld(t, middleware.Config{
					// What is asked of a network with an ended context it hides.
					Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						if w.transport.SessionErr(sid) != nil {
							slipped.Add(1)
						}
						return w.base.RoundTrip(req)
					}),
					Observe: func(e middleware.Event) {
						if e.Kind == middleware.ProbeSent && e.Attempt == tc.attempt {
							end := send(w.transport, tc.end(w))
							synctest.Wait() // not for its answer, which may wait for this very probe
							ends <- end
						}
					},
				})
				defer w.close()
				w.get = byCursor(map[string]http.HandlerFunc{"c-1": openSSE(replayed), "lost": gone})
				w.post = byMethod(map[string]http.HandlerFunc{"tools/last": gone, "ping": inTurn(status(503, "", ""), alive)})
				if tc.attempt == 1 {
					w.post = byMethod(map[string]http.HandlerFunc{"tools/last": gone, "ping": alive})
				}
				w.del = status(http.StatusNoContent, "", "")

				deadErr(t, isTerminal(t, w.resume(t, "c-1")))
				end := <-ends
				<-end.done
				synctest.Wait()
				if end.err != nil {
					t.Fatalf("RoundTrip of what ends the session = %v, want a response", end.err)
				}
				read(t, end.resp)
				if n := slipped.Load(); n != 0 {
					t.Errorf("%d requests were sent after the fence, want none", n)
				}
				if got := w.requests(); !reflect.DeepEqual(got, tc.want) {
					t.Errorf("on the wire: %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// ender ends the session by a call that is answered 404, at the moment at which
// a body of an event stream is closed for the first time after it was armed:
// a reader that is about to end the session itself has just done so.
type ender struct {
	w     *world
	armed atomic.Bool

	mu    sync.Mutex
	call  *outcome
	began time.Time
}

func (e *ender) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := e.w.base.RoundTrip(req)
	if err == nil && e.armed.Load() && resp.Header.Get("Content-Type") == asSSE {
		resp.Body = &onFirstClose{ReadCloser: resp.Body, do: e.end}
	}
	return resp, err
}

func (e *ender) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began = time.Now()
	e.call = send(e.w.transport, e.w.message(e.w.t.Context(), "tools/last"))
	synctest.Wait() // for as long as it does not wait for the reader
}

// onFirstClose is onClose for a function during which others close the body.
type onFirstClose struct {
	io.ReadCloser
	closed atomic.Bool
	do     func()
}

func (b *onFirstClose) Close() error {
	if b.closed.CompareAndSwap(false, true) {
		b.do()
	}
	return b.ReadCloser.Close()
}

// A Read that ends its session, and a call whose 404 does so at that moment:
// the call waits until what is in flight has returned, the Read is in flight.
func TestAReadAndACallThatEndTheSessionTogetherDoNotWaitForEachOther(t *testing.T) {
	const lease = 20 * time.Second
	leaseRunsOut := func(w *world, e *ender, open func() *http.Response) *reader {
		late := after(lease+time.Second, openSSE(block(1)))
		w.get, w.post = late, byMethod(map[string]http.HandlerFunc{
			"tools/last": gone, "tools/long": late, "ping": status(401, "", ""),
		})
		e.armed.Store(true)
		return follow(open(), 512)
	}
	for name, tc := range map[string]struct {
		cfg  middleware.Config
		read func(*world, *ender) *reader
	}{
		"the last round of the lease, standalone stream": {
			middleware.Config{LivenessLease: lease, AmbiguousRounds: 1},
			func(w *world, e *ender) *reader { return leaseRunsOut(w, e, w.open) },
		},
		"the last round of the lease, a call's stream": {
			middleware.Config{LivenessLease: lease, AmbiguousRounds: 1},
			func(w *world, e *ender) *reader {
				return leaseRunsOut(w, e, func() *http.Response {
					return must(w.t, func() (*http.Response, error) { return w.call("tools/long") })
				})
			},
		},
		"the same event over the limit twice": {
			middleware.Config{MaxEventBytes: 1000},
			func(w *world, e *ender) *reader {
				w.post = byMethod(map[string]http.HandlerFunc{"tools/last": gone, "ping": alive})
				w.get = sseAnswer(block(1), sized(1001))
				w.tooLarge("c-0")
				w.get = openSSE(sized(1001))
				e.armed.Store(true)
				return follow(w.resume(w.t, "e1"), 512)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &ender{}
				tc.cfg.Base = e
				w := newWorld(t, tc.cfg)
				e.w = w
				defer w.close()
				w.initialize()
				stream := tc.read(w, e)
				<-stream.done
				e.mu.Lock()
				defer e.mu.Unlock()
				if e.call == nil {
					t.Fatalf("Read = %v without closing upstream, want a Read that ends the session", stream.ended())
				}
				<-e.call.done
				deadErr(t, problem(t, e.call.resp, e.call.err))
				if took := stream.at.Sub(e.began); took != 0 {
					t.Errorf("Read ended %v after the call's 404, want it to wait for nothing", took)
				}
				if took := e.call.at.Sub(e.began); took != 0 {
					t.Errorf("the terminal outcome came %v after the call's 404, want it to wait for nothing", took)
				}
				// Only one reason stands, and the call's came first.
				deadErr(t, stream.ended())
				if err := w.transport.SessionErr(sid); !errors.Is(err, middleware.ErrSessionDead) {
					t.Errorf("SessionErr(%q) = %v, want %v", sid, err, middleware.ErrSessionDead)
				}
				if n := w.kinds(middleware.SessionDead); n != 1 {
					t.Errorf("session dead was observed %d times, want once", n)
				}
				stream.body.Close()
			})
		})
	}
}

// A call's stream may have ended before its session did, by another request. Who
// then comes back for the call's answer is told that its outcome is unknown, and
// who comes back for another stream is not.
func TestARefusedReconnectForACallsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = sseAnswer("id: s-1\ndata: 1\n\n")
		w.post = sseAnswer("id: c-1\ndata:\n\n")
		for _, send := range []func() (*http.Response, error){
			func() (*http.Response, error) { return w.reconnect("") },
			func() (*http.Response, error) { return w.call("tools/call") },
		} {
			resp, err := send()
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
		}
		w.post = gone
		resp, err := w.call("tools/list")
		deadErr(t, problem(t, resp, err))
		for _, c := range []struct {
			cursor  string
			unknown bool // by this reconnect, or an earlier one
		}{{"", false}, {"s-1", false}, {"c-1", true}} {
			resp, err := w.reconnect(c.cursor)
			if e := deadErr(t, problem(t, resp, err)); e.OutcomeUnknown != c.unknown || e.Phase != middleware.PhaseFence {
				t.Errorf("reconnect at %q = %+v, want phase fence, OutcomeUnknown %v", c.cursor, e, c.unknown)
			}
			if e := typed(t, w.transport.SessionErr(sid)); e.OutcomeUnknown != c.unknown {
				t.Errorf("after it SessionErr(%q).OutcomeUnknown = %v, want %v", sid, e.OutcomeUnknown, c.unknown)
			}
		}
	})
}
