package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// together sends one request for each cursor at the same moment.
func (w *world) together(t *testing.T, cursors ...string) []*http.Response {
	t.Helper()
	out := make([]*http.Response, len(cursors))
	var wg sync.WaitGroup
	for i, c := range cursors {
		wg.Go(func() {
			var err error
			if out[i], err = w.reconnect(c); err != nil {
				t.Errorf("RoundTrip(GET %s) = %v, want a response", c, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}

func (w *world) rounds(t *testing.T) int {
	t.Helper()
	s := w.transport.Sessions()
	if len(s) != 1 {
		t.Fatalf("Sessions() = %v, want one", s)
	}
	return s[0].AmbiguousRounds
}

// whatIsLost asserts that err tells a request of an unusable session that its
// outcome is unknown.
func whatIsLost(t *testing.T, err, is error) {
	t.Helper()
	var e *middleware.SessionResumptionError
	if !errors.As(err, &e) || !errors.Is(err, is) || !e.OutcomeUnknown || e.SessionID != sid {
		t.Errorf("error = %v, want a *SessionResumptionError with %q and an unknown outcome", err, is)
	}
}

// C06, C77: a server that never says is given up after some rounds.
func TestRoundsInARowWithoutAVerdictEndTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds int
		most   int // how many are enough
		get    http.HandlerFunc
		probe  http.HandlerFunc
		want   middleware.SessionResumptionError
	}{
		"default, probe refused": {0, 3, openSSE(replayed), after(time.Millisecond, status(401, "text/plain", "who?")), middleware.SessionResumptionError{
			Phase: middleware.PhaseProbe, StatusCode: 401, ContentType: "text/plain", QuarantinedEvents: 2,
		}},
		"one, page": {1, 1, status(200, "text/html", "<p>log in</p>"), alive, middleware.SessionResumptionError{
			Phase: middleware.PhaseReplay, StatusCode: 200, ContentType: "text/html",
		}},
		"two, unavailable": {2, 2, status(503, "text/plain", "drain"), alive, middleware.SessionResumptionError{
			Phase: middleware.PhaseReplay, StatusCode: 503, ContentType: "text/plain",
		}},
		"five, all sorts": {5, 5, inTurn(status(200, "text/html", "x"), withHeader(status(429, "", ""), "Retry-After", "99"), openSSE(replayed)),
			inTurn(status(202, "", ""), status(400, "", ""), after(time.Millisecond, status(403, "text/plain", "no"))), middleware.SessionResumptionError{
				Phase: middleware.PhaseProbe, StatusCode: 403, ContentType: "text/plain", QuarantinedEvents: 2,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{AmbiguousRounds: tc.rounds})
				defer w.close()
				w.get = tc.get
				w.post = byMethod(map[string]http.HandlerFunc{
					"tools/call": openSSE(notification("c1", "working")), "tools/slow": silent, "": tc.probe,
				})
				// Two calls are in flight: one has begun to answer, one has not.
				begun := must(t, func() (*http.Response, error) { return w.call("tools/call") })
				lost := make(chan error, 2)
				go func() { _, err := io.ReadAll(begun.Body); lost <- err }()
				go func() { _, err := w.call("tools/slow"); lost <- err }()
				synctest.Wait()

				for i := 1; i < tc.most; i++ {
					isAmbiguous(t, w.resume(t, "k8"), "k8")
					if got := w.rounds(t); got != i {
						t.Fatalf("AmbiguousRounds = %d, want %d", got, i)
					}
					time.Sleep(time.Minute)
				}
				if len(lost) != 0 {
					t.Fatalf("a call ended with %v before the last round", <-lost)
				}
				e := isTerminal(t, w.resume(t, "k8"))
				synctest.Wait()
				for range 2 {
					if len(lost) == 0 {
						t.Fatal("a call is still in flight after the terminal outcome")
					}
					whatIsLost(t, <-lost, middleware.ErrLivenessUnknown)
				}
				want := tc.want
				want.SessionID, want.LastEventID, want.Verdict, want.Err, want.OutcomeUnknown = sid, "k8", middleware.Ambiguous, middleware.ErrLivenessUnknown, true
				got := *e
				got.Quarantined, got.Detail = nil, ""
				if !reflect.DeepEqual(got, want) {
					t.Errorf("error is %#v, want %#v", got, want)
				}

				before := len(w.requests())
				for _, do := range []func() (*http.Response, error){
					func() (*http.Response, error) { return w.reconnect("k8") },
					func() (*http.Response, error) { return w.call("tools/list") },
				} {
					if e := isTerminal(t, must(t, do)); e.Phase != middleware.PhaseFence || !errors.Is(e, middleware.ErrLivenessUnknown) {
						t.Errorf("error is %v, want of phase fence, with %v", e, middleware.ErrLivenessUnknown)
					}
				}
				if got := w.requests()[before:]; len(got) != 0 {
					t.Errorf("on the wire after the fence: %q, want nothing", got)
				}
				if err := w.transport.SessionErr(sid); !errors.Is(err, middleware.ErrLivenessUnknown) {
					t.Errorf("SessionErr(%q) = %v, want %v", sid, err, middleware.ErrLivenessUnknown)
				}
				if got := w.observed(); count(got, "session dead") != 1 || count(got, "released") != 0 {
					t.Errorf("observed %q, want one session dead and nothing released", got)
				}
			})
		})
	}
}

