package middleware_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// leased is a world with a session whose standalone stream is open under a
// lease; the server's answers are w.post's.
func leased(t *testing.T, lease time.Duration) (w *world, f *feed, stream *reader) {
	t.Helper()
	w = newWorld(t, middleware.Config{LivenessLease: lease})
	f = newFeed()
	w.get = f.ServeHTTP
	w.initialize()
	return w, f, follow(w.open(), 512)
}

func block(n int) string { return fmt.Sprintf("id: e%d\ndata: {\"n\":%d}\n\n", n, n) }

func TestWithinTheLeaseEventsPassWithoutAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 48*time.Second)
		defer w.close()
		w.post = alive
		want := ""
		for i := range 12 { // to 47.99 s
			f.pieces <- block(i)
			want += block(i)
			synctest.Wait()
			if got := stream.text(); got != want {
				t.Fatalf("after %d events: stream = %q, want %q", i+1, got, want)
			}
			time.Sleep(4*time.Second + 360*time.Millisecond)
		}
		if n := w.count("POST ping"); n != 0 {
			t.Errorf("%d probes, want none", n)
		}
		if got := w.observed(); len(got) != 0 {
			t.Errorf("observed %q, want nothing", got)
		}
		stream.body.Close()
	})
}

// answerable is a server whose probes wait for the test to answer them.
type answerable struct{ answers chan http.HandlerFunc }

func (a *answerable) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	select {
	case h := <-a.answers:
		h(rw, r)
	case <-r.Context().Done():
	}
}

func TestAfterTheLeaseALiveProbeReleasesAndRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 48*time.Second)
		defer w.close()
		probes := &answerable{make(chan http.HandlerFunc)}
		w.post = probes.ServeHTTP
		time.Sleep(48 * time.Second)
		f.pieces <- block(1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := stream.text(); got != "" || stream.ended() != nil {
			t.Fatalf("stream = %q, %v before the verdict, want nothing", got, stream.ended())
		}
		if got, want := strings.Join(w.requests(), ", "), "GET, POST ping"; got != want {
			t.Fatalf("on the wire: %q, want %q", got, want)
		}
		sent := w.last()
		if got := sent.session + " " + sent.header.Get("Mcp-Protocol-Version"); got != sid+" 2025-11-25" {
			t.Errorf("the probe carries %q, want the stream's session and version", got)
		}
		probes.answers <- alive
		synctest.Wait()
		if got, want := stream.text(), block(1); got != want {
			t.Fatalf("stream = %q, want %q", got, want)
		}
		if got, want := strings.Join(w.observed(), ", "), "held, probe sent, probe answered, released"; got != want {
			t.Errorf("observed %q, want %q", got, want)
		}
		if e := w.event(middleware.Released); e.Events != 1 || e.Duration != 2*time.Second || e.Verdict != middleware.Live {
			t.Errorf("released: %+v, want one event after 2s", e)
		}
		// The lease runs from when the probe was sent, 2 s ago.
		time.Sleep(45*time.Second + 999*time.Millisecond)
		f.pieces <- block(2)
		synctest.Wait()
		if n := w.count("POST ping"); n != 1 || stream.text() != block(1)+block(2) {
			t.Errorf("%d probes and %q, want 1 and the second event", n, stream.text())
		}
		time.Sleep(time.Millisecond)
		f.pieces <- block(3)
		synctest.Wait()
		if n := w.count("POST ping"); n != 2 || stream.text() != block(1)+block(2) {
			t.Errorf("%d probes and %q, want 2 and the third event held", n, stream.text())
		}
		probes.answers <- alive
		synctest.Wait()
		stream.body.Close()
	})
}

func TestAfterTheLeaseADeadProbeEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 48*time.Second)
		defer w.close()
		w.post = status(410, "text/html", "")
		f.pieces <- block(1)
		time.Sleep(50 * time.Second)
		f.pieces <- block(2) + block(3)
		<-stream.done
		if got, want := stream.text(), block(1); got != want {
			t.Errorf("stream = %q, want only what came within the lease, %q", got, want)
		}
		e := deadErr(t, stream.ended())
		if e.Phase != middleware.PhaseProbe || e.StatusCode != 410 || e.SessionID != sid {
			t.Errorf("Read = %#v, want phase probe and status 410", e)
		}
		deadErr(t, w.transport.SessionErr(sid))
		resp, err := w.call("tools/list")
		problem(t, resp, err)
		if got, want := strings.Join(w.requests(), ", "), "GET, POST ping"; got != want {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
		if q := w.all(middleware.Quarantined); len(q) != 1 || q[0].Events != 2 || q[0].Verdict != middleware.Dead {
			t.Errorf("quarantined: %+v, want one time two events", q)
		}
		if stats := w.transport.Stats(); stats.Quarantined != 2 || stats.Dead != 1 {
			t.Errorf("Stats() = %+v, want two quarantined and one dead", stats)
		}
		if n, err := stream.body.Read(make([]byte, 8)); n != 0 || !errors.Is(err, middleware.ErrSessionDead) {
			t.Errorf("Read = %d, %v, want the same error again", n, err)
		}
	})
}

