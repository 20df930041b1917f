package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// The second seed's record, unscaled: an elicitation that asks a person to
// confirm a destructive call, an idle timeout of 60 seconds at the load
// balancer, a replay that begins with the event that the cursor names, and a
// server that waits no longer once the stream is broken.

const (
	destructive = "Really delete it?"
	asksForm    = "elicitation/create"
)

var confirmIt = map[string]any{"message": destructive}

// kind is who takes part: a client, a server, and what an answer gets for which
// that does not wait.
type kind struct {
	sdk, server string
	refuses     int
}

func (k kind) String() string { return fmt.Sprintf("%s with %s %d", k.sdk, k.server, k.refuses) }

// eachAsker runs f for every client against every server and every status that
// an answer gets for which nobody waits, once per arm.
func eachAsker(t *testing.T, quiet bool, p func() *person, f func(t *testing.T, b *bed, s asker, a *arm, c *sdkClient, p *person, k kind)) {
	for server, run := range askers {
		for _, sdk := range sdks {
			for _, refuses := range []int{202, 400} {
				k := kind{sdk, server, refuses}
				t.Run(k.String(), func(t *testing.T) {
					eachArm(t, func(t *testing.T, name string) {
						run(t, refuses, balancerFor(sdk, sixty), func(t *testing.T, b *bed, s asker) {
							a := b.arm(name, middleware.Config{})
							a.quiet = quiet
							p := p()
							f(t, b, s, a, a.connectAsked(sdk, p), p, k)
						})
					})
				})
			}
		}
	}
}

// ended is how a call has ended, if it has.
func ended(t *testing.T, done <-chan outcome) (outcome, string) {
	t.Helper()
	o, over := settled(t, done)
	if !over {
		return o, "never"
	}
	return o, o.String()
}

// checkAgain issues the call anew: the person is asked once more, and this time
// the server waits.
func checkAgain(t *testing.T, c *sdkClient, p *person) {
	t.Helper()
	before := p.prompted()
	text, err := c.call(t.Context(), "confirm", confirmIt)
	if !strings.HasPrefix(text, "confirm: accept") || err != nil {
		t.Errorf("the call issued anew = %q, %v, want the person's answer", text, err)
	}
	p.checkPrompts(t, before+1)
}

// The person takes 90 seconds for the first answer, and 5 for every other. In
// mcp-go's client nobody can: it takes every prompt away after 30 seconds, and
// answers nothing.
func TestPendingRecord(t *testing.T) {
	table := &rows{t: t}
	eachAsker(t, true, func() *person { return &person{thinks: awayAt(90 * time.Second)} },
		func(t *testing.T, b *bed, _ asker, a *arm, c *sdkClient, p *person, k kind) {
			done := a.start(c, "confirm", confirmIt)
			b.until(15 * minute)
			o, end := ended(t, done)
			reconnects := a.reconnects(c.session)
			table.add("%-25s protected %-5v prompts %2d, reconnects %2d, session alive %-5v, call: %s", k, a.guard != nil, p.prompted(), reconnects, c.alive(), end)
			if a.guard == nil {
				switch {
				case k.sdk == "mcp-go":
					// For ever.
					if o.err != nil || end != "never" || reconnects != 14 {
						t.Errorf("control: call %s, %d reconnects, want it under way after 14", end, reconnects)
					}
					p.checkPrompts(t, 1+reconnects)
				case k.refuses == 400:
					if c.alive() || o.err == nil || o.at != 90*time.Second {
						t.Errorf("control: call %s, session alive %v, want both ended by the 400 at 90s", end, c.alive())
					}
				default:
					// The first replay finds the prompt open. go-sdk ends its session
					// after five rounds on the same event.
					if c.alive() || o.err == nil || reconnects != 6 {
						t.Errorf("control: call %s, session alive %v, %d reconnects, want both ended after 6", end, c.alive(), reconnects)
					}
					p.checkPrompts(t, reconnects)
				}
				return
			}
			p.checkPrompts(t, 1)
			checkStale(t, k.sdk, o.err)
			a.checkStaleEvents(t, 1, asksForm, true)
			from, to, rounds := 61*time.Second, 62*time.Second, 1 // the first replay after the answer was lost
			switch {
			case k.sdk == "go-sdk" && k.refuses == 400:
				from, to = 90*time.Second, 90*time.Second
			case k.sdk == "go-sdk":
				// Taken at 90s, and replayed twice after that.
				from, to, rounds = 3*minute, 3*minute+10*time.Second, 3
			}
			if o.at < from || o.at > to || reconnects != rounds {
				t.Errorf("protected: call %s, %d reconnects, want it failed from %v to %v after %d", end, reconnects, from, to, rounds)
			}
			a.checkLivesOn(t, c)
			checkAgain(t, c, p)
			a.checkStaleEvents(t, 1, asksForm, true)
		})
	table.print()
}

