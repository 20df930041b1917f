package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// beside answers a probe with messages of the server's in front of its result.
func beside(messages ...string) http.HandlerFunc {
	var events strings.Builder
	for _, m := range messages {
		events.WriteString("id: p-1\ndata: " + m + "\n\n")
	}
	return rpcAnswer(asSSE, events.String()+pong)
}

// probedWith lets the probe be answered by h.
func (a *asker) probedWith(h http.HandlerFunc) {
	rest := a.post
	a.post = byMethod(map[string]http.HandlerFunc{
		"ping": after(time.Millisecond, h), "tools/call": rest, "": func(rw http.ResponseWriter, r *http.Request) { a.reply(rw, r) },
	})
}

func data(message string) string { return "data: " + message + "\n\n" }

// What comes with a probe's answer is of the session, and its requests are
// those of the streams.
func TestARequestBesideAProbesAnswer(t *testing.T) {
	other := request("13", "roots/list")
	for _, p := range places {
		t.Run("seen on the stream, "+p.name, func(t *testing.T) {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.probedWith(beside(elicitation, progress))
				if sent, got := a.replays(progress); got != sent+data(progress) {
					t.Errorf("%q, want %q and the news without an id", got, sent)
				}
				if n := a.transport.Stats().Suppressed; n != 1 {
					t.Errorf("Suppressed = %d, want 1", n)
				}
			})
		})
		t.Run("seen there first, "+p.name, func(t *testing.T) {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(progress)
				a.probedWith(beside(elicitation))
				if sent, got := a.replays(progress); got != sent+data(elicitation) {
					t.Errorf("%q, want %q and the request", got, sent)
				}
				a.probedWith(beside(elicitation, other))
				if sent, got := a.replays(elicitation); got != blank(sent)+data(other) {
					t.Errorf("%q, want the request kept back and %q", got, other)
				}
				if n := a.pending(); n != 2 {
					t.Errorf("Pending = %d, want 2", n)
				}
			})
		})
		t.Run("withdrawn there, "+p.name, func(t *testing.T) {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.probedWith(beside(withdrawal))
				if sent, got := a.replays(progress); got != sent+data(withdrawal) {
					t.Errorf("%q, want %q and the withdrawal", got, sent)
				}
				if n := a.pending(); n != 0 {
					t.Errorf("Pending = %d, want 0", n)
				}
			})
		})
		t.Run("lost, "+p.name, func(t *testing.T) {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.loses()
				a.probedWith(beside(elicitation))
				sent, got := a.replays(progress)
				rest, ok := strings.CutPrefix(got, sent)
				if !ok || !p.ofCall && rest != "" {
					t.Errorf("%q, want %q and no request", got, sent)
				}
				if p.ofCall {
					failsOnce(t, rest, stale7)
				}
			})
		})
	}
}

func TestARequestBesideTheProbeOfALease(t *testing.T) {
	inBubble(t, onCall, middleware.Config{LivenessLease: time.Minute}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = a.event(elicitation)
		r := follow(a.opens(f.ServeHTTP), 4096)
		synctest.Wait()
		want := f.first
		for i, tc := range []struct{ piece, beside, want string }{
			{data(progress), elicitation, data(progress)},
			{data(elicitation), request("13", "roots/list"), data(request("13", "roots/list"))},
			{data(progress), request("13", "roots/list"), data(progress)},
		} {
			time.Sleep(2 * time.Minute)
			rest := a.post
			a.post = byMethod(map[string]http.HandlerFunc{"ping": beside(tc.beside), "": rest})
			f.pieces <- tc.piece
			synctest.Wait()
			if want += tc.want; r.text() != want {
				t.Fatalf("after the lease %d: %q, want %q", i, r.text(), want)
			}
		}
		close(f.pieces)
		<-r.done
		r.body.Close()
	})
}

// comesBack is a reconnect whose GET stays without an answer while the session
// lives: the client is asked to come back, and gets what came with the probe.
func (a *asker) comesBack() *http.Response {
	a.t.Helper()
	a.get = silent
	return a.resume(a.t, a.cursor)
}

func TestARequestBesideTheProbeOfAComeBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(progress)
		a.probedWith(beside(elicitation))
		if got := read(t, a.comesBack()); !strings.HasPrefix(got, data(elicitation)+"id: e-1\n") {
			t.Errorf("%q, want the request and the cursor", got)
		}
		resp := a.comesBack()
		got := read(t, resp)
		if !strings.HasPrefix(got, "id: e-1\n") || int64(len(got)) != resp.ContentLength {
			t.Errorf("%q of %d bytes, want the cursor alone", got, resp.ContentLength)
		}
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
		if n := a.kinds(middleware.DuplicateSuppressed); n != 1 {
			t.Errorf("the hook was told of %d kept back, want 1", n)
		}
		a.keepsBack("delivered with the come-back")
	})
}

// A come-back that the client has closed unread has delivered nothing.
func TestARequestOfAComeBackThatWasNotReadIsTakenBack(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(progress)
		a.probedWith(beside(elicitation))
		a.comesBack().Body.Close()
		a.probedWith(alive)
		if sent, got := a.replays(elicitation); got != sent {
			t.Errorf("%q, want the request, which nobody has read: %q", got, sent)
		}
	})
}
