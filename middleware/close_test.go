package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// serving counts the handlers of w that have not returned: a stream that was
// left open upstream is one.
func (w *world) serving() *atomic.Int32 {
	var n atomic.Int32
	count := func(h http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			n.Add(1)
			defer n.Add(-1)
			h(rw, r)
		}
	}
	if w.get != nil {
		w.get = count(w.get)
	}
	if w.post != nil {
		w.post = count(w.post)
	}
	return &n
}

func busy(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Retry-After", "8")
	rw.WriteHeader(503)
}

// halfJSON begins an answer and does not end it.
func halfJSON(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(rw, `{"jsonrpc":"2.0",`)
	_ = http.NewResponseController(rw).Flush()
	<-r.Context().Done()
}

// phases are where a client can be when it loses interest. reads says that
// RoundTrip returns first.
var phases = []struct {
	name      string
	get, post http.HandlerFunc
	method    string
	cursor    string
	reads     bool
	lease     time.Duration
}{
	{name: "a GET waits for headers", get: silent, method: "GET", cursor: "c-1"},
	{name: "a GET waits to be sent again", get: busy, method: "GET", cursor: "c-1"},
	{name: "a replay is held and the probe unanswered", get: openSSE(block(1)), post: silent, method: "GET", cursor: "c-1"},
	{name: "a replay is held and the probe waits to be sent again", get: openSSE(block(1)), post: busy, method: "GET", cursor: "c-1"},
	{name: "a silent replay is held", get: openSSE(), post: silent, method: "GET", cursor: "c-1"},
	{name: "a replay over the limit is held", get: openSSE(strings.Repeat(block(1), 600)), post: silent, method: "GET", cursor: "c-1"},
	{name: "a released stream is read", get: openSSE(block(1)), post: alive, method: "GET", cursor: "c-1", reads: true},
	{name: "the first GET waits for headers", get: silent, method: "GET"},
	{name: "the standalone stream is read", get: openSSE(block(1)), method: "GET", reads: true},
	{name: "a call waits for headers", post: silent, method: "POST"},
	{name: "a JSON answer is read", post: halfJSON, method: "POST", reads: true},
	{name: "an SSE answer is read", post: openSSE(block(1)), method: "POST", reads: true},
	{name: "an event is held by the lease", get: openSSE(block(1)), post: silent, method: "GET", reads: true, lease: time.Minute},
	{name: "an event is held by the lease and its probe repeated", get: openSSE(block(1)), post: busy, method: "GET", reads: true, lease: time.Minute},
}

// C87, I5, I6: a client that leaves gets its context's error at once, nothing
// stays open upstream, and the session is none the worse.
func TestAClientThatLeavesIsLetGo(t *testing.T) {
	for _, phase := range phases {
		for _, deadline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deadline=%v", phase.name, deadline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, middleware.Config{MaxHeldBytes: 4 << 10, LivenessLease: phase.lease})
					defer w.close()
					w.get, w.post = phase.get, phase.post
					serving := w.serving()
					const leaves = 2 * time.Second
					ctx, cancel := context.WithCancel(t.Context())
					want := context.Canceled
					if deadline {
						ctx, cancel = context.WithTimeout(t.Context(), leaves)
						want = context.DeadlineExceeded
					}
					defer cancel()
					body := ""
					if phase.method == "POST" {
						body = `{"jsonrpc":"2.0","id":41,"method":"tools/call"}`
					}
					o := send(w.transport, w.request(ctx, phase.method, phase.cursor, body))
					var r *reader
					if phase.reads {
						<-o.done
						if o.err != nil {
							t.Fatal(o.err)
						}
						r = follow(o.resp, 64)
					}
					time.Sleep(leaves - time.Millisecond)
					synctest.Wait()
					if !phase.reads && o.returned() || phase.reads && r.ended() != nil {
						t.Fatal("it was over before the client left")
					}
					start := time.Now()
					if !deadline {
						cancel()
					}
					var err error
					var at time.Time
					if phase.reads {
						<-r.done
						err, at = r.ended(), r.at
					} else {
						<-o.done
						err, at = o.err, o.at
					}
					if took := at.Sub(start); took > 200*time.Millisecond {
						t.Errorf("it took %v to end, want no time", took)
					}
					if !errors.Is(err, want) {
						t.Errorf("error is %v, want %v", err, want)
					}
					if r != nil {
						r.body.Close()
					}
					time.Sleep(200 * time.Millisecond)
					synctest.Wait()
					if n := serving.Load(); n != 0 {
						t.Errorf("%d requests are still open upstream, want none", n)
					}
					if err := w.transport.SessionErr(sid); err != nil {
						t.Errorf("SessionErr = %v, want nil", err)
					}
					if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 0 || got[0].AmbiguousRounds != 0 {
						t.Errorf("Sessions() = %+v, want nothing in flight and no round counted", got)
					}
					before := len(w.requests())
					time.Sleep(time.Minute)
					if got := w.requests(); len(got) != before {
						t.Errorf("%q reached the wire after the client had left", got[before:])
					}
				})
			})
		}
	}
}