// A proof of life starts the count again, and nothing less does.
func TestProofOfLifeStartsTheCountAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc // of the call between the rounds; nil: a Live reconnect
		proof  bool
	}{
		"probe":                 {nil, true},
		"result, JSON":          {rpcAnswer("application/json", `{"jsonrpc":"2.0","id":$id,"result":{"tools":[]}}`), true},
		"result, SSE":           {rpcAnswer("text/event-stream", "id: q1\ndata: \n\n"+notification("q2", "x")+"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}\n\n"), true},
		"accepted":              {status(202, "", ""), false},
		"accepted, with result": {rpcAnswerCode(202, "application/json", `{"jsonrpc":"2.0","id":$id,"result":{}}`), false},
		"error inside":          {rpcAnswer("application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Invalid session"}}`), false},
		"error of nobody":       {rpcAnswer("application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}`), false},
		"result of nobody":      {rpcAnswer("application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`), false},
		"error inside, SSE":     {rpcAnswer("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32600,\"message\":\"no \\\"result\\\"\"}}\n\n"), false},
		"only notifications":    {rpcAnswer("text/event-stream", notification("q1", `\"result\"`)), false},
		"page":                  {status(200, "text/html", `{"jsonrpc":"2.0","id":7,"result":{}}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				probe := status(403, "", "")
				if tc.answer == nil {
					probe = inTurn(probe, probe, alive, probe)
				}
				w.get = sseAnswer(replayed)
				w.post = byMethod(map[string]http.HandlerFunc{"tools/list": tc.answer, "": probe})
				for range 2 {
					isAmbiguous(t, w.resume(t, "8"), "8")
				}
				if tc.answer != nil {
					read(t, must(t, func() (*http.Response, error) { return w.call("tools/list") }))
				} else {
					isUntouched(t, w.resume(t, "8"), 200, replayed)
				}
				if !tc.proof {
					isTerminal(t, w.resume(t, "8"))
					return
				}
				for i := range 2 {
					isAmbiguous(t, w.resume(t, "8"), "8")
					if got := w.rounds(t); got != i+1 {
						t.Errorf("AmbiguousRounds = %d, want %d", got, i+1)
					}
				}
				isTerminal(t, w.resume(t, "8"))
			})
		})
	}
}

// Streams that come back together and find nobody to say are one round.
func TestStreamsUndecidedTogetherAreOneRound(t *testing.T) {
	for name, tc := range map[string]struct{ get, probe http.HandlerFunc }{
		"probe refused":  {after(time.Millisecond, sseAnswer(replayed)), status(401, "", "")},
		"page":           {after(time.Millisecond, status(200, "text/html", "x")), alive},
		"unavailable":    {status(503, "", ""), alive},
		"probe unheard":  {openSSE(replayed), silent},
		"one after once": {inTurn(after(time.Second, sseAnswer("")), status(503, "", "")), status(401, "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = tc.get, tc.probe
				cursors := []string{"s-4", "c1-2", "c2-9"}
				for i := range 2 {
					for j, resp := range w.together(t, cursors...) {
						isAmbiguous(t, resp, cursors[j])
					}
					if got := w.rounds(t); got != i+1 {
						t.Errorf("AmbiguousRounds = %d, want %d", got, i+1)
					}
					time.Sleep(10 * time.Second)
				}
				for _, resp := range w.together(t, cursors...) {
					if e := isTerminal(t, resp); !errors.Is(e, middleware.ErrLivenessUnknown) {
						t.Errorf("error is %v, want %v", e, middleware.ErrLivenessUnknown)
					}
				}
				if got := w.observed(); count(got, "session dead") != 1 {
					t.Errorf("observed %q, want one session dead", got)
				}
			})
		})
	}
}

// A round of one session is no other session's.
func TestRoundsAreCountedForEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{AmbiguousRounds: 2})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), status(400, "", "")
		isAmbiguous(t, w.resume(t, "8"), "8")
		req := w.request(t.Context(), "GET", "8", "")
		req.Header.Set("Mcp-Session-Id", "another")
		resp := must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
		if body := read(t, resp); resp.StatusCode != 200 || !strings.HasPrefix(body, "id: 8\n") {
			t.Errorf("answer is %d %q, want the other session's first round", resp.StatusCode, body)
		}
		isTerminal(t, w.resume(t, "8"))
		if err := w.transport.SessionErr("another"); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", "another", err)
		}
	})
}

func TestTerminalErrorIsReturned(t *testing.T) {
	for name, tc := range map[string]struct {
		get, post http.HandlerFunc
		call      bool
		want      middleware.SessionResumptionError
	}{
		"reconnect gone": {status(410, "text/plain", "x"), alive, false, middleware.SessionResumptionError{
			Phase: middleware.PhaseReplay, Verdict: middleware.Dead, StatusCode: 410, ContentType: "text/plain", Err: middleware.ErrSessionDead, LastEventID: "e-5",
		}},
		"probe gone": {openSSE(replayed), after(time.Millisecond, gone), false, middleware.SessionResumptionError{
			Phase: middleware.PhaseProbe, Verdict: middleware.Dead, StatusCode: 404, ContentType: "text/plain", Err: middleware.ErrSessionDead, LastEventID: "e-5", QuarantinedEvents: 2,
		}},
		"last round": {openSSE(replayed), after(time.Millisecond, status(401, "", "")), false, middleware.SessionResumptionError{
			Phase: middleware.PhaseProbe, Verdict: middleware.Ambiguous, StatusCode: 401, Err: middleware.ErrLivenessUnknown, LastEventID: "e-5", QuarantinedEvents: 2,
		}},
		"call gone": {nil, gone, true, middleware.SessionResumptionError{
			Phase: middleware.PhaseRequest, Verdict: middleware.Dead, StatusCode: 404, ContentType: "text/plain", Err: middleware.ErrSessionDead,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{Terminal: middleware.TerminalError, AmbiguousRounds: 1})
				defer w.close()
				w.get, w.post = tc.get, tc.post
				do := func() (*http.Response, error) { return w.reconnect("e-5") }
				if tc.call {
					do = func() (*http.Response, error) { return w.call("tools/call") }
				}
				check := func(want middleware.SessionResumptionError) {
					t.Helper()
					resp, err := do()
					var e *middleware.SessionResumptionError
					if resp != nil || !errors.As(err, &e) {
						t.Fatalf("RoundTrip = %v, %v, want no response and a *SessionResumptionError", resp, err)
					}
					got := *e
					if got.Phase != middleware.PhaseFence && len(got.Quarantined) != want.QuarantinedEvents {
						t.Errorf("%d records of quarantined events, want %d", len(got.Quarantined), want.QuarantinedEvents)
					}
					got.Quarantined, got.Detail, want.SessionID = nil, "", sid
					if !reflect.DeepEqual(got, want) {
						t.Errorf("error is %#v, want %#v", got, want)
					}
				}
				check(tc.want)
				fenced := tc.want
				fenced.Phase = middleware.PhaseFence
				before := len(w.requests())
				check(fenced)
				if got := w.requests()[before:]; len(got) != 0 {
					t.Errorf("on the wire after the fence: %q, want nothing", got)
				}
			})
		})
	}
}

// An undecided round is no error even then: the client comes back for it.
func TestTerminalErrorLeavesUndecidedRoundsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{Terminal: middleware.TerminalError})
		defer w.close()
		w.get, w.post = openSSE(replayed), status(401, "", "")
		isAmbiguous(t, w.resume(t, "e-5"), "e-5")
	})
}

// C25: some proxies keep the headers back until the first byte of the body.
func TestReconnectWhoseHeadersNeverCome(t *testing.T) {
	const budget = 6 * time.Second
	newSilentWorld := func(t *testing.T, probe http.HandlerFunc) *world {
		w := newWorld(t, middleware.Config{ProbeBudget: budget, ProbeTimeout: 2 * time.Second})
		w.get, w.post = silent, probe
		return w
	}
	t.Run("live", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSilentWorld(t, alive)
			defer w.close()
			for range 2 * middleware.DefaultAmbiguousRounds {
				start := time.Now()
				resp := w.resume(t, "44")
				if took := time.Since(start); took < budget || took > budget+time.Second {
					t.Errorf("the answer came after %v, want little more than %v", took, budget)
				}
				isAmbiguous(t, resp, "44")
				if got := w.rounds(t); got != 0 {
					t.Errorf("AmbiguousRounds = %d, want 0", got)
				}
			}
			if got, want := w.requests()[:2], []string{"GET 44", "POST ping"}; !reflect.DeepEqual(got, want) {
				t.Errorf("on the wire: %q, want %q", got, want)
			}
		})
	})
	t.Run("dead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSilentWorld(t, gone)
			defer w.close()
			start := time.Now()
			resp := w.resume(t, "44")
			if took := time.Since(start); took < budget || took > budget+time.Second {
				t.Errorf("the answer came after %v, want little more than %v", took, budget)
			}
			if e := deadErr(t, isTerminal(t, resp)); e.Phase != middleware.PhaseProbe || e.StatusCode != 404 || e.LastEventID != "44" {
				t.Errorf("error is %#v, want of phase probe, status 404, cursor 44", e)
			}
			if got, want := w.requests(), []string{"GET 44", "POST ping"}; !reflect.DeepEqual(got, want) {
				t.Errorf("on the wire: %q, want %q", got, want)
			}
		})
	})
	t.Run("undecided", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSilentWorld(t, silent)
			defer w.close()
			for i := range middleware.DefaultAmbiguousRounds {
				start := time.Now()
				resp := w.resume(t, "44")
				if took := time.Since(start); took > 2*budget+time.Second {
					t.Errorf("the answer came after %v, want at most %v and %v", took, budget, budget)
				}
				if i+1 < middleware.DefaultAmbiguousRounds {
					isAmbiguous(t, resp, "44")
				} else if e := isTerminal(t, resp); !errors.Is(e, middleware.ErrLivenessUnknown) {
					t.Errorf("error is %v, want %v", e, middleware.ErrLivenessUnknown)
				}
			}
		})
	})
	t.Run("the client gives up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSilentWorld(t, alive)
			defer w.close()
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := w.transport.RoundTrip(w.request(ctx, "GET", "44", ""))
			if took := time.Since(start); ctx.Err() == nil || !errors.Is(err, ctx.Err()) || took != 2500*time.Millisecond {
				t.Errorf("RoundTrip = %v after %v, want %v after 2.5s", err, took, ctx.Err())
			}
			if got, want := w.requests(), []string{"GET 44"}; !reflect.DeepEqual(got, want) {
				t.Errorf("on the wire: %q, want %q", got, want)
			}
		})
	})
}