func TestAfterTheLeaseAnAmbiguousProbeEndsTheStreamOnly(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"400":              status(400, "application/json", `{"error":"No valid session ID"}`),
		"always 503":       status(503, "", ""),
		"HTML":             status(200, "text/html", "<html>"),
		"accepted":         status(202, "", ""),
		"never":            silent,
		"an error instead": status(200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600}}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, f, stream := leased(t, 48*time.Second)
				defer w.close()
				w.post = answer
				time.Sleep(50 * time.Second)
				f.pieces <- block(2)
				start := time.Now()
				<-stream.done
				if took := stream.at.Sub(start); took > middleware.DefaultProbeBudget+time.Second {
					t.Errorf("Read ended after %v, want within %v", took, middleware.DefaultProbeBudget)
				}
				if err := stream.ended(); !errors.Is(err, middleware.ErrLivenessUnknown) || typed(t, err).Verdict != middleware.Ambiguous {
					t.Errorf("Read = %v, want %v", err, middleware.ErrLivenessUnknown)
				}
				if got := stream.text(); got != "" {
					t.Errorf("stream = %q, want nothing", got)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr = %v, want nil", err)
				}
				if n := w.kinds(middleware.SessionDead); n != 0 {
					t.Errorf("session dead was observed %d times, want never", n)
				}
				synctest.Wait()
				w.post = alive
				w.mustCall("tools/list", 200)
				// The client comes back, and gets what the server then replays.
				w.get = sseAnswer(block(2))
				resp, err := w.reconnect("e1")
				if err != nil {
					t.Fatal(err)
				}
				if got := read(t, resp); got != block(2) {
					t.Errorf("replay = %q, want %q", got, block(2))
				}
			})
		})
	}
}

var resultSSE http.HandlerFunc = func(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sseAnswer("id: p0\ndata:\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n",
		fmt.Sprintf("id: p1\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\r\ndata: \"result\":{\"x\":[]}}\r\n\r\n", rpcID(string(body))))(rw, r)
}