// A client that is cancelled with a cause of its own can tell.
func TestAClientThatLeavesWithACause(t *testing.T) {
	cause := errors.New("the user has closed the window")
	for _, phase := range phases {
		if phase.reads {
			continue
		}
		t.Run(phase.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{MaxHeldBytes: 4 << 10})
				defer w.close()
				w.get, w.post = phase.get, phase.post
				ctx, cancel := context.WithCancelCause(t.Context())
				o := send(w.transport, w.request(ctx, phase.method, phase.cursor, ""))
				time.Sleep(time.Second)
				synctest.Wait()
				cancel(cause)
				<-o.done
				if !errors.Is(o.err, cause) && !errors.Is(o.err, context.Canceled) {
					t.Errorf("RoundTrip = %v, want %v or %v", o.err, cause, context.Canceled)
				}
			})
		})
	}
}

// C87: a thousand clients that leave in the middle of a hold. The bubble would
// not end with a goroutine left over.
func TestAThousandAbandonedHoldsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE(block(1)), silent
		serving := w.serving()
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%7)*10*time.Millisecond)
			if _, err := w.transport.RoundTrip(w.request(ctx, "GET", "c-1", "")); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("RoundTrip = %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := serving.Load(); n != 0 {
			t.Errorf("%d requests are still open upstream, want none", n)
		}
		if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 0 {
			t.Errorf("Sessions() = %+v, want nothing in flight", got)
		}
	})
}

// Close closes upstream, may come twice and from anywhere, and ends a Read that
// waits, wherever that waits.
func TestCloseEndsARead(t *testing.T) {
	for _, phase := range phases {
		if !phase.reads {
			continue
		}
		t.Run(phase.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{LivenessLease: phase.lease})
				defer w.close()
				w.get, w.post = phase.get, phase.post
				serving := w.serving()
				body := ""
				if phase.method == "POST" {
					body = `{"jsonrpc":"2.0","id":41,"method":"tools/call"}`
				}
				resp, err := w.transport.RoundTrip(w.request(t.Context(), phase.method, phase.cursor, body))
				if err != nil {
					t.Fatal(err)
				}
				r := follow(resp, 64)
				time.Sleep(time.Second)
				synctest.Wait()
				if r.ended() != nil {
					t.Fatalf("Read = %v before Close", r.ended())
				}
				start := time.Now()
				var closers sync.WaitGroup
				for range 3 {
					closers.Go(func() {
						if err := resp.Body.Close(); err != nil {
							t.Errorf("Close = %v, want nil", err)
						}
					})
				}
				closers.Wait()
				<-r.done
				if took := r.at.Sub(start); took > 200*time.Millisecond {
					t.Errorf("Read took %v to end, want no time", took)
				}
				if r.ended() == io.EOF {
					t.Errorf("Read = %v, want an error: the stream has not ended", r.ended())
				}
				for range 2 {
					if err := resp.Body.Close(); err != nil {
						t.Errorf("Close = %v, want nil", err)
					}
					if n, err := resp.Body.Read(make([]byte, 64)); n != 0 || err == nil || err == io.EOF {
						t.Errorf("Read after Close = %d, %v, want an error", n, err)
					}
				}
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				if n := serving.Load(); n != 0 {
					t.Errorf("%d requests are still open upstream, want none", n)
				}
				if got := w.transport.Sessions(); len(got) != 1 || got[0].InFlight != 0 {
					t.Errorf("Sessions() = %+v, want nothing in flight", got)
				}
			})
		})
	}
}

