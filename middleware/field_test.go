package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// Kinds of what happened to people that no other file has by another name.

// C01: only POSTs refresh the session, and a GET that is held open does not.
// The stream is cut after the sweep, and the log answers as if nothing was.
func TestASessionThatExpiredUnderItsOpenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 12 * time.Minute
		w := newWorld(t, middleware.Config{})
		defer w.close()
		expires := time.Now().Add(ttl)
		cut := make(chan struct{})
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			if !time.Now().Before(expires) {
				gone(rw, r)
				return
			}
			expires = time.Now().Add(ttl)
			alive(rw, r)
		}
		w.get = inTurn(
			func(rw http.ResponseWriter, r *http.Request) {
				sseAnswer(notification("3", "a"))(rw, r)
				for {
					select {
					case <-time.After(time.Minute):
						_, _ = io.WriteString(rw, ": still here\n\n")
						_ = http.NewResponseController(rw).Flush()
					case <-cut:
						panic(http.ErrAbortHandler)
					}
				}
			},
			openSSE(notification("4", "b"), notification("5", "c")),
		)
		w.mustCall("tools/call", 200)
		stream := follow(w.resume(t, ""), 256)
		time.Sleep(ttl + 30*time.Second)
		close(cut)
		synctest.Wait()
		if err := stream.ended(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v, want an error", err)
		}
		if got := strings.Count(stream.text(), "still here"); got != 12 {
			t.Errorf("%d keepalives passed, want 12", got)
		}
		if e := deadErr(t, isTerminal(t, w.resume(t, "3"))); e.Phase != middleware.PhaseProbe || e.QuarantinedEvents != 2 {
			t.Errorf("error is %#v, want the probe to have told and 2 events quarantined", e)
		}
	})
}

// C23: a server that pings its client ends the session when no answer comes,
// and while a replay is held none does. Nothing of it is released.
func TestAServerThatLosesPatienceDuringTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		var patient atomic.Bool
		patient.Store(true)
		w.get = func(rw http.ResponseWriter, r *http.Request) {
			sseAnswer("data: {\"jsonrpc\":\"2.0\",\"id\":31,\"method\":\"ping\"}\n\n")(rw, r)
			time.Sleep(1500 * time.Millisecond)
			patient.Store(false)
			<-r.Context().Done()
		}
		w.post = after(2500*time.Millisecond, func(rw http.ResponseWriter, r *http.Request) {
			if patient.Load() {
				alive(rw, r)
				return
			}
			gone(rw, r)
		})
		e := deadErr(t, isTerminal(t, w.resume(t, "30")))
		if e.QuarantinedEvents != 1 || e.Quarantined[0].Method != "ping" || e.Quarantined[0].RequestID != "31" {
			t.Errorf("quarantined %+v, want the server's ping", e.Quarantined)
		}
	})
}

// C30: a load balancer that cuts every minute costs one GET and one probe each
// time, and nothing is handed on twice.
func TestAStreamThatIsCutEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 45
		w := newWorld(t, middleware.Config{})
		defer w.close()
		n := 0
		w.get = func(rw http.ResponseWriter, r *http.Request) {
			n++
			sseAnswer(notification(fmt.Sprint("e", n), fmt.Sprint("message ", n)))(rw, r)
			time.Sleep(time.Minute)
			panic(http.ErrAbortHandler)
		}
		w.post = after(time.Millisecond, alive)
		cursor, got := "", ""
		for range rounds {
			body, err := io.ReadAll(w.resume(t, cursor).Body)
			if err == nil {
				t.Error("a stream that was broken off ended cleanly")
			}
			got += string(body)
			cursor = between(string(body), "id: ", "\n")
		}
		for i := 1; i <= rounds; i++ {
			if c := strings.Count(got, fmt.Sprintf("message %d\"", i)); c != 1 {
				t.Errorf("message %d was handed on %d times, want once", i, c)
			}
		}
		if gets, probes := len(w.requests())-w.count("POST ping"), w.count("POST ping"); gets != rounds || probes != rounds-1 {
			t.Errorf("%d GETs and %d probes, want %d and %d", gets, probes, rounds, rounds-1)
		}
	})
}

// C34: a gateway that answers one request several times is handed on as it is.
func TestAnswersThatTheServerDoubledAreNotDoubledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		twice := strings.Repeat("id: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":12,\"result\":{}}\n\n", 2)
		w.get, w.post = sseAnswer(twice), after(time.Millisecond, alive)
		isUntouched(t, w.resume(t, "6"), 200, twice)
	})
}

// C35: a limit on the whole response cuts the replay while it is held. What is
// whole of it is released with the verdict and the cut is seen after it; without
// a Live verdict, no prefix is.
func TestAReplayThatIsCutWhileItIsHeld(t *testing.T) {
	for name, probe := range map[string]http.HandlerFunc{"live": alive, "dead": gone, "undecided": status(403, "", "")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				whole := notification("21", "a") + notification("22", "b")
				w.get = func(rw http.ResponseWriter, r *http.Request) {
					sseAnswer(whole, "id: 23\ndata: {\"jsonr")(rw, r)
					time.Sleep(700 * time.Millisecond)
					panic(http.ErrAbortHandler)
				}
				w.post = after(3*time.Second, probe)
				resp := w.resume(t, "20")
				switch name {
				case "live":
					body, err := io.ReadAll(resp.Body)
					if string(body) != whole || err == nil {
						t.Errorf("body = %q, %v, want %q and an error", body, err, whole)
					}
				case "dead":
					if e := deadErr(t, isTerminal(t, resp)); e.QuarantinedEvents != 2 {
						t.Errorf("%d events quarantined, want 2", e.QuarantinedEvents)
					}
				default:
					isAmbiguous(t, resp, "20")
				}
			})
		})
	}
}

// C64: what a cursor gets that cannot be resumed from is undefined. A 404 to a
// request that carries the session stays terminal, 400 says nothing of the
// session, and a replay of something else is the server's to answer for.
func TestACursorThatCannotBeResumedFrom(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		check  func(*testing.T, *http.Response)
	}{
		"404":          {gone, func(t *testing.T, r *http.Response) { deadErr(t, isTerminal(t, r)) }},
		"400":          {status(400, "text/plain", "unknown event"), func(t *testing.T, r *http.Response) { isUntouched(t, r, 400, "unknown event") }},
		"200, nothing": {sseAnswer(), func(t *testing.T, r *http.Response) { isUntouched(t, r, 200, "") }},
		"200, history": {sseAnswer(notification("1", "a"), notification("2", "b")), func(t *testing.T, r *http.Response) {
			isUntouched(t, r, 200, notification("1", "a")+notification("2", "b"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = tc.answer, after(time.Millisecond, alive)
				tc.check(t, w.resume(t, "no-such-event"))
				if err := w.transport.SessionErr(sid); (err != nil) != (name == "404") {
					t.Errorf("SessionErr = %v after %s", err, name)
				}
			})
		})
	}
}

// C80: a server that takes the connection and says nothing has a bound of ours,
// in the GET and in the probe.
func TestAServerThatAcceptsAndSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 6 * time.Second
		w := newWorld(t, middleware.Config{ProbeTimeout: 2 * time.Second, ProbeBudget: budget})
		defer w.close()
		w.get, w.post = silent, silent
		start := time.Now()
		isAmbiguous(t, w.resume(t, "4"), "4")
		if took := time.Since(start); took < budget || took > 2*budget+time.Second {
			t.Errorf("RoundTrip took %v, want between %v and twice that", took, budget)
		}
	})
}