// A 202 proves nothing, and a 200 may have "session not found" inside. C15.
func TestWhatRenewsTheLease(t *testing.T) {
	const lease, late = 60 * time.Second, 10 * time.Second
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		renews bool
	}{
		{"a result as JSON", alive, true},
		{"a result as SSE", resultSSE, true},
		{"a batch", status(200, "application/json", `[{"jsonrpc":"2.0","id":41,"result":{}},{"jsonrpc":"2.0","id":42,"error":{"code":-32000}}]`), true},
		{"a batch of errors", status(200, "application/json", `[{"jsonrpc":"2.0","id":41,"error":{"code":-32600}}]`), false},
		{"202", status(202, "", ""), false},
		{"202 with a result", status(202, "application/json", `{"jsonrpc":"2.0","id":41,"result":{}}`), false},
		{"a request with a result", status(200, "application/json", `{"jsonrpc":"2.0","id":41,"method":"ping","result":{}}`), false},
		{"204", status(204, "", ""), false},
		{"400 with a result", status(400, "application/json", `{"jsonrpc":"2.0","id":41,"result":{}}`), false},
		{"an error as JSON", status(200, "application/json", `{"jsonrpc":"2.0","id":41,"error":{"code":-32600,"message":"result"}}`), false},
		{"an error as SSE", sseAnswer("data: {\"jsonrpc\":\"2.0\",\"id\":41,\"error\":{\"message\":\"no result\",\"data\":{\"result\":1}}}\n\n"), false},
		{"an id of null", status(200, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`), false},
		{"no id", status(200, "application/json", `{"jsonrpc":"2.0","result":{}}`), false},
		{"a server's request", sseAnswer("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\",\"params\":{\"result\":1}}\n\n"), false},
		{"HTML", status(200, "text/html", `{"jsonrpc":"2.0","id":41,"result":{}}`), false},
		{"broken JSON", status(200, "application/json", `{"jsonrpc":"2.0","id":41,"result":{}`), false},
		{"an empty answer", status(200, "application/json", ""), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, f, stream := leased(t, lease)
				defer w.close()
				time.Sleep(40 * time.Second)
				sent := time.Now()
				w.post = after(late, test.answer)
				resp, err := w.call("tools/call")
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				w.post = alive

				// Up to the end of a lease that began when the call was sent.
				time.Sleep(time.Until(sent.Add(lease - time.Millisecond)))
				f.pieces <- block(1)
				synctest.Wait()
				probes := w.count("POST ping")
				if probed := probes > 0; probed == test.renews {
					t.Errorf("an event at the end of the renewed lease was probed: %v, want %v", probed, !test.renews)
				}
				if test.renews {
					time.Sleep(time.Millisecond)
					f.pieces <- block(2)
					synctest.Wait()
					if n := w.count("POST ping"); n != 1 {
						t.Errorf("an event after the end cost %d probes, want 1: the call proves life when it was sent, not when it was answered", n)
					}
				}
				stream.body.Close()
			})
		})
	}
}

// A client that decodes the answer and closes it need not have seen its end.
func TestAnAnswerThatIsDecodedRenewsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, time.Minute)
		defer w.close()
		time.Sleep(50 * time.Second)
		w.post = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":41,"result":{}}`)
			_ = http.NewResponseController(rw).Flush() // its end comes in a chunk of its own
			time.Sleep(time.Second)
		}
		resp, err := w.call("tools/call")
		if err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer["result"] == nil {
			t.Fatalf("Decode = %v, %v, want a result", answer, err)
		}
		resp.Body.Close()
		time.Sleep(20 * time.Second)
		w.post = alive
		f.pieces <- block(1)
		synctest.Wait()
		if n := w.count("POST ping"); n != 0 || stream.text() != block(1) {
			t.Errorf("%d probes and %q, want none and the event", n, stream.text())
		}
		stream.body.Close()
	})
}

// A session at work costs no probe at all, on any of its streams.
func TestABusySessionIsNeverProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 30*time.Second)
		defer w.close()
		w.post = alive
		want := ""
		for i := range 514 { // 7 s each: an hour
			f.pieces <- block(i)
			want += block(i)
			synctest.Wait()
			time.Sleep(7 * time.Second)
			if i%3 == 0 {
				w.post = alive
				if i%2 == 0 {
					w.post = resultSSE
				}
				w.mustCall("tools/call", 200)
			}
		}
		if got := stream.text(); got != want {
			t.Errorf("stream has %d bytes, want %d", len(got), len(want))
		}
		if n := w.count("POST ping"); n != 0 || len(w.observed()) != 0 {
			t.Errorf("%d probes and observed %q, want none and nothing", n, w.observed())
		}
		stream.body.Close()
	})
}

// The answer to a call is a stream of the session like any other. Where it is
// not to be had, nobody knows what became of the call.
func TestAStreamOfACallIsUnderTheLease(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"live": alive, "dead": gone, "ambiguous": status(400, "", "")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, standalone := leased(t, 20*time.Second)
				defer w.close()
				f := newFeed()
				w.post = f.ServeHTTP
				resp, err := w.call("tools/long")
				if err != nil {
					t.Fatal(err)
				}
				call := follow(resp, 512)
				w.post = answer
				f.pieces <- block(1)
				time.Sleep(21 * time.Second)
				f.pieces <- block(2)
				synctest.Wait()
				if n := w.count("POST ping"); n != 1 {
					t.Errorf("%d probes, want 1", n)
				}
				want := block(1)
				if name == "live" {
					want += block(2)
				}
				if got := call.text(); got != want {
					t.Errorf("stream = %q, want %q", got, want)
				}
				if name != "live" {
					if e := typed(t, call.ended()); !e.OutcomeUnknown || errors.Is(e, middleware.ErrSessionDead) != (name == "dead") {
						t.Errorf("Read = %#v, want an unknown outcome", e)
					}
				}
				if name == "dead" {
					deadErr(t, standalone.ended())
				} else if err := standalone.ended(); err != nil {
					t.Errorf("the standalone stream ended with %v, want it to go on", err)
				}
				call.body.Close()
				standalone.body.Close()
			})
		})
	}
}

