package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// spin reconnects at a cursor and reads what comes, to its end.
func (w *world) spin(cursor string) (*http.Response, string) {
	w.t.Helper()
	resp, err := w.reconnect(cursor)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// gaps is the times between requests that read like this.
func (w *world) gaps(what string) (gaps []time.Duration) {
	at := w.times(what)
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i].Sub(at[i-1]))
	}
	return gaps
}

// Empty replays, as they look on the wire. C65, C81.
var empties = map[string]http.HandlerFunc{
	"nothing":       sseAnswer(),
	"a comment":     sseAnswer(": nothing new\n\n"),
	"blank lines":   sseAnswer("\n\r\n\r"),
	"a BOM":         sseAnswer("\uFEFF"),
	"many comments": sseAnswer(": a\n", ": b\r\n\r\n", ":\r"),
	// Blocks without data are for the client, and nothing for its application:
	// so a server of 2025-11-25 primes a stream that it then closes.
	"a primed stream": sseAnswer("id: p-1\nretry: 1000\ndata:\n\n"),
}

func TestASessionThatSpinsIsProbedLessAndLess(t *testing.T) {
	for name, empty := range empties {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = empty, alive
				want := w.mustGet(empty)
				gets := 3600
				if name != "nothing" {
					gets = 900
				}
				for range gets {
					resp, text := w.spin("c-77")
					if resp.StatusCode != 200 || text != want {
						t.Fatalf("answer is %s %q, want the server's own %q", resp.Status, text, want)
					}
					time.Sleep(time.Second)
				}
				if n := w.count("GET c-77"); n != gets {
					t.Errorf("%d GETs on the wire, want %d", n, gets)
				}
				probes := w.count("POST ping")
				if least, most := gets/31, gets/30+10; probes < least || probes > most {
					t.Errorf("%d probes in %d s, want %d to %d", probes, gets, least, most)
				}
				last := time.Duration(0)
				for i, gap := range w.gaps("POST ping") {
					if gap > 31*time.Second || gap < last-2*time.Second {
						t.Errorf("gap %d is %v after %v, want them to grow to 30s and no more", i, gap, last)
					}
					last = gap
				}
				if stats := w.transport.Stats(); stats.EmptyReplays != uint64(gets) || stats.Live != uint64(gets) || stats.ReleasedEvents != 0 {
					t.Errorf("Stats() = %+v, want %d empty replays and as many live", stats, gets)
				}
			})
		})
	}
}

// mustGet is what a handler writes, as a client without a session reads it.
func (w *world) mustGet(h http.HandlerFunc) string {
	w.t.Helper()
	get := w.get
	w.get = h
	req := w.request(w.t.Context(), "GET", "", "")
	req.Header.Del("Mcp-Session-Id")
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	text := read(w.t, resp)
	w.get = get
	return text
}

// An event in between begins it anew: the first empty replay that comes more
// than a second after is probed.
func TestAnEventInBetweenResetsTheSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(), alive
		for range 200 {
			w.spin("c-1")
			time.Sleep(time.Second)
		}
		if gaps := w.gaps("POST ping"); gaps[len(gaps)-1] < 29*time.Second {
			t.Fatalf("gaps are %v, want them to have grown", gaps)
		}
		before := w.count("POST ping")
		w.get = sseAnswer(block(1))
		if _, text := w.spin("c-1"); text != block(1) {
			t.Errorf("replay = %q, want %q", text, block(1))
		}
		if n := w.count("POST ping") - before; n != 1 {
			t.Errorf("a replay with an event cost %d probes, want 1", n)
		}
		w.get = sseAnswer()
		began := time.Now()
		for time.Since(began) < 8*time.Second {
			time.Sleep(time.Second)
			w.spin("c-2")
		}
		at := w.times("POST ping")[before+1:]
		if len(at) < 2 || at[0].Sub(began) > 2*time.Second || at[1].Sub(at[0]) > 4*time.Second {
			t.Errorf("probed at %v after the event, want it soon and again soon", since(at, began))
		}
	})
}

