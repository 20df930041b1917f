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

// A server that took the answer and asks again, with no progress, has lost it.
// The grace is counted to the instant.
func TestAnAnsweredRequestBecomesStaleAfterTheGrace(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grace time.Duration // 0: the default
		at    time.Duration // of the second replay, after the answer
		stale bool
	}{
		{"just before", 0, middleware.DefaultStaleGrace - time.Nanosecond, false},
		{"at the bound", 0, middleware.DefaultStaleGrace, true},
		{"a grace of one's own, before", time.Hour, time.Hour - time.Nanosecond, false},
		{"a grace of one's own", time.Hour, time.Hour, true},
	} {
		for _, p := range places {
			if !p.ofCall {
				continue
			}
			inBubble(t, p, middleware.Config{StaleGrace: tc.grace}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.answers(202)
				answered := time.Now()
				a.keepsBack("the first replay")
				// Its verdict comes a millisecond after it was asked for, and
				// what may still be behind it is waited for.
				start := time.Now()
				a.keepsBack("the second, in a hurry")
				took := time.Since(start)
				time.Sleep(time.Until(answered.Add(tc.at - took)))
				sent, got := a.replays(elicitation)
				if now := time.Since(answered); now != tc.at {
					t.Fatalf("released %v after the answer, want %v", now, tc.at)
				}
				if !tc.stale {
					if got != blank(sent) {
						t.Errorf("%s, %s: %q, want it kept back", p.name, tc.name, got)
					}
					return
				}
				failsOnce(t, got, stale7)
				isStale(t, a.world.event(middleware.Stale).Err, "7")
				a.keepsBack("stale")
			})
		}
	}
}

// One replay says nothing, however late it is.
func TestOneReplayIsNotStale(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.answers(202)
		time.Sleep(24 * time.Hour)
		a.keepsBack("the first replay")
		_, got := a.replays(elicitation)
		failsOnce(t, got, stale7)
	})
}

// A server that goes on with the call after the answer is not stale, if it
// takes hours.
func TestARequestOfACallThatMakesProgressIsNeverStale(t *testing.T) {
	for name, says := range map[string]string{
		"progress":      progress,
		"a log":         `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}`,
		"another asks":  "",
		"no JSON":       "hello",
		"another's end": strings.Replace(callAnswer, ":7,", ":8,", 1),
	} {
		for _, before := range []bool{true, false} {
			inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.answers(202)
				for i := range 10 {
					time.Sleep(time.Hour)
					news := says
					if news == "" {
						news = request(strings.Repeat("9", i+2), "roots/list")
					}
					messages := []string{elicitation, news}
					if before {
						messages = []string{news, elicitation}
					}
					if _, got := a.replays(messages...); len(failures(t, got)) > 0 {
						t.Fatalf("%s, before %v: the replay %d = %q, want no failure", name, before, i, got)
					}
				}
				if n := a.transport.Stats().Stale; n != 0 {
					t.Errorf("%s: Stale = %d, want 0", name, n)
				}
				for i := range 10 {
					if says == "" {
						a.answersTo(strings.Repeat("9", i+2))
					}
				}
				time.Sleep(time.Hour)
				a.replays(elicitation)
				a.replays(elicitation)
				if n := a.transport.Stats().Stale; n != 1 {
					t.Errorf("%s: Stale = %d when there is no progress any more, want 1", name, n)
				}
			})
		}
	}
}

// The end of another request is news of the call, too.
func TestTheWithdrawalOfAnotherRequestIsProgress(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation, request("13", "roots/list"))
		a.answers(202)
		for range 3 {
			time.Sleep(time.Hour)
			if _, got := a.replays(strings.Replace(withdrawal, "12", "13", 1), elicitation); len(failures(t, got)) > 0 {
				t.Errorf("%q, want no failure", got)
			}
		}
	})
}

// What is no progress: the same requests again, blocks without data, comments,
// and what the client has already.
func TestARepetitionIsNoProgress(t *testing.T) {
	for name, says := range map[string]func(a *asker) string{
		"a comment":         func(*asker) string { return ": keepalive\n\n" },
		"a cursor":          func(a *asker) string { return "id: c\ndata: \n\n" },
		"another known one": func(a *asker) string { return a.event(request("13", "roots/list")) },
		"the same twice":    func(a *asker) string { return "" },
	} {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation, request("13", "roots/list"))
			a.answers(202)
			a.answersTo("13")
			time.Sleep(time.Hour)
			for range 2 {
				a.get = sseAnswer(says(a) + a.event(elicitation))
				a.takes(a.resume(t, a.cursor))
			}
			if n := a.transport.Stats().Stale; n != 1 {
				t.Errorf("%s: Stale = %d, want 1", name, n)
			}
		})
	}
}

