package middleware_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// forEachPlace runs a test wherever a server may ask.
func forEachPlace(t *testing.T, cfg middleware.Config, f func(*testing.T, *asker)) {
	t.Helper()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { inBubble(t, p, cfg, f) })
	}
}

func TestARequestIsDeliveredOnce(t *testing.T) {
	forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
		if sent, got := a.brings(progress, elicitation, progress); got != sent {
			t.Errorf("the first time: %q, want it unchanged: %q", got, sent)
		}
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
		for range 3 {
			a.keepsBack("unanswered")
			elapse(2 * middleware.DefaultStaleGrace) // no time is too long for a user
		}
		if s := a.transport.Stats(); s.Suppressed != 3 || s.Stale != 0 {
			t.Errorf("Suppressed = %d, Stale = %d, want 3 and 0", s.Suppressed, s.Stale)
		}
	})
}

// Every kind of request is followed, also one that nobody knows.
func TestEveryKindOfRequestIsDeliveredOnce(t *testing.T) {
	for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list", "made/up"} {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			for _, id := range []string{`12`, `"12"`, `-1`, `"` + strings.Repeat("long", 100) + `"`} {
				a.cursor = ""
				m := request(id, method)
				if sent, got := a.brings(m); got != sent {
					t.Errorf("%s %.20s, the first time: %q, want %q", method, id, got, sent)
				}
				if sent, got := a.replays(m); got != blank(sent) {
					t.Errorf("%s %.20s, replayed: %q, want it kept back", method, id, got)
				}
			}
			if n := a.pending(); n != 4 {
				t.Errorf("Pending = %d, want 4", n)
			}
		})
	}
}

// A replay that brings a request together with its end brings nothing that
// anybody waits for.
func TestARequestThatComesWithItsEndIsDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		messages []string
		dropped  []int // of them, on a call's stream
		alone    []int // and on the standalone stream
	}{
		"cancelled":           {[]string{elicitation, withdrawal}, []int{0}, []int{0}},
		"cancelled before":    {[]string{withdrawal, elicitation}, []int{1}, []int{1}},
		"far between":         {[]string{elicitation, progress, progress, withdrawal}, []int{0}, []int{0}},
		"the call's answer":   {[]string{elicitation, callAnswer}, []int{0}, nil},
		"answer before":       {[]string{callAnswer, elicitation}, []int{1}, nil},
		"another's answer":    {[]string{elicitation, strings.Replace(callAnswer, ":7,", ":8,", 1)}, nil, nil},
		"another's withdrawn": {[]string{elicitation, strings.Replace(withdrawal, "12", "13", 1)}, nil, nil},
	} {
		for _, p := range places {
			if !p.resumed {
				continue
			}
			t.Run(name+", "+p.name, func(t *testing.T) {
				inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
					dropped := tc.dropped
					if !p.ofCall {
						dropped = tc.alone
					}
					sent, got := a.brings(tc.messages...)
					want := sent
					for _, i := range dropped {
						event := strings.SplitAfter(sent, "\n\n")[i]
						want = strings.Replace(want, event, blank(event), 1)
					}
					if got != want {
						t.Errorf("%q = %q, want %q", sent, got, want)
					}
					if n := a.pending(); len(dropped) > 0 && n != 0 {
						t.Errorf("Pending = %d, want 0", n)
					}
					if len(dropped) > 0 {
						a.keepsBack("it was dropped before")
					}
				})
			})
		}
	}
}

// Where nothing has been replayed the client can tell by itself.
func TestARequestThatComesLiveWithItsEndIsDelivered(t *testing.T) {
	for _, p := range []place{places[0], onCall} {
		inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
			if sent, got := a.brings(elicitation, withdrawal, callAnswer); got != sent {
				t.Errorf("live: %q, want %q", got, sent)
			}
			if n := a.pending(); n != 0 {
				t.Errorf("Pending = %d, want 0", n)
			}
		})
	}
}

// What is behind a request may still be on its way when the verdict is there.
func TestARequestWhoseEndIsRightBehindIsDropped(t *testing.T) {
	for behind, dropped := range map[time.Duration]bool{2 * time.Millisecond: true, 200 * time.Millisecond: false} {
		inBubble(t, place{ofCall: true, resumed: true}, middleware.Config{}, func(t *testing.T, a *asker) {
			a.takes(a.opens(sseAnswer(a.event(progress))))
			ask, end := a.event(elicitation), a.event(withdrawal)
			a.get = func(rw http.ResponseWriter, r *http.Request) {
				sseAnswer(ask)(rw, r)
				elapse(time.Millisecond) // as long as the probe takes
				elapse(behind - time.Millisecond)
				_, _ = rw.Write([]byte(end))
			}
			want := ask + end
			if dropped {
				want = blank(ask) + end
			}
			if got := a.takes(a.resume(t, a.cursor)); got != want {
				t.Errorf("the end %v behind: %q, want %q", behind, got, want)
			}
		})
	}
}