// The same within the 30 seconds that mcp-go's client gives a person: the stream
// is cut once while the prompt is open, and from then on whenever it idles.
func TestPendingRecordOfAPersonWhoAnswersInTime(t *testing.T) {
	table := &rows{t: t}
	eachAsker(t, true, func() *person { return &person{thinks: awayAt(25 * time.Second)} },
		func(t *testing.T, b *bed, _ asker, a *arm, c *sdkClient, p *person, k kind) {
			done := a.start(c, "confirm", confirmIt)
			b.until(20 * time.Second)
			b.cut(balancerFor(k.sdk, sixty).OnExpiry)
			b.until(15 * minute)
			o, end := ended(t, done)
			reconnects := a.reconnects(c.session)
			table.add("%-25s protected %-5v prompts %2d, reconnects %2d, session alive %-5v, call: %s", k, a.guard != nil, p.prompted(), reconnects, c.alive(), end)
			if a.guard == nil {
				switch {
				case k.sdk == "mcp-go":
					// Every prompt is answered before the next one, and to no effect.
					if end != "never" {
						t.Errorf("control: call %s, want it under way", end)
					}
					p.checkPrompts(t, 1+reconnects)
				case k.refuses == 400:
					if c.alive() || o.at != 25*time.Second {
						t.Errorf("control: call %s, session alive %v, want both ended by the 400 at 25s", end, c.alive())
					}
				default:
					if c.alive() || o.err == nil {
						t.Errorf("control: call %s, session alive %v, want both ended", end, c.alive())
					}
					p.checkPrompts(t, reconnects)
				}
				return
			}
			p.checkPrompts(t, 1)
			checkStale(t, k.sdk, o.err)
			a.checkStaleEvents(t, 1, asksForm, true)
			from, to := 25*time.Second, 25*time.Second
			if k.refuses != 400 {
				from, to = 2*minute+20*time.Second, 2*minute+40*time.Second
			}
			if o.at < from || o.at > to {
				t.Errorf("protected: call %s, want it failed from %v to %v", end, from, to)
			}
			a.checkLivesOn(t, c)
			checkAgain(t, c, p)
			a.checkStaleEvents(t, 1, asksForm, true)
		})
	table.print()
}

// listenAgain is what the clients need of each server's log messages.
func listenAgain(t *testing.T, c *sdkClient) {
	t.Helper()
	c.caller.(interface{ listenToAll(t *testing.T) }).listenToAll(t)
}

