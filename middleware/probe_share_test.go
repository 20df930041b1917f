package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// result is how one of several requests ended, and when.
type result struct {
	resp *http.Response
	err  error
	at   time.Time
}

// start sends a reconnect on a goroutine of its own.
func (w *world) start(ctx context.Context, cursor string) <-chan result {
	out := make(chan result, 1)
	go func() {
		resp, err := w.transport.RoundTrip(w.request(ctx, "GET", cursor, ""))
		out <- result{resp, err, time.Now()}
	}()
	return out
}

func (r result) must(t *testing.T) *http.Response {
	t.Helper()
	if r.err != nil {
		t.Fatalf("RoundTrip = %v, want a response", r.err)
	}
	return r.resp
}

// replayOf is a replay that can be told from another cursor's.
func replayOf(cursor string) string { return notification(cursor+"+1", "after "+cursor) }

// opensAfter replays for each cursor after a time of its own.
func opensAfter(delays map[string]time.Duration) http.HandlerFunc {
	handlers := make(map[string]http.HandlerFunc)
	for cursor, d := range delays {
		handlers[cursor] = after(d, openSSE(replayOf(cursor)))
	}
	return byCursor(handlers)
}

// readEvent reads as many bytes as want has, and closes the body.
func readEvent(t *testing.T, resp *http.Response, want string) {
	t.Helper()
	defer resp.Body.Close()
	got := make([]byte, len(want))
	n := 0
	for n < len(got) {
		k, err := resp.Body.Read(got[n:])
		n += k
		if err != nil {
			t.Errorf("reading the body = %v", err)
			break
		}
	}
	if string(got[:n]) != want {
		t.Errorf("body = %q, want %q", got[:n], want)
	}
}

// C75: the streams of a session break together and come back together.
func TestOneProbeForReconnectsThatOpenTogether(t *testing.T) {
	delays := map[string]time.Duration{"std-41": time.Millisecond, "c7-2": 9 * time.Millisecond, "c9-0": 20 * time.Millisecond}
	for name, tc := range map[string]struct {
		probe http.HandlerFunc
		want  middleware.Verdict
		hook  time.Duration // how long the application's hook takes
	}{
		"live":            {after(time.Millisecond, alive), live, 0},
		"live, slow hook": {after(time.Millisecond, alive), live, 2 * time.Millisecond},
		"dead":            {after(time.Millisecond, gone), dead, 0},
		"undecided":       {after(time.Millisecond, status(401, "", "")), ambiguous, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{Observe: func(e middleware.Event) {
					if e.Kind == middleware.Held {
						time.Sleep(tc.hook)
					}
				}})
				defer w.close()
				w.get, w.post = opensAfter(delays), tc.probe
				results := make(map[string]<-chan result)
				for cursor := range delays {
					results[cursor] = w.start(t.Context(), cursor)
				}
				for cursor, c := range results {
					resp := (<-c).must(t)
					switch tc.want {
					case live:
						if err := middleware.ErrorFrom(resp); err != nil {
							t.Errorf("ErrorFrom(answer to %s) = %v, want nil", cursor, err)
						}
						readEvent(t, resp, replayOf(cursor))
					case dead:
						if e := deadErr(t, isTerminal(t, resp)); e.LastEventID != cursor || e.QuarantinedEvents != 1 {
							t.Errorf("error is at %q with %d events, want at %q with 1", e.LastEventID, e.QuarantinedEvents, cursor)
						}
					default:
						isAmbiguous(t, resp, cursor)
					}
				}
				if got := w.requests(); count(got, "POST ping") != 1 || len(got) != 4 {
					t.Errorf("on the wire: %q, want 3 GETs and one probe", got)
				}
				if tc.want == dead {
					if got := w.observed(); count(got, "session dead") != 1 || count(got, "quarantined") != 3 {
						t.Errorf("observed %q, want one session dead and 3 quarantined", got)
					}
				}
			})
		})
	}
}