func since(at []time.Time, began time.Time) (all []time.Duration) {
	for _, a := range at {
		all = append(all, a.Sub(began))
	}
	return all
}

// No verdict is ever older than the replay that it releases.
func TestWhatHoldsAnEventIsAlwaysProbed(t *testing.T) {
	for name, replay := range map[string]string{
		"an event":                "data: x\n\n",
		"one without its space":   "data:x\n\n",
		"one with CR":             "id: 5\rdata: x\r\r",
		"a name before the data":  "event: message\ndata: {}\n\n",
		"the data's second line":  "data:\ndata: x\n\n",
		"comments, then an event": ": one\n\n: two\n\ndata: x\n\n",
		"a cursor, then an event": "id: 5\ndata:\n\ndata: x\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = sseAnswer(replay), alive
				for range 50 {
					if _, text := w.spin("c-3"); text != replay {
						t.Fatalf("replay = %q, want %q", text, replay)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if gets, probes := w.count("GET c-3"), w.count("POST ping"); gets != 50 || probes != 50 {
					t.Errorf("%d GETs and %d probes, want 50 and 50", gets, probes)
				}
				// Also when empty replays have made the window long.
				w.get = sseAnswer()
				for range 100 {
					w.spin("c-4")
					time.Sleep(time.Second)
				}
				before := w.count("POST ping")
				w.get, w.post = sseAnswer(replay), gone
				resp, err := w.reconnect("c-5")
				if deadErr(t, problem(t, resp, err)); w.count("POST ping") != before+1 {
					t.Errorf("%d probes, want 1", w.count("POST ping")-before)
				}
			})
		})
	}
}

// Also if the event and the end of the replay are read at once.
func TestAnEventThatComesWithTheEndIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := baseFunc(func(req *http.Request) (*http.Response, error) {
			switch rpcMethod(req) {
			case "initialize": // which finds the session alive just now
				resp := fakeAnswer(req, 200, "application/json", http.NoBody)
				resp.Header.Set("Mcp-Session-Id", sid)
				return resp, nil
			case "ping":
				return fakeAnswer(req, 410, "", http.NoBody), nil
			}
			text := strings.NewReader("id: 5\ndata: x\n\n")
			return fakeAnswer(req, 200, "text/event-stream", io.NopCloser(iotest.DataErrReader(text))), nil
		})
		w := newWorld(t, middleware.Config{Base: base})
		defer w.close()
		req := w.message(t.Context(), "initialize")
		req.Header.Del("Mcp-Session-Id")
		if _, err := w.transport.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		resp, err := w.reconnect("4")
		if e := problem(t, resp, err); e.QuarantinedEvents != 1 {
			t.Errorf("error is %#v, want the event quarantined", e)
		}
	})
}

// An event that was cut off is not an empty replay: it is probed, and then a
// read error.
func TestATornReplayIsNotEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(), alive
		w.spin("c-6")
		w.get = sseAnswer("id: 9\ndata: cut")
		resp, err := w.reconnect("c-6")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err == nil || len(text) != 0 {
			t.Errorf("replay = %q, %v, want an error", text, err)
		}
		resp.Body.Close()
		if n := w.count("POST ping"); n != 2 {
			t.Errorf("%d probes, want 2", n)
		}
	})
}