// What is over is over, in whatever order it came to its end.
func TestASettledRequestIsKeptBack(t *testing.T) {
	for name, tc := range map[string]struct {
		on     string // "call" or "alone": only there
		settle func(*testing.T, *asker)
	}{
		"answered and its call finished":  {"call", func(t *testing.T, a *asker) { a.answers(202); a.replays(callAnswer) }},
		"answered on no call's stream":    {"alone", func(t *testing.T, a *asker) { a.answers(202) }},
		"its call finished before":        {"call", func(t *testing.T, a *asker) { a.replays(callAnswer); a.answers(202) }},
		"its call failed":                 {"call", func(t *testing.T, a *asker) { a.replays(`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":""}}`) }},
		"cancelled":                       {"", func(t *testing.T, a *asker) { a.replays(withdrawal) }},
		"answered and cancelled":          {"", func(t *testing.T, a *asker) { a.answers(202); a.replays(withdrawal) }},
		"cancelled and answered":          {"", func(t *testing.T, a *asker) { a.replays(withdrawal); a.answers(202) }},
		"lost and cancelled":              {"", func(t *testing.T, a *asker) { a.loses(); a.replays(withdrawal) }},
		"lost and its call finished":      {"call", func(t *testing.T, a *asker) { a.loses(); a.replays(callAnswer) }},
		"cancelled in its replay":         {"", func(t *testing.T, a *asker) { a.loses(); a.replays(elicitation, withdrawal) }},
		"its call finished in its replay": {"call", func(t *testing.T, a *asker) { a.loses(); a.replays(elicitation, callAnswer) }},
		"the client withdrew the call": {"call", func(t *testing.T, a *asker) {
			read(t, a.posts(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7.0}}`))
		}},
	} {
		for _, p := range places {
			if tc.on == "call" && !p.ofCall || tc.on == "alone" && p.ofCall {
				continue
			}
			t.Run(name+", "+p.name, func(t *testing.T) {
				inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
					a.brings(elicitation)
					tc.settle(t, a)
					if n := a.pending(); n != 0 {
						t.Errorf("Pending = %d, want 0", n)
					}
					for range 3 {
						a.keepsBack(name)
						elapse(2 * middleware.DefaultStaleGrace)
					}
					if n := a.transport.Stats().Stale; n != 0 {
						t.Errorf("Stale = %d, want 0", n)
					}
				})
			})
		}
	}
}

// A withdrawal of the client's that the server did not take changes nothing.
func TestAWithdrawalThatWasNotTakenSettlesNothing(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.reply = status(http.StatusServiceUnavailable, "", "")
		read(t, a.posts(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`))
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
	})
}

func TestALostAnswerMakesARequestStale(t *testing.T) {
	for name, lose := range map[string]func(*asker){
		"no answer": (*asker).loses,
		"503":       func(a *asker) { a.reply = status(503, "", ""); a.answers(503) },
		"429":       func(a *asker) { a.reply = status(429, "", ""); a.answers(429) },
		"408":       func(a *asker) { a.reply = status(408, "", ""); a.answers(408) },
	} {
		forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			lose(a)
			sent, got := a.replays(progress, elicitation, progress)
			events := strings.SplitAfter(sent, "\n\n")
			if !a.ofCall {
				if want := events[0] + blank(events[1]) + events[2]; got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			} else {
				failsOnce(t, got, stale7)
				id, _, _ := strings.Cut(events[1], "\n")
				if !strings.HasPrefix(got, events[0]+id+"\ndata: {") {
					t.Errorf("%s: %q, want the failure in place, at %s", name, got, id)
				}
			}
			isStale(t, a.world.event(middleware.Stale).Err, a.origin())
			if s := a.transport.Stats(); s.Stale != 1 || a.pending() != 0 {
				t.Errorf("Stale = %d, Pending = %d, want 1 and 0", s.Stale, a.pending())
			}
			for range 2 {
				a.keepsBack("stale")
			}
			if a.ofCall {
				if sent, got := a.replays(callAnswer); got != blank(sent) {
					t.Errorf("%s: the answer of a failed call = %q, want it kept back", name, got)
				}
			}
		})
	}
}

func TestALostAnswerAndAnAssertionDeliverOnceMore(t *testing.T) {
	forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(asserting("a"))
		if sent, got := a.replays(asserting("b")); got != blank(sent) {
			t.Errorf("unanswered: %q, want it kept back whatever it asserts", got)
		}
		a.loses()
		if sent, got := a.replays(asserting("c")); got != sent {
			t.Errorf("asserted: %q, want %q", got, sent)
		}
		if sent, got := a.replays(asserting("d")); got != blank(sent) {
			t.Errorf("asked again: %q, want it kept back", got)
		}
		a.loses()
		if sent, got := a.replays(asserting("e")); got != sent {
			t.Errorf("asserted again: %q, want %q", got, sent)
		}
		a.loses()
		sent, got := a.replays(asserting("e"))
		if !a.ofCall && got != blank(sent) {
			t.Errorf("the token is the one that was last delivered: %q, want it kept back", got)
		}
		if a.ofCall {
			failsOnce(t, got, stale7)
		}
		if n := a.transport.Stats().Stale; n != 1 {
			t.Errorf("Stale = %d, want 1", n)
		}
	})
}

// The hook for assertions is asked where it matters, and told all there is.
func TestTheLivenessAssertionOfAnApplication(t *testing.T) {
	var asked []middleware.ReplayedRequest
	verdict := true
	inBubble(t, onCall, middleware.Config{LivenessAssertion: func(r middleware.ReplayedRequest) bool {
		asked = append(asked, r)
		return verdict
	}}, func(t *testing.T, a *asker) {
		first, again := asserting("a"), asserting("b")
		a.brings(first)
		a.replays(again)
		if len(asked) != 0 {
			t.Errorf("asked about %+v, want nothing while its answer is not lost", asked)
		}
		a.loses()
		if sent, got := a.replays(again); got != sent || len(asked) != 1 {
			t.Fatalf("asserted: %q with %d questions, want %q with 1", got, len(asked), sent)
		}
		if r := asked[0]; r.SessionID != sid || r.RequestID != "12" || r.Method != "elicitation/create" ||
			string(r.FirstMeta) != `{"revenant/livenessToken":"a"}` || string(r.Meta) != `{"revenant/livenessToken":"b"}` || string(r.Message) != again {
			t.Errorf("asked about %+v", r)
		}
		a.loses()
		verdict = false
		_, got := a.replays(again)
		failsOnce(t, got, stale7)
	})
}