// A stream that opens slowly does not keep the others waiting.
func TestReconnectThatOpensLateHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = opensAfter(map[string]time.Duration{"std-3": 0, "c1-1": 4 * time.Second}), alive
		start := time.Now()
		late := w.start(t.Context(), "c1-1")
		synctest.Wait()
		soon := <-w.start(t.Context(), "std-3")
		if took := soon.at.Sub(start); took > 100*time.Millisecond {
			t.Errorf("the first verdict took %v, want at most 100ms", took)
		}
		readEvent(t, soon.must(t), replayOf("std-3"))
		readEvent(t, (<-late).must(t), replayOf("c1-1"))
		if got, want := w.requests(), []string{"GET c1-1", "GET std-3", "POST ping", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// A reconnect alone waits for nobody.
func TestReconnectAloneIsProbedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE(replayOf("std-3")), alive
		start := time.Now()
		readEvent(t, w.resume(t, "std-3"), replayOf("std-3"))
		if took := time.Since(start); took > moment {
			t.Errorf("the verdict took %v, want next to none", took)
		}
	})
}

// A probe that was sent before a replay opened says that it is dead, but not
// that it lives.
func TestReplayThatOpensDuringAProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		probes        []http.HandlerFunc
		first, second middleware.Verdict
		want          []string
	}{
		"live, live": {[]http.HandlerFunc{alive, alive}, live, live, []string{"GET a-1", "POST ping", "GET b-1", "POST ping"}},
		"live, dead": {[]http.HandlerFunc{alive, gone}, live, dead, []string{"GET a-1", "POST ping", "GET b-1", "POST ping"}},
		"dead":       {[]http.HandlerFunc{gone, alive}, dead, dead, []string{"GET a-1", "POST ping", "GET b-1"}},
		"undecided, live": {[]http.HandlerFunc{status(403, "", ""), alive}, ambiguous, live,
			[]string{"GET a-1", "POST ping", "GET b-1", "POST ping"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get = opensAfter(map[string]time.Duration{"a-1": 0, "b-1": 0})
				w.post = after(time.Second, inTurn(tc.probes...))
				start := time.Now()
				first := w.start(t.Context(), "a-1")
				time.Sleep(400 * time.Millisecond)
				second := w.start(t.Context(), "b-1")

				a := <-first
				if took := a.at.Sub(start); took < time.Second || took > time.Second+moment {
					t.Errorf("the first verdict came after %v, want 1s", took)
				}
				b := <-second
				switch {
				case tc.first == dead && b.at.Sub(start) > time.Second+moment:
					t.Errorf("the second verdict came after %v, want with the first", b.at.Sub(start))
				case tc.first != dead && b.at.Sub(start) < 1400*time.Millisecond:
					t.Errorf("the second verdict came after %v, before a probe of its own could be answered", b.at.Sub(start))
				}
				for _, x := range []struct {
					r      result
					want   middleware.Verdict
					cursor string
				}{{b, tc.second, "b-1"}, {a, tc.first, "a-1"}} {
					resp := x.r.must(t)
					switch {
					case x.want == dead:
						deadErr(t, isTerminal(t, resp))
					case x.want == ambiguous:
						isAmbiguous(t, resp, x.cursor)
					case tc.second == dead: // released, and then ended from outside
						if err := middleware.ErrorFrom(resp); err != nil {
							t.Errorf("ErrorFrom(answer to %s) = %v, want nil", x.cursor, err)
						}
						resp.Body.Close()
					default:
						readEvent(t, resp, replayOf(x.cursor))
					}
				}
				if got := w.requests(); !reflect.DeepEqual(got, tc.want) {
					t.Errorf("on the wire: %q, want %q", got, tc.want)
				}
				if got, want := count(w.observed(), "probe sent"), count(tc.want, "POST ping"); got != want {
					t.Errorf("the hook was told of %d probes, want %d", got, want)
				}
			})
		})
	}
}

// The fence does not wait for what may still come of a replay: nothing does on
// a stream without a byte.
func TestDeadVerdictFencesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		w := newWorld(t, middleware.Config{Observe: func(e middleware.Event) {
			if e.Kind == middleware.ProbeAnswered {
				close(answered)
			}
		}})
		defer w.close()
		w.get = after(time.Millisecond, openSSE())
		w.post = byMethod(map[string]http.HandlerFunc{"tools/call": alive, "": gone})
		results := []<-chan result{w.start(t.Context(), "a-1"), w.start(t.Context(), "b-1"), w.start(t.Context(), "c-1")}
		<-answered
		time.Sleep(time.Millisecond)
		deadErr(t, isTerminal(t, must(t, func() (*http.Response, error) { return w.call("tools/call") })))
		for _, r := range results {
			deadErr(t, isTerminal(t, (<-r).must(t)))
		}
		if got := w.requests(); count(got, "POST tools/call") != 0 || len(got) != 4 {
			t.Errorf("on the wire: %q, want 3 GETs and one probe", got)
		}
	})
}

