package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// A request counts as delivered once the client has read its event to the end.
func TestADeliveryThatWasNotReadIsTakenBack(t *testing.T) {
	for _, p := range places {
		inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
			if p.resumed || p.noIDs {
				a.takes(a.opens(sseAnswer(a.event(progress))))
			}
			news := data(progress)
			ask := a.event(elicitation)
			opened := !p.resumed && !p.noIDs
			for _, n := range []int{0, 1, len(news), len(news) + 1, len(news) + len(ask) - 1} {
				h := openSSE(news + ask)
				var resp *http.Response
				switch {
				case opened && p.ofCall:
					resp = a.opens(h)
				default:
					a.get = h
					resp = must(t, func() (*http.Response, error) { return a.reconnect(a.cursor) })
				}
				if got := readN(t, resp.Body, n); got != (news + ask)[:n] {
					t.Fatalf("%s: read %q of %q", p.name, got, news+ask)
				}
				resp.Body.Close()
				if got := a.pending(); got != 0 {
					t.Errorf("%s: Pending = %d with %d bytes read, want 0", p.name, got, n)
				}
			}
			a.get = openSSE(news + ask)
			resp := must(t, func() (*http.Response, error) { return a.reconnect(a.cursor) })
			readN(t, resp.Body, len(news+ask))
			resp.Body.Close()
			if n := a.pending(); n != 1 {
				t.Errorf("%s: Pending = %d when it was read to its end, want 1", p.name, n)
			}
			a.keepsBack("it was read")
		})
	}
}

// Of several requests those that were read stay delivered.
func TestOnlyWhatWasNotReadIsTakenBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		var events []string
		for _, id := range []string{"1", "2", "3", "4"} {
			events = append(events, a.event(request(id, "roots/list")))
		}
		f := newFeed()
		f.first = events[0]
		a.get = f.ServeHTTP
		resp := a.open()
		readN(t, resp.Body, len(events[0]))
		f.pieces <- events[1] + events[0] + events[2]
		readN(t, resp.Body, len(events[1])+len(blank(events[0]))+5)
		f.pieces <- events[3]
		synctest.Wait()
		resp.Body.Close()
		a.get = sseAnswer(events...)
		if got, want := read(t, a.resume(t, "e-0")), blank(events[0])+blank(events[1])+events[2]+events[3]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Of a batch every request is taken back.
func TestABatchThatWasNotReadIsTakenBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		batch := a.event("[" + request("1", "roots/list") + "," + progress + "," + request("2", "roots/list") + "]")
		resp := a.opens(openSSE(batch))
		readN(t, resp.Body, len(batch)-1)
		if n := a.pending(); n != 2 {
			t.Errorf("Pending = %d while it is read, want 2", n)
		}
		resp.Body.Close()
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
	})
}

// What came with the probe stands behind what was held, and is read after it.
func TestARequestBesideAProbeThatWasNotReadIsTakenBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(progress)
		a.probedWith(beside(elicitation))
		held := data(progress) + data(progress)
		a.get = openSSE(held)
		resp := a.resume(t, a.cursor)
		readN(t, resp.Body, len(held+data(elicitation))-1)
		resp.Body.Close()
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
	})
}

// Bytes are counted over a whole stream, in reads of whatever size.
func TestADeliveryIsCountedOverALongStream(t *testing.T) {
	for _, size := range []int{1, 7, 100, 4096, 20000} {
		inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
			f := newFeed()
			a.get = f.ServeHTTP
			resp := a.open()
			p := make([]byte, size)
			for i := range 20 {
				e := a.event(request(strings.Repeat("1", i+1), "roots/list"))
				go func() { f.pieces <- notification("", strings.Repeat("x", 5000)) + e }()
				var got strings.Builder
				for !strings.HasSuffix(got.String(), e) {
					n, err := resp.Body.Read(p)
					got.Write(p[:n])
					if err != nil {
						t.Fatalf("Read = %v after %d bytes", err, got.Len())
					}
				}
				if n := a.pending(); n != i+1 {
					t.Fatalf("Pending = %d, want %d", n, i+1)
				}
			}
			resp.Body.Close()
			if n := a.pending(); n != 20 {
				t.Errorf("size %d: Pending = %d after the close, want 20", size, n)
			}
		})
	}
}