// Keepalives are no events: they pass at once, and nobody is asked.
func TestCommentsPassWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 15*time.Second)
		defer w.close()
		w.post = alive
		want := ""
		for i := range 20 {
			time.Sleep(40 * time.Second)
			comment := fmt.Sprintf(": keepalive %d\n\n", i)
			f.pieces <- comment
			want += comment
			synctest.Wait()
			if got := stream.text(); got != want {
				t.Fatalf("stream = %q, want %q", got, want)
			}
		}
		if n := w.count("POST ping"); n != 0 {
			t.Errorf("%d probes, want none", n)
		}
		f.pieces <- block(1)
		synctest.Wait()
		if n := w.count("POST ping"); n != 1 || stream.text() != want+block(1) {
			t.Errorf("%d probes and %q, want 1 and the event", n, stream.text())
		}
		stream.body.Close()
	})
}

// A stream that was resumed is under the lease from the moment of its release
// on: also for the first event that comes after it.
func TestAResumedStreamIsUnderTheLease(t *testing.T) {
	for _, events := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d events held", events), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{LivenessLease: 25 * time.Second})
				defer w.close()
				f := newFeed()
				for i := range events {
					f.first += block(i)
				}
				w.post, w.get = alive, f.ServeHTTP
				resp, err := w.reconnect("c-2")
				if err != nil {
					t.Fatal(err)
				}
				stream := follow(resp, 512)
				synctest.Wait()
				want := stream.text()
				if n := w.count("POST ping"); n != 1 || strings.Count(want, "\n\n") != events {
					t.Fatalf("%d probes and %q, want 1 and %d events", n, want, events)
				}
				time.Sleep(24 * time.Second)
				f.pieces <- ": still here\n\n"
				synctest.Wait()
				time.Sleep(2 * time.Second)
				w.post = gone
				f.pieces <- block(7)
				synctest.Wait()
				if n := w.count("POST ping"); n != 2 {
					t.Errorf("%d probes, want 2: the lease had run out", n)
				}
				if got := strings.TrimPrefix(stream.text(), want); got != ": still here\n\n" {
					t.Errorf("stream goes on with %q, want no event of the dead session", got)
				}
				stream.body.Close()
			})
		})
	}
}

func TestTheFirstEventAfterAReleaseIsUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{LivenessLease: 25 * time.Second})
		defer w.close()
		f := newFeed()
		w.post, w.get = alive, f.ServeHTTP
		resp, err := w.reconnect("c-2")
		if err != nil {
			t.Fatal(err)
		}
		stream := follow(resp, 512)
		time.Sleep(10 * time.Minute)
		w.post = gone
		f.pieces <- block(7)
		synctest.Wait()
		if n := w.count("POST ping"); n != 2 {
			t.Errorf("%d probes, want 2: the lease had run out 9 minutes ago", n)
		}
		if got := stream.text(); got != "" {
			t.Errorf("stream = %q, want no event of the dead session", got)
		}
		stream.body.Close()
	})
}

// A session that nobody has proven alive has no lease to begin with.
func TestWithoutAProofOfLifeTheFirstEventIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{LivenessLease: time.Hour})
		defer w.close()
		w.get, w.post = openSSE(block(1)), alive
		stream := follow(w.open(), 512)
		synctest.Wait()
		if got, want := strings.Join(w.requests(), ", "), "GET, POST ping"; got != want || stream.text() != block(1) {
			t.Errorf("on the wire: %q and %q read, want %q and the event", got, stream.text(), want)
		}
		stream.body.Close()
	})
}

// Other messages in the answer of the lease's probe come after what it
// released, and before what follows.
func TestMessagesInTheAnswerToTheLeasesProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, stream := leased(t, 15*time.Second)
		defer w.close()
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sseAnswer("id: q\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/queued\"}\n\n",
				fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", rpcID(string(body)+",")))(rw, r)
		}
		time.Sleep(20 * time.Second)
		f.pieces <- block(1) + block(2) + "id: e3\ndata: cut"
		synctest.Wait()
		f.pieces <- " here\n\n"
		synctest.Wait()
		want := block(1) + block(2) + "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/queued\"}\n\n" + "id: e3\ndata: cut here\n\n"
		if got := stream.text(); got != want {
			t.Errorf("stream = %q, want %q", got, want)
		}
		stream.body.Close()
	})
}