// What one probe brought is handed on once, whoever shared it.
func TestOtherMessagesOfASharedProbeAreHandedOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		const n = 12
		handlers := make(map[string]http.HandlerFunc)
		for i := range n {
			cursor := fmt.Sprintf("s%d-1", i)
			handlers[cursor] = after(time.Millisecond, sseAnswer(replayOf(cursor)))
		}
		w.get = byCursor(handlers)
		w.post = after(time.Millisecond, inTurn(
			rpcAnswer("text/event-stream", notification("p-1", "queued")+"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}\n\n"),
			alive,
		))
		var mu sync.Mutex
		var all strings.Builder
		var wg sync.WaitGroup
		for cursor := range handlers {
			wg.Go(func() {
				resp, err := w.reconnect(cursor)
				if err != nil {
					t.Errorf("RoundTrip(GET %s) = %v, want a response", cursor, err)
					return
				}
				body := read(t, resp)
				if !strings.HasPrefix(body, replayOf(cursor)) {
					t.Errorf("body at %s = %q, want %q first", cursor, body, replayOf(cursor))
				}
				mu.Lock()
				all.WriteString(body)
				mu.Unlock()
			})
		}
		wg.Wait()
		if got := strings.Count(all.String(), "queued"); got != 1 {
			t.Errorf("the message was handed on %d times, want once", got)
		}
	})
}

// A probe belongs to all who wait for it: it goes on when the first of them
// leaves, and ends when the last does.
func TestProbeOutlivesTheClientThatCausedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		var ended atomic.Int32
		w.get = opensAfter(map[string]time.Duration{"a-1": 5 * time.Millisecond, "b-1": 6 * time.Millisecond})
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			after(2*time.Second, alive)(rw, r)
			ended.Add(1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := w.start(ctx, "a-1"), w.start(t.Context(), "b-1")
		time.Sleep(500 * time.Millisecond)
		cancel()
		if r := <-first; r.err != context.Canceled {
			t.Errorf("RoundTrip of the one that left = %v, want %v", r.err, context.Canceled)
		}
		synctest.Wait()
		if ended.Load() != 0 {
			t.Fatal("the probe ended with the client that caused it")
		}
		readEvent(t, (<-second).must(t), replayOf("b-1"))
		if got := w.requests(); count(got, "POST ping") != 1 {
			t.Errorf("on the wire: %q, want one probe", got)
		}

		ctx, cancel = context.WithCancel(t.Context())
		third, fourth := w.start(ctx, "a-1"), w.start(ctx, "b-1")
		time.Sleep(500 * time.Millisecond)
		cancel()
		<-third
		<-fourth
		synctest.Wait()
		if got := ended.Load(); got != 2 {
			t.Errorf("%d probes have ended, want both: nobody waits any more", got)
		}
	})
}

// Who waited for the next probe and left takes nobody along who comes later.
func TestReconnectAfterOneThatLeftIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = opensAfter(map[string]time.Duration{"a-1": 0, "b-1": 0, "c-1": 0})
		w.post = after(time.Second, alive)
		first := w.start(t.Context(), "a-1")
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		second := w.start(ctx, "b-1")
		time.Sleep(100 * time.Millisecond)
		cancel()
		<-second
		third := w.start(t.Context(), "c-1")
		readEvent(t, (<-first).must(t), replayOf("a-1"))
		readEvent(t, (<-third).must(t), replayOf("c-1"))
		if got, want := w.requests(), []string{"GET a-1", "POST ping", "GET b-1", "GET c-1", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// Sessions do not share a probe.
func TestEachSessionHasItsOwnProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = after(time.Millisecond, openSSE(replayed))
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Session-Id") == sid {
				alive(rw, r)
			} else {
				gone(rw, r)
			}
		}
		own := w.start(t.Context(), "7")
		req := w.request(t.Context(), "GET", "7", "")
		req.Header.Set("Mcp-Session-Id", "another")
		other := must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
		if e := deadErr(t, isTerminal(t, other)); e.SessionID != "another" {
			t.Errorf("error is of session %q, want another", e.SessionID)
		}
		readEvent(t, (<-own).must(t), replayed)
		if got := w.requests(); count(got, "POST ping") != 2 {
			t.Errorf("on the wire: %q, want two probes", got)
		}
	})
}