// A replay that was never released has delivered nothing, nor one whose client
// has gone.
func TestAReplayThatIsNotReleasedDeliversNothing(t *testing.T) {
	inBubble(t, place{ofCall: true, resumed: true}, middleware.Config{ProbeBudget: time.Second, ProbeTimeout: time.Second}, func(t *testing.T, a *asker) {
		a.takes(a.opens(sseAnswer(a.event(progress))))
		ask := a.event(elicitation)
		a.get = openSSE(ask)
		live := a.post
		a.post = byMethod(map[string]http.HandlerFunc{"ping": status(500, "", ""), "": live})
		isAmbiguous(t, a.resume(t, a.cursor), a.cursor)
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
		a.post = live
		a.get = sseAnswer(ask)
		if got := read(t, a.resume(t, a.cursor)); got != ask {
			t.Errorf("%q, want %q", got, ask)
		}
	})
}

// An asserted delivery that nobody has read leaves the answer lost, as it was.
func TestAnAssertedDeliveryThatWasNotReadIsTakenBack(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(asserting("a"))
		a.loses()
		a.get = openSSE(a.event(asserting("b")))
		a.resume(t, a.cursor).Body.Close()
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
		if sent, got := a.replays(asserting("b")); got != sent {
			t.Errorf("asserted again: %q, want %q", got, sent)
		}
	})
}

// A body whose close overtakes the answer takes nothing back.
func TestAnAnsweredRequestIsNotTakenBack(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		ask := a.event(elicitation)
		resp := a.opens(openSSE(ask))
		a.stands(readN(t, resp.Body, len(ask)-1) + "\n")
		a.answers(202)
		resp.Body.Close()
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
	})
}

// Two streams bring one request at the same time: one of them delivers it.
func TestTwoStreamsAtOnceDeliverOnce(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		alone, call := newFeed(), newFeed()
		a.get = alone.ServeHTTP
		a.onTools(call.ServeHTTP)
		r1, r2 := follow(a.open(), 100), follow(a.posts(toolCall), 100)
		var all []string
		for i := range 50 {
			e := a.event(request(strings.Repeat("7", i+1), "roots/list"))
			all = append(all, e)
			sent := make(chan struct{})
			go func() { alone.pieces <- e; close(sent) }()
			call.pieces <- e
			<-sent
		}
		close(alone.pieces)
		close(call.pieces)
		<-r1.done
		<-r2.done
		for _, e := range all {
			if n := strings.Count(r1.text(), e) + strings.Count(r2.text(), e); n != 1 {
				t.Errorf("%q came %d times, want once", e, n)
			}
			if n := strings.Count(r1.text(), blank(e)) + strings.Count(r2.text(), blank(e)); n != 1 {
				t.Errorf("%q came %d times, want once", blank(e), n)
			}
		}
		if r1.ended() != io.EOF || r2.ended() != io.EOF {
			t.Errorf("ended with %v and %v", r1.ended(), r2.ended())
		}
		if n := a.pending(); n != 50 {
			t.Errorf("Pending = %d, want 50", n)
		}
		r1.body.Close()
		r2.body.Close()
	})
}

// What one stream has not delivered after all, another may.
func TestWhatOneStreamTakesBackAnotherDelivers(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = data(progress)
		a.get = f.ServeHTTP
		alone := a.open()
		readN(t, alone.Body, len(f.first))
		f.pieces <- data(progress) + data(elicitation)
		readN(t, alone.Body, 1) // the request is read ahead, and not read
		if n := a.pending(); n != 1 {
			t.Fatalf("Pending = %d, want 1", n)
		}
		if sent, got := a.brings(elicitation); got != blank(sent) {
			t.Errorf("%q while another stream has it, want it kept back", got)
		}
		alone.Body.Close()
		if sent, got := a.replays(elicitation); got != sent {
			t.Errorf("%q, want %q", got, sent)
		}
	})
}