// The same on the standalone stream. There no call is known that could fail:
// the hook and the counters tell. mcp-go comes back without a cursor; what it
// then gets is everything from go-sdk's server, and nothing from mcp-go's.
func TestPendingRecordOnTheStandaloneStream(t *testing.T) {
	table := &rows{t: t}
	eachAsker(t, false, func() *person { return &person{thinks: awayAt(90 * time.Second)} },
		func(t *testing.T, b *bed, s asker, a *arm, c *sdkClient, p *person, k kind) {
			listenAgain(t, c)
			b.until(time.Second)
			s.ask(t, c.session)
			b.until(5 * minute)
			reconnects := a.reconnects(c.session)
			end := ""
			if a.guard != nil {
				stats := a.guard.Stats()
				end = fmt.Sprintf(", suppressed %d, stale %d, cursors restored %d", stats.Suppressed, stats.Stale, stats.CursorsRestored)
			}
			table.add("%-25s protected %-5v prompts %2d, reconnects %2d, session alive %-5v%s", k, a.guard != nil, p.prompted(), reconnects, c.alive(), end)
			if a.guard == nil {
				switch {
				case k.sdk == "go-sdk" && k.refuses == 400:
					if c.alive() || c.caller.(*official).at != 91*time.Second {
						t.Errorf("control: session alive %v, %v, want it ended by the 400 at 91s", c.alive(), c.end())
					}
				case k.sdk == "go-sdk":
					p.checkPrompts(t, 4) // the first of four replays finds the prompt open
				case k.server == "go-sdk":
					p.checkPrompts(t, 5)
				default:
					p.checkPrompts(t, 1)
				}
				return
			}
			p.checkPrompts(t, 1)
			stale := 1 // refused, or lost with mcp-go's prompt
			if k.sdk == "go-sdk" && k.refuses != 400 {
				stale = 0 // taken: then it is over, for all that anybody can know
			}
			a.checkStaleEvents(t, stale, asksForm, false)
			if n := len(a.observed(middleware.DuplicateSuppressed)) + stale; n < reconnects {
				t.Errorf("the hook was told of %d replays, want one a reconnect, %d", n, reconnects)
			}
			a.checkLivesOn(t, c)
			s.emit(t, c.session, "after")
			if got := c.all(); len(got) != 1 || got[0] != "after" {
				t.Errorf("the client has %q, want what the standalone stream says", got)
			}
			s.ask(t, c.session)
			b.until(5*minute + 10*time.Second)
			p.checkPrompts(t, 2)
		})
	table.print()
}

// A server that replays the whole standalone stream to a GET without a cursor,
// answered questions included: go-sdk's does it, and go-sdk's client loses its
// cursor when a resumed stream ends before it has brought one. Here the
// middleware knows the cursor, and puts it back.
func TestPendingHistoryOfGoSDKsServer(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				synctest.Test(t, func(t *testing.T) {
					s := newOfficialAsker(202)
					b := askerBed(t, s.next, s.close, lb.Config{IdleTimeout: sixty})
					a := b.arm(name, middleware.Config{})
					p := &person{thinks: always(5 * time.Second)}
					c := a.connectAsked(sdk, p)
					b.until(time.Second)
					s.ask(t, c.session)
					b.until(5*minute + 30*time.Second)
					without := 0
					for _, w := range a.tap.of(c.session, 1) {
						if w.method == "GET" && w.cursor == "" {
							without++
						}
					}
					t.Logf("%s, %s: %d prompts, %d reconnects, %d of them without a cursor", sdk, name, p.prompted(), a.reconnects(c.session), without)
					if a.guard == nil {
						if without == 0 {
							t.Errorf("control: no reconnect without a cursor: this test is about those")
						}
						p.checkPrompts(t, 1+without)
						return
					}
					if without != 0 {
						t.Errorf("protected: %d reconnects without a cursor reached the wire, want 0", without)
					}
					p.checkPrompts(t, 1)
					a.checkStaleEvents(t, 0, "", false)
					a.checkLivesOn(t, c)
				})
			})
		})
	}
}

// The same from a server that does not look at cursors at all.
func TestPendingHistoryOfAServerThatIgnoresCursors(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				p := &person{thinks: always(5 * time.Second)}
				server := mcpserver.Config{Replay: mcpserver.ReplayFull, StaleAnswer: 202}
				asked(t, name, sdk, false, server, lb.Config{IdleTimeout: sixty}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					b.until(time.Second)
					chaosAsker{b}.ask(t, c.session)
					b.until(4*minute + 30*time.Second)
					t.Logf("%s, %s: %d prompts, %d reconnects", sdk, name, p.prompted(), a.reconnects(c.session))
					if asks := b.server.Oracle().History().Asks; len(asks) != 1 || asks[0].SentAgain != 4 || asks[0].Answered.IsZero() {
						t.Errorf("asked %+v, want one answered request that four replays had", asks)
					}
					if a.guard == nil {
						p.checkPrompts(t, 5)
						return
					}
					p.checkPrompts(t, 1)
					a.checkStaleEvents(t, 0, "", false)
					a.checkLivesOn(t, c)
				})
			})
		})
	}
}
