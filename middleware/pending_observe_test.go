package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// Everything that is kept back can be seen, with whose it was.
func TestTheHookIsToldWhatWasKeptBack(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		at := a.cursor
		a.replays(progress, elicitation)
		e := a.world.event(middleware.DuplicateSuppressed)
		if e.Time.IsZero() || e.SessionID != sid || e.LastEventID != at || e.RequestID != "12" || e.RPCMethod != "elicitation/create" || e.OriginRequestID != "7" || e.Err != nil {
			t.Errorf("event = %+v", e)
		}
		a.loses()
		at = a.cursor
		a.replays(elicitation)
		e = a.world.event(middleware.Stale)
		if e.Time.IsZero() || e.SessionID != sid || e.LastEventID != at || e.RequestID != "12" || e.RPCMethod != "elicitation/create" || e.OriginRequestID != "7" {
			t.Errorf("event = %+v", e)
		}
		a.replays(callAnswer)
		all := a.world.all(middleware.DuplicateSuppressed)
		if e = all[len(all)-1]; len(all) != 2 || e.RequestID != "" || e.RPCMethod != "" || e.OriginRequestID != "7" {
			t.Errorf("%d events, the last %+v, want the answer of call 7", len(all), e)
		}
		if got := count(a.observed(), "stale"); got != 1 {
			t.Errorf("%d events of staleness, want 1", got)
		}
	})
}

// A request is its own call's, on whatever stream it comes again.
func TestTheHookIsToldTheCallOnAnotherStream(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.onTools(sseAnswer(a.event(elicitation)))
		read(t, a.posts(strings.Replace(toolCall, ":7,", ":8,", 1)))
		if e := a.world.event(middleware.DuplicateSuppressed); e.OriginRequestID != "7" {
			t.Errorf("OriginRequestID = %q, want 7", e.OriginRequestID)
		}
	})
}

// The hook may ask the Transport: no lock is held.
func TestTheHookMayAskTheTransport(t *testing.T) {
	var a *asker
	var asked int
	inBubble(t, onCall, middleware.Config{Observe: func(e middleware.Event) {
		if e.Kind == middleware.Stale || e.Kind == middleware.DuplicateSuppressed {
			a.transport.Sessions()
			a.transport.Stats()
			asked++
		}
	}}, func(t *testing.T, it *asker) {
		a = it
		a.brings(elicitation)
		a.keepsBack("unanswered")
		a.reply = refuses
		a.answers(202)
		a.replays(callAnswer)
		if asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
	})
}

// What is kept back was not released.
func TestReleasedCountsWhatTheClientGets(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		before := a.transport.Stats().ReleasedEvents
		_, got := a.replays(progress, elicitation, progress)
		released := a.world.all(middleware.Released)
		e := released[len(released)-1]
		if e.Events != 2 || e.Bytes != int64(len(got)) {
			t.Errorf("Released has %d events of %d bytes, want 2 of %d", e.Events, e.Bytes, len(got))
		}
		if n := a.transport.Stats().ReleasedEvents - before; n != 2 {
			t.Errorf("ReleasedEvents = %d more, want 2", n)
		}
		a.loses()
		_, got = a.replays(elicitation, progress)
		released = a.world.all(middleware.Released)
		if e = released[len(released)-1]; e.Events != 2 || e.Bytes != int64(len(got)) {
			t.Errorf("Released has %d events of %d bytes, want 2, the failure being one, of %d", e.Events, e.Bytes, len(got))
		}
	})
}

func TestReleasedAfterALeaseCountsWhatTheClientGets(t *testing.T) {
	inBubble(t, onCall, middleware.Config{LivenessLease: time.Minute}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = a.event(elicitation)
		r := follow(a.opens(f.ServeHTTP), 4096)
		elapse(time.Second)
		before := a.transport.Stats().ReleasedEvents
		elapse(2 * time.Minute)
		f.pieces <- a.event(progress) + a.event(elicitation)
		close(f.pieces)
		<-r.done
		r.body.Close()
		if n := a.transport.Stats().ReleasedEvents - before; n != 1 {
			t.Errorf("ReleasedEvents = %d more, want 1", n)
		}
	})
}

// The cursor goes on over what is kept back: the next replay begins behind it.
func TestTheCursorGoesOnOverWhatIsKeptBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(progress, elicitation)
		a.replays(elicitation)
		if a.cursor != "e-3" || a.transport.Sessions()[0].Cursor != "e-3" {
			t.Errorf("the client stands at %s, the middleware at %s, want e-3", a.cursor, a.transport.Sessions()[0].Cursor)
		}
		// A client that loses it gets it back.
		a.get = sseAnswer(a.event(progress))
		read(t, a.resume(t, ""))
		if got := a.last().cursor; got != "e-3" && a.count("GET e-3") != 1 {
			t.Errorf("the GET carried %q, want e-3", got)
		}
		if e := a.world.event(middleware.CursorRestored); e.LastEventID != "e-3" {
			t.Errorf("restored %q, want e-3", e.LastEventID)
		}
	})
}

