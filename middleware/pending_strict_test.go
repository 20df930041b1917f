package middleware_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

var strict = middleware.Config{Pending: middleware.PendingStrict}

// With PendingStrict a replay brings nothing that is new to the client.
func TestStrictRefusesWhatItHasNeverSeen(t *testing.T) {
	for _, p := range places {
		if !p.resumed && !p.noIDs {
			continue
		}
		inBubble(t, p, strict, func(t *testing.T, a *asker) {
			a.takes(a.opens(sseAnswer(a.event(progress))))
			sent, got := a.replays(asserting("a"))
			if !p.ofCall && got != blank(sent) {
				t.Errorf("%s: %q, want it kept back", p.name, got)
			}
			if p.ofCall {
				failsOnce(t, got, failedCall{"7", "unknown", "elicitation/create", "12"})
			}
			e := a.world.event(middleware.Stale)
			var unknown *middleware.UnknownPendingRequestError
			if !errors.As(e.Err, &unknown) || !errors.Is(e.Err, middleware.ErrUnknownPendingRequest) {
				t.Fatalf("%s: error is %v, want an *UnknownPendingRequestError", p.name, e.Err)
			}
			want := middleware.UnknownPendingRequestError{SessionID: sid, RequestID: "12", Method: "elicitation/create", OriginRequestID: p.origin()}
			if *unknown != want || e.OriginRequestID != p.origin() {
				t.Errorf("%s: error is %+v of call %q, want %+v", p.name, *unknown, e.OriginRequestID, want)
			}
			a.keepsBack("unknown")
			if n := a.transport.Stats().Stale; n != 1 {
				t.Errorf("%s: Stale = %d, want 1", p.name, n)
			}
		})
	}
}

// What comes first on a stream that is not resumed is no replay.
func TestStrictDeliversWhatIsNotReplayed(t *testing.T) {
	for _, p := range []place{places[0], onCall} {
		inBubble(t, p, strict, func(t *testing.T, a *asker) {
			if sent, got := a.brings(elicitation); got != sent {
				t.Errorf("%s: %q, want %q", p.name, got, sent)
			}
		})
	}
}

// Every request that comes again must assert itself, answered or not.
func TestStrictWantsAnAssertionEachTime(t *testing.T) {
	for name, before := range map[string]func(*asker){
		"unanswered": func(*asker) {},
		"answered":   func(a *asker) { a.answers(202) },
		"lost":       (*asker).loses,
	} {
		for _, p := range []place{places[0], onCall} {
			t.Run(name+", "+p.name, func(t *testing.T) {
				inBubble(t, p, strict, func(t *testing.T, a *asker) {
					a.brings(asserting("a"))
					before(a)
					if name == "answered" && !p.ofCall {
						a.keepsBack("settled")
						return
					}
					for _, token := range []string{"b", "c", "b"} {
						if sent, got := a.replays(asserting(token)); got != sent {
							t.Errorf("asserted: %q, want %q", got, sent)
						}
					}
					sent, got := a.replays(asserting("b"))
					if !p.ofCall && got != blank(sent) {
						t.Errorf("%q, want it kept back", got)
					}
					if p.ofCall {
						failsOnce(t, got, stale7)
					}
					isStale(t, a.world.event(middleware.Stale).Err, p.origin())
					if n := a.pending(); n != 0 {
						t.Errorf("Pending = %d, want 0", n)
					}
					for _, token := range []string{"d", "e"} {
						if sent, got := a.replays(asserting(token)); got != blank(sent) {
							t.Errorf("stale: %q, want it kept back", got)
						}
					}
					if n := a.transport.Stats().Stale; n != 1 {
						t.Errorf("Stale = %d, want 1", n)
					}
				})
			})
		}
	}
}

// A request that is over needs no failure.
func TestStrictKeepsBackWhatIsOver(t *testing.T) {
	inBubble(t, onCall, strict, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.replays(withdrawal)
		a.keepsBack("cancelled")
		sent, got := a.replays(request("13", "roots/list"), callAnswer)
		events := strings.SplitAfter(sent, "\n\n")
		if want := blank(events[0]) + events[1]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if n := a.transport.Stats().Stale; n != 0 {
			t.Errorf("Stale = %d, want 0", n)
		}
	})
}

// With PendingOff nothing is read, nothing changed, and nothing remembered.
func TestOffIsByteForByte(t *testing.T) {
	for _, p := range places {
		inBubble(t, p, middleware.Config{Pending: middleware.PendingOff}, func(t *testing.T, a *asker) {
			if sent, got := a.brings(elicitation, withdrawal); got != sent {
				t.Errorf("%s: %q, want %q", p.name, got, sent)
			}
			for range 3 {
				if sent, got := a.replays(elicitation, "["+elicitation+"]", callAnswer, elicitation, withdrawal); got != sent {
					t.Errorf("%s: %q, want %q", p.name, got, sent)
				}
			}
			a.reply = refuses
			if err := a.answers(400); err != nil {
				t.Errorf("ErrorFrom = %v, want nil", err)
			}
			a.loses()
			if sent, got := a.replays(elicitation); got != sent {
				t.Errorf("%s: %q, want %q", p.name, got, sent)
			}
			if s := a.transport.Stats(); s.Stale != 0 || s.Suppressed != 0 || a.pending() != 0 {
				t.Errorf("%s: %+v with %d pending, want nothing", p.name, s, a.pending())
			}
		})
	}
}

// A replay may be slower than the probe: for a second after the reconnect was
// answered, what comes counts as replayed.
func TestStrictTakesWhatComesSoonAfterAReconnectForAReplay(t *testing.T) {
	for late, replayed := range map[time.Duration]bool{
		500 * time.Millisecond: true, time.Second - time.Nanosecond: true, time.Second: false, time.Minute: false,
	} {
		inBubble(t, place{ofCall: true, resumed: true}, strict, func(t *testing.T, a *asker) {
			a.takes(a.opens(sseAnswer(a.event(progress))))
			ask := a.event(elicitation)
			a.get = func(rw http.ResponseWriter, r *http.Request) {
				startSSE(rw)
				after(late, sendMore(ask))(rw, r)
			}
			got := a.takes(a.resume(t, a.cursor))
			if !replayed {
				if got != ask {
					t.Errorf("%v after the reconnect: %q, want %q", late, got, ask)
				}
				return
			}
			failsOnce(t, got, failedCall{"7", "unknown", "elicitation/create", "12"})
		})
	}
}
