package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// untroubled asserts that nothing was kept back and nothing failed.
func (a *asker) untroubled() {
	a.t.Helper()
	if s := a.transport.Stats(); s.Suppressed != 0 || s.Stale != 0 {
		a.t.Errorf("Suppressed = %d, Stale = %d, want none", s.Suppressed, s.Stale)
	}
}

// A ping must be answered as often as it comes, under whatever id.
func TestAPingPassesEachTime(t *testing.T) {
	for _, cfg := range []middleware.Config{{}, strict} {
		forEachPlace(t, cfg, func(t *testing.T, a *asker) {
			ping := request("12", "ping")
			if sent, got := a.brings(ping, ping); got != sent {
				t.Errorf("%q, want %q", got, sent)
			}
			for range 3 {
				if sent, got := a.replays(ping, ping); got != sent {
					t.Errorf("%q, want %q", got, sent)
				}
				a.answers(202)
			}
			if n := a.pending(); n != 0 {
				t.Errorf("Pending = %d, want 0", n)
			}
			a.untroubled()
		})
	}
}

// A request that was stored while nobody was connected is what replays are for.
func TestARequestThatAReplayBringsFirstIsAnsweredAsAnyOther(t *testing.T) {
	inBubble(t, place{ofCall: true, resumed: true}, middleware.Config{}, func(t *testing.T, a *asker) {
		if sent, got := a.brings(elicitation); got != sent {
			t.Fatalf("%q, want %q", got, sent)
		}
		a.answers(202)
		if sent, got := a.replays(progress, callAnswer); got != sent {
			t.Errorf("%q, want %q", got, sent)
		}
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
		a.untroubled()
	})
}

// A user who takes an hour, over cuts in which the server asks again each time.
func TestASlowPersonOverSeveralCuts(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		for range 3 {
			time.Sleep(20 * time.Minute)
			a.keepsBack("the user is still thinking")
		}
		a.answers(202)
		if sent, got := a.replays(callAnswer); got != sent {
			t.Errorf("%q, want the call's answer: %q", got, sent)
		}
		if n := a.transport.Stats().Stale; n != 0 || a.pending() != 0 {
			t.Errorf("Stale = %d, Pending = %d, want 0 and 0", n, a.pending())
		}
	})
}

// A tool that works for hours after its question was answered, and says so.
func TestALongToolWithProgressIsNotStale(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = a.event(elicitation)
		r := follow(a.opens(f.ServeHTTP), 512)
		synctest.Wait()
		a.answers(202)
		want := f.first
		for range 50 {
			time.Sleep(10 * time.Minute)
			e := a.event(progress)
			f.pieces <- e
			want += e
		}
		e := a.event(callAnswer)
		f.pieces <- e
		close(f.pieces)
		<-r.done
		if r.text() != want+e || r.ended() != io.EOF {
			t.Errorf("read %q and %v, want %q", r.text(), r.ended(), want+e)
		}
		r.body.Close()
		a.untroubled()
	})
}

// Several rounds of questions within one call.
func TestACallThatAsksSeveralTimes(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		r := follow(a.opens(f.ServeHTTP), 4096)
		var want strings.Builder
		for i, method := range []string{"sampling/createMessage", "roots/list", "elicitation/create"} {
			e := a.event(request(fmt.Sprint(20+i), method))
			f.pieces <- e
			want.WriteString(e)
			synctest.Wait()
			if n := a.pending(); n != i+1 {
				t.Errorf("Pending = %d, want %d", n, i+1)
			}
			read(t, a.posts(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, 20+i)))
		}
		e := a.event(callAnswer)
		f.pieces <- e
		close(f.pieces)
		<-r.done
		if r.text() != want.String()+e {
			t.Errorf("read %q, want %q", r.text(), want.String()+e)
		}
		r.body.Close()
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
		a.untroubled()
	})
}

// An elicitation by URL is completed by a notification, with its own id.
func TestAnElicitationByURLAndItsCompletion(t *testing.T) {
	const (
		byURL     = `{"jsonrpc":"2.0","id":12,"method":"elicitation/create","params":{"mode":"url","elicitationId":"u-1","url":"https://example.com","message":"Log in"}}`
		completed = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"u-1"}}`
	)
	forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
		if sent, got := a.brings(byURL); got != sent {
			t.Errorf("%q, want %q", got, sent)
		}
		a.answers(202)
		if sent, got := a.replays(byURL, completed); got != strings.Replace(sent, byURL+"\n\n", "\n\n", 1) && got != blank(sent)+sent[strings.Index(sent, "\n\n")+2:] {
			t.Errorf("%q, want the completion of %q", got, sent)
		}
		if sent, got := a.replays(completed); got != sent {
			t.Errorf("%q, want %q", got, sent)
		}
	})
}

// Two sessions have ids of their own.
func TestTwoSessionsWithEqualIds(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		ask := a.event(elicitation)
		a.get = sseAnswer(ask)
		of := func(session, cursor string) string {
			req := a.world.request(t.Context(), "GET", cursor, "")
			req.Header.Set("Mcp-Session-Id", session)
			return read(t, must(t, func() (*http.Response, error) { return a.transport.RoundTrip(req) }))
		}
		for _, session := range []string{"one", "two"} {
			if got := of(session, ""); got != ask {
				t.Errorf("session %s: %q, want %q", session, got, ask)
			}
		}
		for _, session := range []string{"one", "two"} {
			if got := of(session, "e-1"); got != blank(ask) {
				t.Errorf("session %s, replayed: %q, want it kept back", session, got)
			}
		}
		a.reply = refuses
		req := a.world.request(t.Context(), "POST", "", answer12)
		req.Header.Set("Mcp-Session-Id", "one")
		read(t, must(t, func() (*http.Response, error) { return a.transport.RoundTrip(req) }))
		for _, s := range a.transport.Sessions() {
			if want := map[string]int{"one": 0, "two": 1}[s.SessionID]; s.Pending != want {
				t.Errorf("session %s: Pending = %d, want %d", s.SessionID, s.Pending, want)
			}
		}
	})
}

// A session that begins anew under its old id has asked nothing yet.
func TestASessionThatBeginsAnewHasAskedNothing(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.initialize()
		a.get = sseAnswer(a.event(elicitation))
		if got := read(t, a.open()); !strings.Contains(got, elicitation) {
			t.Errorf("%q, want the request", got)
		}
	})
}

// What a client sends is read again only while it may answer something.
func TestAPostIsNotReadAgainWhenNothingIsPending(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*asker)
		again  bool
	}{
		"nothing was asked":         {func(*asker) {}, false},
		"unanswered":                {func(a *asker) { a.brings(elicitation) }, true},
		"answered":                  {func(a *asker) { a.brings(elicitation); a.answers(202); a.replays(callAnswer) }, false},
		"cancelled, never answered": {func(a *asker) { a.brings(elicitation, withdrawal) }, false},
		"its call is over":          {func(a *asker) { a.brings(elicitation, callAnswer) }, false},
	} {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			tc.before(a)
			a.onTools(alive)
			req := a.world.request(t.Context(), "POST", "", strings.Replace(toolCall, ":7,", ":8,", 1))
			again, get := 0, req.GetBody
			req.GetBody = func() (io.ReadCloser, error) { again++; return get() }
			read(t, must(t, func() (*http.Response, error) { return a.transport.RoundTrip(req) }))
			if (again > 0) != tc.again {
				t.Errorf("%s: the body was read again %d times, want any: %v", name, again, tc.again)
			}
		})
	}
}
