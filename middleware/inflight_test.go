package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// stalls is a server whose answers do not end: what they do is in the method
// of the call, or in the cursor of the GET.
func (w *world) stalls() {
	w.post = func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch between(string(body), `"method":"`, `"`) {
		case "tools/last":
			gone(rw, r)
			return
		case "tools/json":
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":41,"res`)
			_ = http.NewResponseController(rw).Flush()
		case "tools/sse":
			startSSE(rw)
			_, _ = io.WriteString(rw, "id: s1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
			_ = http.NewResponseController(rw).Flush()
		}
		<-r.Context().Done()
	}
	w.get = func(rw http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "waits":
		case "holds":
			startSSE(rw)
			_, _ = io.WriteString(rw, "id: h1\ndata: one\n\nid: h2\ndata: two\n\n")
			_ = http.NewResponseController(rw).Flush()
		default:
			startSSE(rw)
			_, _ = io.WriteString(rw, "id: g1\ndata: {}\n\n")
			_ = http.NewResponseController(rw).Flush()
		}
		<-r.Context().Done()
	}
}

// C07, C73, C74: one 404 ends all that the session has on the wire, each once,
// and nothing of it is sent again.
func TestADeathEndsEverythingInFlight(t *testing.T) {
	for _, by := range []string{"POST", "GET"} {
		t.Run("by "+by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.stalls()
				standalone := follow(w.open(), 64)
				headers := send(w.transport, w.message(t.Context(), "tools/headers"))
				var calls []*reader
				for _, method := range []string{"tools/json", "tools/sse"} {
					resp, err := w.transport.RoundTrip(w.message(t.Context(), method))
					if err != nil {
						t.Fatal(err)
					}
					calls = append(calls, follow(resp, 64))
				}
				waits := send(w.transport, w.request(t.Context(), "GET", "waits", ""))
				holds := send(w.transport, w.request(t.Context(), "GET", "holds", ""))
				time.Sleep(time.Second)
				synctest.Wait()
				if headers.returned() || waits.returned() || holds.returned() || standalone.ended() != nil ||
					calls[0].ended() != nil || calls[1].ended() != nil {
					t.Fatal("something has ended before the session")
				}
				if got := w.count("POST ping"); got != 1 {
					t.Fatalf("%d probes are under way, want 1", got)
				}

				var resp *http.Response
				var err error
				if by == "POST" {
					resp, err = w.transport.RoundTrip(w.message(t.Context(), "tools/last"))
				} else {
					w.get = gone
					resp, err = w.reconnect("lost")
				}
				e := problem(t, resp, err)
				if deadErr(t, e); !e.OutcomeUnknown {
					t.Error("the terminal outcome does not say that something in flight has an unknown outcome")
				}
				synctest.Wait()

				if deadErr(t, headers.failure(t)); headers.err == nil || !headers.failure(t).OutcomeUnknown {
					t.Errorf("call waiting for headers = %v, %v, want an error of unknown outcome", headers.resp, headers.err)
				}
				for i, r := range append(calls, standalone) {
					if e := deadErr(t, r.ended()); !e.OutcomeUnknown || e.SessionID != sid {
						t.Errorf("body %d ended with %#v, want an unknown outcome", i, e)
					}
				}
				if got, want := calls[1].text()+standalone.text(), "id: s1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nid: g1\ndata: {}\n\n"; got != want {
					t.Errorf("streams = %q, want %q", got, want)
				}
				for cursor, o := range map[string]*outcome{"waits": waits, "holds": holds} {
					if !o.returned() {
						t.Fatalf("reconnect at %q has not returned", cursor)
					}
					if e := problem(t, o.resp, o.err); e.LastEventID != cursor || !errors.Is(e, middleware.ErrSessionDead) {
						t.Errorf("reconnect at %q: error is %#v", cursor, e)
					}
				}
				if e := holds.failure(t); e.QuarantinedEvents != 2 {
					t.Errorf("%d events quarantined, want 2", e.QuarantinedEvents)
				}
				if e := typed(t, w.transport.SessionErr(sid)); e.QuarantinedEvents != 2 || !e.OutcomeUnknown {
					t.Errorf("SessionErr(%q) = %#v, want 2 quarantined and an unknown outcome", sid, e)
				}
				if n := w.kinds(middleware.SessionDead); n != 1 {
					t.Errorf("session dead was observed %d times, want once", n)
				}
				if n := w.transport.Stats().Dead; n != 1 {
					t.Errorf("Stats().Dead = %d, want 1", n)
				}
				for _, what := range []string{"POST tools/headers", "POST tools/json", "POST tools/sse", "POST ping", "GET waits", "GET holds"} {
					if n := w.count(what); n != 1 {
						t.Errorf("%q reached the wire %d times, want once", what, n)
					}
				}
				if got := w.transport.Sessions(); len(got) != 0 {
					t.Errorf("Sessions() = %+v, want none", got)
				}
			})
		})
	}
}

// lagging is a Base whose requests and bodies take a while to notice that they
// have been cancelled or closed. Calls of "tools/last" are answered 404.
type lagging struct {
	lag  time.Duration // 0: they notice only when over is closed
	over chan struct{}

	mu     sync.Mutex
	bodies map[string]int // POSTs by method
	last   time.Time      // when the last of it was really over
}

func newLagging(lag time.Duration) *lagging {
	return &lagging{lag: lag, over: make(chan struct{}), bodies: make(map[string]int)}
}

// linger returns once the cancelled thing is really over.
func (l *lagging) linger(cancelled <-chan struct{}, lag time.Duration) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last = time.Now()
	}()
	if lag == 0 {
		<-l.over
		return
	}
	<-cancelled
	timer := time.NewTimer(lag)
	defer timer.Stop()
	<-timer.C
}

func (l *lagging) RoundTrip(req *http.Request) (*http.Response, error) {
	method := rpcMethod(req)
	if method != "" {
		l.mu.Lock()
		l.bodies[method]++
		l.mu.Unlock()
	}
	contentType := "text/event-stream"
	switch {
	case method == "tools/last":
		return fakeAnswer(req, 404, "text/plain", io.NopCloser(strings.NewReader("no"))), nil
	case method == "tools/headers" || req.Header.Get("Last-Event-ID") == "waits":
		l.linger(req.Context().Done(), l.lag)
		return nil, req.Context().Err()
	case method == "ping": // longer than what it is for
		l.linger(req.Context().Done(), 2*l.lag)
		return nil, req.Context().Err()
	case method == "tools/json":
		contentType = "application/json"
	}
	return fakeAnswer(req, 200, contentType, &laggingBody{l: l, shut: make(chan struct{})}), nil
}

type laggingBody struct {
	l    *lagging
	once sync.Once
	shut chan struct{}
}

func (b *laggingBody) Read([]byte) (int, error) {
	b.l.linger(b.shut, b.l.lag)
	return 0, errors.New("read on closed body")
}

func (b *laggingBody) Close() error { b.once.Do(func() { close(b.shut) }); return nil }

// inFlight starts one thing of each kind, which ends with an error at a time.
var inFlight = map[string]func(*world) *ending{
	"a call waiting for headers": (*world).startCall,
	"a call reading JSON":        func(w *world) *ending { return w.startBody("POST", "tools/json") },
	"a call reading SSE":         func(w *world) *ending { return w.startBody("POST", "tools/sse") },
	"the standalone stream":      func(w *world) *ending { return w.startBody("GET", "") },
	"a reconnect being sent":     func(w *world) *ending { return w.startReconnect("waits") },
	"a reconnect being held":     func(w *world) *ending { return w.startReconnect("holds") },
}

type ending struct {
	done <-chan struct{}
	get  func() (time.Time, error) // once done
}

func (w *world) startCall() *ending {
	o := send(w.transport, w.message(w.t.Context(), "tools/headers"))
	return &ending{o.done, func() (time.Time, error) { return o.at, o.err }}
}

func (w *world) startBody(method, call string) *ending {
	w.t.Helper()
	req := w.request(w.t.Context(), method, "", "")
	if call != "" {
		req = w.message(w.t.Context(), call)
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	r := follow(resp, 64)
	return &ending{r.done, func() (time.Time, error) { return r.at, r.err }}
}

func (w *world) startReconnect(cursor string) *ending {
	o := send(w.transport, w.request(w.t.Context(), "GET", cursor, ""))
	return &ending{o.done, func() (time.Time, error) { return o.at, middleware.ErrorFrom(o.resp) }}
}

// C75: "has returned": no goroutine that still holds the old id may be about
// when the client learns that it has to initialize.
func TestTheTerminalOutcomeWaitsForWhatIsInFlight(t *testing.T) {
	const lag = 300 * time.Millisecond
	for name, start := range inFlight {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := newLagging(lag)
				w := newWorld(t, middleware.Config{Base: base})
				defer w.close()
				one := start(w)
				time.Sleep(time.Second)
				synctest.Wait()
				began := time.Now()
				resp, err := w.transport.RoundTrip(w.message(t.Context(), "tools/last"))
				at := time.Now()
				problem(t, resp, err)
				<-one.done
				other, err := one.get()
				if at.Before(other) {
					t.Errorf("the terminal outcome came after %v, want it after the end of %s, %v", at.Sub(began), name, other.Sub(began))
				}
				// The probe, too, is a request with the old id.
				time.Sleep(time.Second)
				synctest.Wait()
				if at.Before(base.last) {
					t.Errorf("the terminal outcome came after %v, want nothing on the wire, as there was until %v", at.Sub(began), base.last.Sub(began))
				}
				// Whatever the Base makes of a cancellation.
				if e := deadErr(t, err); !e.OutcomeUnknown && strings.HasPrefix(name, "a call") {
					t.Errorf("%s ended with %#v, want an unknown outcome", name, e)
				}
			})
		})
	}
}

// A Base that ignores its context and its bodies' Close costs a moment, however
// much it has on the wire.
func TestTheTerminalOutcomeIsBoundedOnABaseThatIgnoresItsContext(t *testing.T) {
	const most = 3 * time.Second
	for name, start := range inFlight {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := newLagging(0)
				w := newWorld(t, middleware.Config{Base: base, ProbeTimeout: 10 * time.Minute, ProbeBudget: 10 * time.Minute})
				defer w.close()
				var all []*ending
				for range 8 {
					all = append(all, start(w))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				began := time.Now()
				resp, err := w.transport.RoundTrip(w.message(t.Context(), "tools/last"))
				if took := time.Since(began); took > most {
					t.Errorf("the terminal outcome took %v, want at most %v", took, most)
				}
				problem(t, resp, err)
				if name == "a reconnect being held" { // which waits for nothing of the Base's
					time.Sleep(most)
					synctest.Wait()
					for _, one := range all {
						select {
						case <-one.done:
						default:
							t.Errorf("%s has not ended %v after the session", name, most)
						}
					}
				}
				close(base.over)
				for _, one := range all {
					<-one.done
				}
				for method, n := range base.bodies {
					if want := map[string]int{"ping": 1, "tools/last": 1}[method]; want > 0 && n != want {
						t.Errorf("%q reached the wire %d times, want %d", method, n, want)
					}
				}
			})
		})
	}
}

// onClose calls a function when a body is first closed.
type onClose struct {
	io.ReadCloser
	once sync.Once
	do   func()
}

func (b *onClose) Close() error { b.once.Do(b.do); return b.ReadCloser.Close() }

// The order that DESIGN.md gives a death: what is held is closed upstream, the
// session is fenced, all else is ended, and then the client hears of it.
func TestTheOrderOfADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			fenced := w.transport.SessionErr(sid) != nil
			mu.Lock()
			defer mu.Unlock()
			order = append(order, fmt.Sprintf("%s closed, fenced=%v", what, fenced))
		}
		base := baseFunc(func(req *http.Request) (*http.Response, error) {
			what := "tools/sse"
			if req.Method == "GET" {
				what = req.Header.Get("Last-Event-ID")
			}
			resp, err := w.base.RoundTrip(req)
			if err == nil && resp.StatusCode == 200 {
				resp.Body = &onClose{ReadCloser: resp.Body, do: func() { note(what) }}
			}
			return resp, err
		})
		w = newWorld(t, middleware.Config{Base: base, Observe: func(e middleware.Event) {
			if e.Kind == middleware.SessionDead || e.Kind == middleware.Quarantined {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, e.Kind.String())
			}
		}})
		defer w.close()
		w.stalls()
		call, err := w.transport.RoundTrip(w.message(t.Context(), "tools/sse"))
		if err != nil {
			t.Fatal(err)
		}
		r := follow(call, 64)
		synctest.Wait()
		w.post = gone
		resp, err := w.reconnect("holds")
		mu.Lock()
		order = append(order, "terminal")
		mu.Unlock()
		problem(t, resp, err)
		<-r.done
		want := "holds closed, fenced=false; tools/sse closed, fenced=true; session dead; quarantined; terminal"
		if got := strings.Join(order, "; "); got != want {
			t.Errorf("order = %q, want %q", got, want)
		}
	})
}

// Between a probe's answer and the fence there is a moment in which the last of
// a replay is recorded. No request slips out in it.
func TestNothingSlipsOutDuringADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE(), byMethod(map[string]http.HandlerFunc{"ping": gone, "": alive})
		held := send(w.transport, w.request(t.Context(), "GET", "c-1", ""))
		for range 30 {
			synctest.Wait()
			if w.kinds(middleware.ProbeAnswered) == 1 {
				resp, err := w.call("tools/list")
				if e := problem(t, resp, err); e.Phase != middleware.PhaseFence {
					t.Errorf("phase %q, want fence", e.Phase)
				}
			}
			time.Sleep(time.Millisecond)
		}
		deadErr(t, held.failure(t))
		problem(t, held.resp, held.err)
		if got, want := strings.Join(w.requests(), ", "), "GET c-1, POST ping"; got != want {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// C75: forty calls that fail within 10 ms are one death.
func TestParallelRefusalsAreOneDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		const calls = 40
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var n int
			fmt.Sscanf(between(string(body), `"method":"tools/`, `"`), "%d", &n)
			time.Sleep(30*time.Millisecond + time.Duration(n/4)*time.Millisecond)
			gone(rw, r)
		}
		var outcomes []*outcome
		for i := range calls {
			outcomes = append(outcomes, send(w.transport, w.message(t.Context(), fmt.Sprint("tools/", i))))
		}
		defer time.Sleep(time.Second) // the server's handlers are to come to their end
		answered := 0
		for i, o := range outcomes {
			e := deadErr(t, o.failure(t))
			switch {
			case o.resp != nil:
				answered++
				problem(t, o.resp, nil)
			case !e.OutcomeUnknown:
				t.Errorf("call %d was cut off with a known outcome: %v", i, e)
			}
		}
		if answered == 0 {
			t.Error("no call has got the terminal outcome")
		}
		if n := w.kinds(middleware.SessionDead); n != 1 {
			t.Errorf("session dead was observed %d times, want once", n)
		}
		for i := range calls {
			if n := w.count(fmt.Sprint("POST tools/", i)); n != 1 {
				t.Errorf("call %d reached the wire %d times, want once", i, n)
			}
		}
		if stats := w.transport.Stats(); stats.Dead != 1 || stats.Probes != 0 {
			t.Errorf("Stats() = %+v, want one dead and no probe", stats)
		}
	})
}

// C74: a call whose answer is a 404 is not sent a second time, nor is any that
// fails otherwise: only GETs answered 409, 429 or 5xx and the probe are.
func TestNothingButTheProbeIsSentAgain(t *testing.T) {
	for _, failure := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
	}{
		{"404", gone},
		{"410", status(410, "", "")},
		{"409", status(409, "", "")},
		{"429", status(429, "", "")},
		{"500", status(500, "", "")},
		{"503", status(503, "text/plain", "later")},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(failure.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &bodies{}
				w := newWorld(t, middleware.Config{Base: base})
				base.RoundTripper = w.base
				defer w.close()
				w.post, w.get, w.del = failure.answer, failure.answer, failure.answer
				for _, req := range []*http.Request{
					w.request(t.Context(), "GET", "", ""), // the first
					w.message(t.Context(), "tools/call"),
					w.request(t.Context(), "DELETE", "", ""),
				} {
					id := "once-" + req.Method
					req.Header.Set("Mcp-Session-Id", id)
					if resp, err := w.transport.RoundTrip(req); err == nil {
						resp.Body.Close()
					}
				}
				time.Sleep(time.Minute)
				if got, want := strings.Join(w.requests(), ", "), "GET, POST tools/call, DELETE"; got != want {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
				if len(base.sent) != 1 {
					t.Errorf("%d POST bodies sent, want 1", len(base.sent))
				}
			})
		})
	}
}

// A reconnect that is cut off by its own client is no death for the others.
func TestOneRequestThatIsCancelledEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.stalls()
		standalone := follow(w.open(), 64)
		other := send(w.transport, w.message(t.Context(), "tools/headers"))
		ctx, cancel := context.WithCancel(t.Context())
		call := send(w.transport, w.message(ctx, "tools/headers"))
		synctest.Wait()
		cancel()
		<-call.done
		if !errors.Is(call.err, context.Canceled) {
			t.Errorf("RoundTrip = %v, want %v", call.err, context.Canceled)
		}
		synctest.Wait()
		if other.returned() || standalone.ended() != nil || w.transport.SessionErr(sid) != nil {
			t.Errorf("other call ended: %v, stream: %v, session: %v, want none", other.err, standalone.ended(), w.transport.SessionErr(sid))
		}
		if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 2 {
			t.Errorf("Sessions() = %+v, want one with two in flight", got)
		}
		w.kill()
		<-standalone.done
		<-other.done
	})
}
