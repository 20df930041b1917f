package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

const (
	pong     = `data: {"jsonrpc":"2.0","id":$id,"result":{}}` + "\n\n"
	asksBack = `data: {"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Invalid session ID"}}` + "\n\n"
)

// inPieces answers with an event stream that is cut at one place, with $id as
// in rpcAnswer. The first piece has been read before the second comes.
func inPieces(text string, at int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		sseAnswer(text[:at])(rw, r)
		after(time.Millisecond, func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, strings.ReplaceAll(text[at:], "$id", rpcID(string(request))))
		})(rw, r)
	}
}

// A comment in front of a message is no part of it, in however many pieces it
// comes, and takes nothing of it along.
func TestACommentInFrontOfAnotherMessageOfTheProbe(t *testing.T) {
	queued := notification("", "queued")
	for _, tc := range []struct{ before, event, want string }{
		{": keepalive\n\n", queued, queued},
		{": keepalive\n", queued, queued},
		{":\n\n:\n\n", queued, queued},
		{": one\n: two\n\n", "id: p-2\n" + queued, queued},
		{": hm\r\n\r\n", queued, queued},
		{": hm\r\r", queued, queued},
		{"\uFEFF: hm\n", queued, queued},
		{"\n\n: hm\n", "event: message\n: why\n" + queued, "event: message\n: why\n" + queued},
		{"id: p-1\ndata: \n\n: hm\n", queued, queued},
		{notification("p-1", "first") + ": hm\n\n", queued, notification("", "first") + queued},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, middleware.Config{})
			defer w.close()
			w.get = sseAnswer(replayed)
			text := tc.before + tc.event
			for at := range len(text) + 1 {
				w.post = inPieces(text+pong, at)
				body := read(t, w.resume(t, "7"))
				if extra, ok := strings.CutPrefix(body, replayed); !ok || extra != tc.want {
					t.Errorf("after %q, %q: body = %q, want the replay and %q", text[:at], text[at:], body, tc.want)
				}
			}
		})
	}
}

// lateContext is a client's context that is slow to say how one learns of its
// end, once it is told to be: who is about to wait for a verdict, or for that
// end, does not get to wait until goOn is closed.
type lateContext struct {
	context.Context
	late atomic.Bool
	goOn chan struct{}
}

func (c *lateContext) Done() <-chan struct{} {
	if c.late.Load() {
		<-c.goOn
	}
	return c.Context.Done()
}

// waiters are clients whose reconnects hear of their verdicts only when the
// test lets them.
type waiters map[string]*lateContext // by cursor

func newWaiters(t *testing.T, cursors ...string) waiters {
	ws := make(waiters)
	for _, c := range cursors {
		ctx, cancel := context.WithCancel(t.Context()) // one of package context itself, from which others derive without asking
		t.Cleanup(cancel)
		ws[c] = &lateContext{Context: ctx, goOn: make(chan struct{})}
	}
	return ws
}

// observe tells a client to be late from when its replay is held.
func (ws waiters) observe(e middleware.Event) {
	if c := ws[e.LastEventID]; c != nil && e.Kind == middleware.Held {
		c.late.Store(true)
	}
}

func (ws waiters) letGo(cursor string) {
	ws[cursor].late.Store(false)
	close(ws[cursor].goOn)
}