func TestADeadSessionThatSpinsIsFoundWithinThirtySeconds(t *testing.T) {
	for _, lived := range []time.Duration{2 * time.Second, 5 * time.Second, 33 * time.Second, 10 * time.Minute, 10*time.Minute + 17*time.Second} {
		t.Run(lived.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = sseAnswer(": nothing\n\n"), alive
				for began := time.Now(); time.Since(began) < lived; time.Sleep(time.Second) {
					w.spin("c-8")
				}
				w.post = gone
				died := time.Now()
				for {
					resp, _ := w.spin("c-8")
					if resp.StatusCode == 404 {
						deadErr(t, middleware.ErrorFrom(resp))
						break
					}
					if time.Since(died) > 5*time.Minute {
						t.Fatal("not found dead within 5 minutes")
					}
					time.Sleep(time.Second)
				}
				if took := time.Since(died); took > 30*time.Second {
					t.Errorf("found dead after %v, want within 30s", took)
				}
			})
		})
	}
}

// One Live verdict is good for a second, unless the session has spun.
func TestAnEmptyReplayIsProbedOnceTheVerdictIsOld(t *testing.T) {
	for _, test := range []struct {
		after  time.Duration
		probes int
	}{
		{0, 1}, {400 * time.Millisecond, 1}, {999 * time.Millisecond, 1},
		{time.Second, 2}, {1500 * time.Millisecond, 2}, {20 * time.Second, 2}, {time.Hour, 2},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.post, w.get = alive, sseAnswer(block(1))
				w.spin("c-9")
				time.Sleep(test.after)
				w.get = sseAnswer()
				w.spin("e1")
				if n := w.count("POST ping"); n != test.probes {
					t.Errorf("%d probes, want %d", n, test.probes)
				}
			})
		})
	}
}

// Without a Live verdict before it, an empty replay is probed as every other.
func TestTheFirstEmptyReplayIsProbed(t *testing.T) {
	for _, code := range []int{404, 410} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = sseAnswer(), status(code, "", "")
				resp, err := w.reconnect("c-10")
				e := problem(t, resp, err)
				if deadErr(t, e); e.QuarantinedEvents != 0 || e.Phase != middleware.PhaseProbe {
					t.Errorf("error is %#v, want phase probe and nothing quarantined", e)
				}
			})
		})
	}
}

// A replay that has not ended is not known to be empty: it is probed after a
// moment, although the session was Live just now.
func TestASilentReplayIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post, w.get = alive, sseAnswer()
		w.spin("c-11")
		w.get = openSSE()
		start := time.Now()
		resp, err := w.reconnect("c-11")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("RoundTrip took %v, want a moment", took)
		}
		if n := w.count("POST ping"); n != 2 {
			t.Errorf("%d probes, want 2", n)
		}
		resp.Body.Close()
	})
}

// An Ambiguous answer does not let empty replays through.
func TestAnUndecidedSessionDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{AmbiguousRounds: 100})
		defer w.close()
		w.post, w.get = status(400, "", ""), sseAnswer()
		for range 10 {
			if resp, _ := w.spin("c-12"); middleware.ErrorFrom(resp) == nil {
				t.Error("an empty replay was handed on without a verdict")
			}
			time.Sleep(time.Second)
		}
		if n := w.count("POST ping"); n != 10 {
			t.Errorf("%d probes, want 10", n)
		}
	})
}

// C51, C52: that a resume yields nothing is the client's problem, and visible.
func TestAnEmptyResumeIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post, w.get = alive, sseAnswer()
		for range 3 {
			w.spin("call-7")
			time.Sleep(100 * time.Millisecond)
		}
		released := w.all(middleware.Released)
		if len(released) != 3 {
			t.Fatalf("released was observed %d times, want 3", len(released))
		}
		for _, e := range released {
			if e.Events != 0 || e.Bytes != 0 || e.LastEventID != "call-7" || e.Verdict != middleware.Live || e.SessionID != sid {
				t.Errorf("released: %+v, want no event after the cursor call-7", e)
			}
		}
		if got, want := strings.Join(w.requests(), ", "), "GET call-7, POST ping, GET call-7, GET call-7"; got != want {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
		if n := w.transport.Stats().EmptyReplays; n != 3 {
			t.Errorf("Stats().EmptyReplays = %d, want 3", n)
		}
	})
}