// A client that stops in the middle of what stands in for an event has not had
// its cursor.
func TestTheCursorOfWhatWasNotRead(t *testing.T) {
	const again = "id: e-2\ndata: " + elicitation + "\n\n"
	const news = "id: e-3\ndata: " + progress + "\n\n"
	n := len(blank(again))
	for read, want := range map[int]string{0: "e-1", n - 1: "e-1", n: "e-2", n + 3: "e-2", n + len(news): "e-3"} {
		inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.get = openSSE(again + news)
			resp := a.resume(t, "e-1")
			readN(t, resp.Body, read)
			resp.Body.Close()
			if got := a.transport.Sessions()[0].Cursor; got != want {
				t.Errorf("after %d bytes the cursor is %q, want %q", read, got, want)
			}
		})
	}
}

// Events that nobody looks at leave their cursors, too.
func TestTheCursorInFrontOfARequestThatWasNotRead(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		a.get = f.ServeHTTP
		resp := a.open()
		for _, news := range []string{notification("n-1", "one"), notification("n-2", "two")} {
			go func() { f.pieces <- news }()
			readN(t, resp.Body, len(news))
		}
		ask := a.event(elicitation)
		go func() { f.pieces <- ask }()
		readN(t, resp.Body, len(ask)-1) // at once: it is looked at in the client's own buffer
		resp.Body.Close()
		if got := a.transport.Sessions()[0].Cursor; got != "n-2" {
			t.Errorf("the cursor is %q, want n-2", got)
		}
	})
}

// A body that changes has no length to be known in advance.
func TestAChangedBodyHasNoLength(t *testing.T) {
	withLength := func(text string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(rw, text)
		}
	}
	check := func(t *testing.T, resp *http.Response) string {
		t.Helper()
		length, header := resp.ContentLength, resp.Header.Get("Content-Length")
		got := read(t, resp)
		if length >= 0 && length != int64(len(got)) || header != "" && header != fmt.Sprint(len(got)) {
			t.Errorf("%d bytes with the length %d and the header %q", len(got), length, header)
		}
		return got
	}
	t.Run("kept back", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.get = withLength(a.event(elicitation))
			check(t, a.resume(t, a.cursor))
		})
	})
	t.Run("a failure behind", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = refuses
			a.answers(202)
			a.get = withLength(a.event(progress))
			failsOnce(t, check(t, a.resume(t, a.cursor)), stale7)
		})
	})
	t.Run("on a stream that is not resumed", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.onTools(withLength(a.event(elicitation)))
			check(t, a.posts(strings.Replace(toolCall, ":7,", ":8,", 1)))
		})
	})
}

// Where nothing is kept back, every byte is the server's.
func TestBytesAreEqualWhereNothingIsKeptBack(t *testing.T) {
	texts := []string{
		": c\r\n\r\nid:1\r\nevent: x\r\ndata:" + elicitation + "\r\n\r\n", "\uFEFF\n\ndata:  " + elicitation + " \n\n: end\n\n",
		"data: [" + request("1", "roots/list") + " ,\t" + request("2", "ping") + "]\n\nretry:1\n\nid\ndata\n\n",
		"data: " + callAnswer + "\n\ndata: " + withdrawal + "\n\ndata: hm\n\ndata: " + request("3", "roots/list") + "\r\r",
	}
	for _, p := range []place{places[0], onCall} {
		for i, text := range texts {
			for _, size := range []int{1, 100, 1 << 16} {
				inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
					r := follow(a.opens(sseAnswer(text)), size)
					<-r.done
					if r.text() != text || r.ended() != io.EOF {
						t.Errorf("%s, %d: %q and %v, want %q", p.name, i, r.text(), r.ended(), text)
					}
					r.body.Close()
				})
			}
		}
	}
}

// Ten thousand requests come and go, and leave nothing behind.
func TestManyRequestsLeaveNothingPending(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		r := follow(a.opens(f.ServeHTTP), 1<<16)
		for i := range 1000 {
			var batch strings.Builder
			for j := range 10 {
				id := fmt.Sprint(100 + 10*i + j)
				batch.WriteString(data(request(id, "roots/list")))
				batch.WriteString(data(strings.Replace(withdrawal, "12", id, 1)))
			}
			f.pieces <- batch.String()
		}
		close(f.pieces)
		<-r.done
		r.body.Close()
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
		a.untroubled()
	})
}