// What comes with a later probe is for those who wait for that one: an earlier
// Live says nothing of it, even to a client that is slow to hear of that.
func TestOtherMessagesOfALaterProbeAreNotForAnEarlierRound(t *testing.T) {
	queued := notification("p-2", "queued")
	for name, tc := range map[string]struct {
		second http.HandlerFunc   // the answers to the later round's attempts
		want   middleware.Verdict // of that round
		late   bool               // its client is slow to hear of it, too
		takes  string             // the cursor of who gets the messages
	}{
		"undecided":    {rpcAnswer(asSSE, queued+asksBack), ambiguous, false, "c-1"},
		"not yet over": {inTurn(breaksOff(200, asSSE, queued), after(time.Second, alive)), live, false, "b-1"},
		"live":         {rpcAnswer(asSSE, queued+pong), live, true, "b-1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := newWaiters(t, "a-1", "b-1")
				w := newWorld(t, middleware.Config{Observe: func(e middleware.Event) {
					if e.LastEventID == "a-1" || tc.late {
						ws.observe(e)
					}
				}})
				defer w.close()
				w.get = byCursor(map[string]http.HandlerFunc{
					"a-1": sseAnswer(replayOf("a-1")), "b-1": sseAnswer(replayOf("b-1")), "c-1": sseAnswer(replayOf("c-1")),
				})
				w.post = after(time.Second, inTurn(alive, tc.second))
				bodies := make(map[string]string)
				start := time.Now()
				first := w.start(ws["a-1"], "a-1")
				time.Sleep(400 * time.Millisecond)
				second := w.start(ws["b-1"], "b-1")
				time.Sleep(time.Until(start.Add(2050 * time.Millisecond)))
				if n := w.kinds(middleware.ProbeAnswered); n != 2 || len(first) != 0 {
					t.Fatalf("%d probes are answered and %d clients have heard, want 2 and none", n, len(first))
				}
				ws.letGo("a-1")
				bodies["a-1"] = read(t, (<-first).must(t))
				if tc.late {
					ws.letGo("b-1")
				}
				if resp := (<-second).must(t); tc.want == ambiguous {
					isAmbiguous(t, resp, "b-1")
				} else {
					bodies["b-1"] = read(t, resp)
				}
				w.post = after(time.Millisecond, alive)
				bodies["c-1"] = read(t, w.resume(t, "c-1"))

				for cursor, got := range bodies {
					want := replayOf(cursor)
					if cursor == tc.takes {
						want += notification("", "queued")
					}
					if got != want {
						t.Errorf("body at %s = %q, want %q", cursor, got, want)
					}
				}
			})
		})
	}
}

// What came with a Live answer that nobody has waited for to the end is the
// stream's all the same: the next Live hands it on.
func TestOtherMessagesOfALiveProbeThatNobodyTookWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld(t, middleware.Config{Observe: func(e middleware.Event) {
			if e.Kind == middleware.ProbeAnswered { // the replay is caught up with, so that they come after it
				time.AfterFunc(time.Millisecond, cancel)
			}
		}})
		defer w.close()
		w.get = openSSE(replayOf("a-1"))
		w.post = after(time.Millisecond, inTurn(
			rpcAnswer(asSSE, notification("p-1", "first")+pong),
			rpcAnswer(asSSE, notification("p-2", "second")+pong),
		))
		if _, err := w.transport.RoundTrip(w.request(ctx, "GET", "a-1", "")); !errors.Is(err, context.Canceled) {
			t.Fatalf("RoundTrip = %v, want %v", err, context.Canceled)
		}
		if e := w.event(middleware.ProbeAnswered); e.Verdict != live {
			t.Fatalf("the probe was answered %v, want live", e.Verdict)
		}
		synctest.Wait()
		w.get = sseAnswer(replayOf("a-1"))
		want := replayOf("a-1") + notification("", "first") + notification("", "second")
		if got := read(t, w.resume(t, "a-1")); got != want {
			t.Errorf("body = %q, want %q", got, want)
		}
	})
}
func TestOtherMessagesOfALiveProbeWhoseClientLeftAtThatMomentWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := make(chan struct{})
		w := newWorld(t, middleware.Config{Observe: func(e middleware.Event) {
			if e.Kind == middleware.ProbeAnswered && ctx.Err() == nil {
				cancel()
				synctest.Wait() // the client has left; nothing has been made of the answer
				close(left)
			}
		}})
		defer w.close()
		w.get = openSSE(replayOf("a-1"))
		w.post = after(time.Millisecond, inTurn(
			rpcAnswer(asSSE, notification("p-1", "first")+pong),
			rpcAnswer(asSSE, notification("p-2", "second")+pong),
		))
		if _, err := w.transport.RoundTrip(w.request(ctx, "GET", "a-1", "")); !errors.Is(err, context.Canceled) {
			t.Fatalf("RoundTrip = %v, want %v", err, context.Canceled)
		}
		<-left
		synctest.Wait()
		w.get = sseAnswer(replayOf("a-1"))
		want := replayOf("a-1") + notification("", "first") + notification("", "second")
		if got := read(t, w.resume(t, "a-1")); got != want {
			t.Errorf("body = %q, want %q", got, want)
		}
	})
}
