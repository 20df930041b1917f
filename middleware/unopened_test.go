package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// The bound on a GET's beginning falls when its answer has just come: it would
// cut that off wherever the client then stands in it. So the GET is one whose
// answer has not begun.
func TestAnAnswerThatComesAtTheBoundIsNotHandedOn(t *testing.T) {
	const budget = 6 * time.Second
	refused := func(rw http.ResponseWriter, r *http.Request) {
		status(401, "text/plain", "who are")(rw, r)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done() // the rest of it is yet to come
	}
	for name, get := range map[string]http.HandlerFunc{"replay": openSSE(replayed), "refusal": refused} {
		for _, probe := range []struct {
			want   middleware.Verdict
			answer http.HandlerFunc
		}{{live, alive}, {dead, gone}, {ambiguous, status(403, "", "")}} {
			t.Run(name+", "+probe.want.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var w *world
					var closed atomic.Bool
					base := baseFunc(func(req *http.Request) (*http.Response, error) {
						resp, err := w.base.RoundTrip(req)
						if err == nil && req.Method == "GET" {
							resp.Body = &onClose{ReadCloser: resp.Body, do: func() { closed.Store(true) }}
							<-req.Context().Done() // it is handed on a moment later
						}
						return resp, err
					})
					w = newWorld(t, middleware.Config{Base: base, ProbeBudget: budget, ProbeTimeout: 2 * time.Second})
					defer w.close()
					w.get, w.post = get, probe.answer
					start := time.Now()
					resp := w.resume(t, "44")
					if took := time.Since(start); took != budget {
						t.Errorf("the answer came after %v, want %v", took, budget)
					}
					if probe.want == dead {
						if e := deadErr(t, isTerminal(t, resp)); e.Phase != middleware.PhaseProbe || e.LastEventID != "44" || e.QuarantinedEvents != 0 {
							t.Errorf("error is %#v, want of phase probe, cursor 44, with nothing held", e)
						}
					} else {
						isAmbiguous(t, resp, "44")
						want := map[middleware.Verdict]int{live: 0, ambiguous: 1}[probe.want]
						if got := w.rounds(t); got != want {
							t.Errorf("AmbiguousRounds = %d, want %d", got, want)
						}
					}
					if n := w.kinds(middleware.Held); n != 0 {
						t.Errorf("%d replays were held, want none", n)
					}
					if !closed.Load() {
						t.Error("the answer that came too late has not been closed")
					}
					if got, want := w.requests(), []string{"GET 44", "POST ping"}; !reflect.DeepEqual(got, want) {
						t.Errorf("on the wire: %q, want %q", got, want)
					}
				})
			})
		}
	}
}

// A client that leaves while an unopened GET is probed leaves the stream of its
// call where the next reconnect finds it.
func TestAStreamOfACallIsFoundAfterAnUnopenedGETThatWasLeft(t *testing.T) {
	const budget = 6 * time.Second
	// The answer of a call has begun and broken off: the client stands at p7,
	// and leaves while its first attempt to go on is probed.
	left := func(t *testing.T, begins ...string) *world {
		w := newWorld(t, middleware.Config{ProbeBudget: budget, ProbeTimeout: 2 * time.Second, MaxEventBytes: 1000})
		w.post = byMethod(map[string]http.HandlerFunc{"tools/long": sseAnswer(begins...), "ping": silent})
		call := must(t, func() (*http.Response, error) { return w.call("tools/long") })
		_, _ = io.ReadAll(call.Body)
		call.Body.Close()
		w.get = silent
		ctx, cancel := context.WithTimeout(t.Context(), budget+time.Second)
		defer cancel()
		if _, err := w.transport.RoundTrip(w.request(ctx, "GET", "p7", "")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("RoundTrip = %v, want %v", err, context.DeadlineExceeded)
		}
		if got, want := w.requests(), []string{"POST tools/long", "GET p7", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Fatalf("on the wire: %q, want %q", got, want)
		}
		synctest.Wait() // the server's answers are about to change
		return w
	}
	t.Run("the session is gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := left(t, "id: p7\ndata: {}\n\n")
			defer w.close()
			w.get = gone
			if e := deadErr(t, isTerminal(t, w.resume(t, "p7"))); !e.OutcomeUnknown {
				t.Errorf("error is %#v, want an unknown outcome: the stream was to bring a call's answer", e)
			}
		})
	})
	t.Run("the same event over the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := left(t, "id: p7\ndata: {}\n\n", sized(1001))
			defer w.close()
			w.get, w.post = openSSE(sized(1001)), alive
			w.tooLarge("p7")
			if err := w.transport.SessionErr(sid); !errors.Is(err, middleware.ErrReplayTooLarge) {
				t.Errorf("SessionErr(%q) = %v, want %v: it has come twice", sid, err, middleware.ErrReplayTooLarge)
			}
		})
	})
}