// A server that waits for the answer to a later question of the same call is
// silent for a reason, however long the person takes.
func TestAServerThatWaitsForAnotherAnswerIsNotStale(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.answers(202)
		second := request("13", "elicitation/create")
		a.replays(elicitation, second)
		for range 5 {
			time.Sleep(time.Hour)
			if _, got := a.replays(elicitation, second); strings.Contains(got, "jsonrpc") {
				t.Errorf("the replay = %q while the person thinks, want no message", got)
			}
		}
		a.answersTo("13")
		time.Sleep(middleware.DefaultStaleGrace - time.Second)
		a.replays(elicitation)
		a.replays(elicitation)
		if n := a.transport.Stats().Stale; n != 0 {
			t.Errorf("Stale = %d within the grace of the latest answer, want 0", n)
		}
		time.Sleep(time.Second)
		_, got := a.replays(elicitation)
		failsOnce(t, got, stale7)
	})
}

// A server that replays from before the cursor repeats old news.
func TestNewsFromBeforeTheCursorIsNoProgress(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		history, _ := a.brings(progress, elicitation, progress)
		a.answers(202)
		time.Sleep(time.Hour)
		var got string
		for range 2 {
			a.get = sseAnswer(history)
			got = a.takes(a.resume(t, a.cursor))
		}
		failsOnce(t, got, stale7)
	})
}

// One reconnect is one replay, how often the request may be in it: a server may
// keep all its attempts.
func TestARequestTwiceInOneReplayIsReplayedOnce(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.answers(202)
		time.Sleep(time.Hour)
		sent, got := a.replays(elicitation, elicitation)
		want := ""
		for event := range strings.SplitAfterSeq(sent, "\n\n") {
			want += blank(event)
		}
		if got != want {
			t.Errorf("one replay: %q, want %q", got, want)
		}
	})
}

// A request may be asked again while the stream is open, too.
func TestAStaleRequestOnAnOpenStreamEndsIt(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = a.event(elicitation)
		r := follow(a.opens(f.ServeHTTP), 4096)
		synctest.Wait()
		a.loses()
		again := a.event(elicitation)
		f.pieces <- again + a.event(progress)
		<-r.done
		got := strings.TrimPrefix(r.text(), f.first)
		failsOnce(t, got, stale7)
		if r.ended() != io.EOF || !strings.HasSuffix(got, "\n\n") {
			t.Errorf("read %q and %v, want whole events and a clean end", got, r.ended())
		}
		r.body.Close()
		synctest.Wait()
		if n := a.transport.Sessions()[0].InFlight; n != 0 {
			t.Errorf("InFlight = %d, want 0", n)
		}
	})
}

// A replay in which a call fails is over behind what is whole, and its upstream
// closed: nothing more belongs on the stream.
func TestAReplayThatFailsItsCallEndsCleanly(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.loses()
		ask, news := a.event(elicitation), a.event(progress)
		left := make(chan struct{})
		a.get = func(rw http.ResponseWriter, r *http.Request) {
			defer close(left)
			openSSE(ask+news+"id: torn\ndata: {")(rw, r)
		}
		got := a.takes(a.resume(t, a.cursor))
		failsOnce(t, got, stale7)
		if !strings.HasSuffix(got, "\n\n"+news) {
			t.Errorf("%q, want %q at its end", got, news)
		}
		<-left
	})
}

// Whatever else the failed call has asked is over: one failure is enough.
func TestACallFailsOnceForAllThatItAsks(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		other := request("13", "sampling/createMessage")
		a.brings(elicitation, other)
		a.loses()
		if n := a.pending(); n != 2 {
			t.Errorf("Pending = %d, want 2", n)
		}
		_, got := a.replays(elicitation, other, request("14", "roots/list"))
		failsOnce(t, got, stale7)
		if strings.Contains(got, "sampling") || strings.Contains(got, "roots/list") {
			t.Errorf("%q has another request of the failed call", got)
		}
		if sent, got := a.replays(callAnswer); got != blank(sent) {
			t.Errorf("the answer of a failed call = %q, want it kept back", got)
		}
		if n := a.pending(); n != 0 {
			t.Errorf("Pending = %d, want 0", n)
		}
	})
}