// A Base that is slow to notice delays Close for a moment, and not the reader of
// a stream that has just been released.
func TestCloseEndsAReadOnASlowBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newLagging(300 * time.Millisecond)
		base := baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == "POST" {
				time.Sleep(time.Millisecond) // the replay is being read by then
				return fakeAnswer(req, 200, "text/plain", http.NoBody), nil
			}
			return slow.RoundTrip(req)
		})
		cfg := middleware.Config{Base: base, Probe: middleware.Probe{Judge: judgeLive}}
		cfg.Probe.NewRequest = func(ctx context.Context, reconnect *http.Request) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, "POST", reconnect.URL.String(), http.NoBody)
		}
		w := newWorld(t, cfg)
		defer w.close()
		resp, err := w.reconnect("c-1")
		if err != nil {
			t.Fatal(err)
		}
		r := follow(resp, 64)
		synctest.Wait()
		start := time.Now()
		resp.Body.Close()
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v, want at most a second", took)
		}
		<-r.done
		if took := r.at.Sub(start); took != 0 {
			t.Errorf("Read took %v to end, want no time", took)
		}
	})
}

// What was released and not read does not come after Close.
func TestCloseDropsWhatWasReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE(replayed), alive
		resp, err := w.reconnect("7")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := resp.Body.Read(make([]byte, 4)); n != 4 || err != nil {
			t.Errorf("Read = %d, %v, want 4, nil", n, err)
		}
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 64)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("Read after Close = %d, %v, want an error", n, err)
		}
	})
}

// lateBody brings events when it is closed, as a connection does on which they
// have come already.
type lateBody struct {
	text string
	shut chan struct{}
	once sync.Once
	late bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	<-b.shut
	if b.late {
		return 0, errors.New("read on closed body")
	}
	b.late = true
	return copy(p, b.text), nil
}

func (b *lateBody) Close() error { b.once.Do(func() { close(b.shut) }); return nil }

// Close, and a death, race with events that arrive: only the race detector can
// tell that they do so safely.
func TestCloseWhileEventsArrive(t *testing.T) {
	for _, by := range []string{"Close", "death"} {
		for _, lease := range []time.Duration{0, time.Hour} {
			for _, open := range []string{"GET", "POST", "GET c-1"} {
				t.Run(fmt.Sprintf("by %s, lease=%v, %s", by, lease, open), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						events := strings.Repeat("id: 123456\ndata: {}\n\n", 1000)
						base := baseFunc(func(req *http.Request) (*http.Response, error) {
							switch method := rpcMethod(req); {
							case req.Method == "GET" || method == "tools/call":
								return fakeAnswer(req, 200, "text/event-stream", &lateBody{text: events, shut: make(chan struct{})}), nil
							case method == "tools/last":
								return fakeAnswer(req, 404, "text/plain", http.NoBody), nil
							}
							return fakeAnswer(req, 200, "text/plain", http.NoBody), nil
						})
						cfg := middleware.Config{Base: base, LivenessLease: lease}
						cfg.Probe.NewRequest = func(ctx context.Context, reconnect *http.Request) (*http.Request, error) {
							return http.NewRequestWithContext(ctx, "POST", reconnect.URL.String(), http.NoBody)
						}
						cfg.Probe.Judge = func(*http.Response, []byte) middleware.Verdict { return middleware.Live }
						w := newWorld(t, cfg)
						defer w.close()
						for i := range 30 {
							method, cursor, _ := strings.Cut(open, " ")
							first, last := w.request(t.Context(), method, cursor, ""), w.message(t.Context(), "tools/last")
							if method == "POST" {
								first = w.message(t.Context(), "tools/call")
							}
							for _, req := range []*http.Request{first, last} {
								req.Header.Set("Mcp-Session-Id", fmt.Sprint("s-", i))
							}
							resp, err := w.transport.RoundTrip(first)
							if err != nil {
								t.Fatal(err)
							}
							r := follow(resp, 64<<10)
							synctest.Wait()
							if by == "Close" {
								resp.Body.Close()
							} else {
								killed, err := w.transport.RoundTrip(last)
								problem(t, killed, err)
							}
							<-r.done
							resp.Body.Close()
						}
					})
				})
			}
		}
	}
}

// C75: whoever waits for a probe may leave; the others' probe goes on.
func TestAWaiterThatLeavesDoesNotEndTheOthersProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		probes := &answerable{make(chan http.HandlerFunc)}
		w.get, w.post = after(time.Millisecond, sseAnswer(block(1))), probes.ServeHTTP
		var cancels []context.CancelFunc
		var all []*outcome
		for i := range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			all = append(all, send(w.transport, w.request(ctx, "GET", fmt.Sprint("c-", i), "")))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// The one whose request the probe was made from is among them.
		for _, i := range []int{0, 3, 1} {
			cancels[i]()
			<-all[i].done
			if !errors.Is(all[i].err, context.Canceled) {
				t.Errorf("RoundTrip = %v, want %v", all[i].err, context.Canceled)
			}
		}
		synctest.Wait()
		if all[2].returned() {
			t.Fatalf("RoundTrip = %v, %v, want it to wait for the probe", all[2].resp, all[2].err)
		}
		probes.answers <- alive
		<-all[2].done
		if all[2].err != nil {
			t.Fatal(all[2].err)
		}
		if got := read(t, all[2].resp); got != block(1) {
			t.Errorf("replay = %q, want %q", got, block(1))
		}
		if n := w.count("POST ping"); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
	})
}

func TestTheLastWaiterThatLeavesEndsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = after(time.Millisecond, openSSE(block(1))), silent
		serving := w.serving()
		ctx, cancel := context.WithCancel(t.Context())
		var all []*outcome
		for i := range 3 {
			all = append(all, send(w.transport, w.request(ctx, "GET", fmt.Sprint("c-", i), "")))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := serving.Load(); n != 4 {
			t.Fatalf("%d requests are open upstream, want three GETs and a probe", n)
		}
		cancel()
		for _, o := range all {
			<-o.done
		}
		synctest.Wait()
		if n := serving.Load(); n != 0 {
			t.Errorf("%d requests are still open upstream, want none", n)
		}
		if n := w.count("POST ping"); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
	})
}

// All who waited for one probe get its answer, each with its own replay. C75.
func TestAllWaitersGetTheProbesAnswer(t *testing.T) {
	for _, verdict := range []string{"live", "dead", "ambiguous"} {
		t.Run(verdict, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				probes := &answerable{make(chan http.HandlerFunc)}
				w.get, w.post = after(time.Millisecond, openSSE(block(1))), probes.ServeHTTP
				var all []*outcome
				for i := range 20 {
					all = append(all, send(w.transport, w.request(t.Context(), "GET", fmt.Sprint("c-", i), "")))
				}
				time.Sleep(time.Second)
				synctest.Wait()
				probes.answers <- map[string]http.HandlerFunc{"live": alive, "dead": gone, "ambiguous": status(400, "", "")}[verdict]
				for i, o := range all {
					<-o.done
					if o.err != nil {
						t.Fatal(o.err)
					}
					cursor := fmt.Sprint("c-", i)
					switch verdict {
					case "live":
						p := make([]byte, 64)
						if n, err := io.ReadFull(o.resp.Body, p[:len(block(1))]); err != nil || string(p[:n]) != block(1) {
							t.Errorf("%s: replay = %q, %v, want %q", cursor, p[:n], err, block(1))
						}
						o.resp.Body.Close()
					case "dead":
						if e := problem(t, o.resp, nil); e.LastEventID != cursor || e.QuarantinedEvents != 1 {
							t.Errorf("%s: error is %#v", cursor, e)
						}
					default:
						if got := read(t, o.resp); !strings.Contains(got, "id: "+cursor+"\n") {
							t.Errorf("%s: answer = %q, want its cursor again", cursor, got)
						}
					}
				}
				if n := w.count("POST ping"); n != 1 {
					t.Errorf("%d probes, want 1", n)
				}
				if got := w.transport.Sessions(); verdict == "ambiguous" && (len(got) != 1 || got[0].AmbiguousRounds != 1) {
					t.Errorf("Sessions() = %+v, want one round without a verdict", got)
				}
			})
		})
	}
}

// A probe that has lost all who wait for it before it was sent must not be the
// one that a later reconnect gets.
func TestAReconnectDoesNotJoinAnAbandonedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		probes := &answerable{make(chan http.HandlerFunc)}
		w.get, w.post = sseAnswer(block(1)), probes.ServeHTTP
		first := send(w.transport, w.request(t.Context(), "GET", "c-1", ""))
		synctest.Wait() // its probe is on the wire
		ctx, cancel := context.WithCancel(t.Context())
		second := send(w.transport, w.request(ctx, "GET", "c-2", ""))
		synctest.Wait() // and waits for a probe of its own
		cancel()
		<-second.done
		third := send(w.transport, w.request(t.Context(), "GET", "c-3", ""))
		synctest.Wait()
		for _, o := range []*outcome{first, third} {
			select {
			case probes.answers <- alive:
			case <-time.After(time.Minute):
				t.Error("no probe is waiting for its answer")
			}
			<-o.done
			if o.err != nil {
				t.Fatal(o.err)
			}
			if got := read(t, o.resp); got != block(1) || middleware.ErrorFrom(o.resp) != nil {
				t.Errorf("replay = %q, %v, want %q", got, middleware.ErrorFrom(o.resp), block(1))
			}
		}
		if n := w.count("POST ping"); n != 2 {
			t.Errorf("%d probes, want 2", n)
		}
	})
}