// A replay that has the call's answer behind the request needs no failure.
func TestTheCallsOwnAnswerComesBeforeItsFailure(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.loses()
		sent, got := a.replays(elicitation, progress, callAnswer)
		events := strings.SplitAfter(sent, "\n\n")
		if want := blank(events[0]) + events[1] + events[2]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A request that comes again on another stream fails the call that it belongs
// to, where that is waited for, and leaves the other stream alone.
func TestAStaleRequestOnAnotherStreamFailsItsOwnCall(t *testing.T) {
	const again = "id: s-2\ndata: " + elicitation + "\n\n"
	const news = "id: s-3\ndata: " + progress + "\n\n"
	answer8 := data(strings.Replace(callAnswer, ":7,", ":8,", 1))
	others := map[string]func(*asker) string{ // what another stream gets
		"standalone": func(a *asker) string {
			a.get = sseAnswer(again + news + answer8)
			return read(a.t, a.resume(a.t, "s-1"))
		},
		"another call's": func(a *asker) string {
			a.onTools(sseAnswer(again, news, answer8))
			return read(a.t, a.posts(strings.Replace(toolCall, ":7,", ":8,", 1)))
		},
		"beside a probe": func(a *asker) string {
			rest := a.post
			a.probedWith(beside(elicitation))
			a.get = sseAnswer(news)
			defer func() { a.post = rest }()
			return "id: s-2\ndata: \n\n" + read(a.t, a.resume(a.t, "s-1")) + answer8
		},
	}
	others["beside the probe of a come-back"] = func(a *asker) string {
		rest := a.post
		a.probedWith(beside(elicitation))
		a.get = silent
		defer func() { a.post = rest }()
		if got := read(a.t, a.resume(a.t, "s-1")); !strings.HasPrefix(got, "id: s-1\n") {
			a.t.Errorf("the come-back: %q, want the cursor alone", got)
		}
		synctest.Wait() // The GET that was given up has read its handler.
		return "id: s-2\ndata: \n\n" + news + answer8
	}
	for name, brings := range others {
		for _, open := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
					a.get = sseAnswer("id: s-1\ndata: " + progress + "\n\n")
					read(t, a.open())
					ask := a.event(elicitation)
					var r *reader
					if open {
						r = follow(a.opens(openSSE(ask)), 4096)
						synctest.Wait()
					} else {
						a.takes(a.opens(sseAnswer(ask)))
					}
					a.loses()
					if got, want := brings(a), blank(again)+news+answer8; got != want {
						t.Errorf("the other stream: %q, want %q", got, want)
					}
					isStale(t, a.world.event(middleware.Stale).Err, "7")
					if open {
						<-r.done
						failsOnce(t, strings.TrimPrefix(r.text(), ask), stale7)
						if r.ended() != io.EOF {
							t.Errorf("the call's stream ended with %v, want a clean end", r.ended())
						}
						r.body.Close()
						return
					}
					_, got := a.replays(elicitation, progress)
					failsOnce(t, got, stale7)
					if _, got := a.replays(progress); len(failures(t, got)) > 0 {
						t.Errorf("%q fails the call again", got)
					}
				})
			})
		}
	}
}

// Where a stream replays everything, the answer of the request's call may be
// behind it on that same stream.
func TestARequestOnAnotherStreamWithItsCallsAnswerIsOver(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.get = sseAnswer("id: s-1\ndata: " + progress + "\n\n")
		read(t, a.open())
		a.brings(elicitation)
		a.loses()
		answer := "id: s-3\ndata: " + callAnswer + "\n\n"
		a.get = sseAnswer("id: s-2\ndata: " + elicitation + "\n\n" + answer)
		if got, want := read(t, a.resume(t, "s-1")), "id: s-2\ndata: \n\n"+answer; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A call whose failure nobody has read has not failed yet.
func TestAFailureThatWasNotReadIsSaidAgain(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.loses()
		a.get = sseAnswer(a.event(elicitation))
		a.resume(t, a.cursor).Body.Close()
		_, got := a.replays(elicitation)
		failsOnce(t, got, stale7)
	})
}

// An event over the limit behind the failure of a call is behind the end of its
// stream.
func TestAStaleRequestInFrontOfAnEventOverTheLimit(t *testing.T) {
	large := "data: " + strings.Repeat("x", 2000)
	cfg := middleware.Config{MaxEventBytes: 1000}
	t.Run("replayed", func(t *testing.T) {
		inBubble(t, onCall, cfg, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.loses()
			a.get = sseAnswer(a.event(elicitation) + large)
			failsOnce(t, a.takes(a.resume(t, a.cursor)), stale7)
		})
	})
	t.Run("live", func(t *testing.T) {
		inBubble(t, onCall, cfg, func(t *testing.T, a *asker) {
			f := newFeed()
			f.first = a.event(elicitation)
			r := follow(a.opens(f.ServeHTTP), 1<<16)
			synctest.Wait()
			a.loses()
			f.pieces <- a.event(elicitation) + large
			<-r.done
			failsOnce(t, strings.TrimPrefix(r.text(), f.first), stale7)
			if r.ended() != io.EOF {
				t.Errorf("ended with %v, want a clean end", r.ended())
			}
			r.body.Close()
		})
	})
}
