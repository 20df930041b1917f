package interop_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// The first seed's record, minute by minute and unscaled: a session TTL of 30
// minutes and a log retention of 60, a stream dropped at T+5 and resumed at
// T+6, the death at T+31 and the call at T+33. So the session begins at T+1,
// nothing prolongs it, and the load balancer's idle timeout is the 4 minutes
// from there to the drop.
var (
	recordServer = mcpserver.Config{
		SessionTTL: 30 * time.Minute, LogRetention: 60 * time.Minute,
		Refresh: mcpserver.RefreshNever, Retry: time.Minute,
	}
	recordBalancer = lb.Config{IdleTimeout: 4 * time.Minute, OnExpiry: lb.FIN}
)

const minute = time.Minute

// keepBusy emits every three minutes until T+30, so that the load balancer has
// no reason to cut.
func keepBusy(b *bed, session string) []string {
	var texts []string
	for at := b.now().Truncate(3*minute) + 3*minute; at <= 30*minute; at += 3 * minute {
		b.until(at)
		texts = append(texts, fmt.Sprintf("busy at %v", at))
		b.emit(session, texts[len(texts)-1])
	}
	return texts
}

// checkDeath checks when the session ended, by the oracle.
func checkDeath(t *testing.T, b *bed, session string, want time.Duration) {
	t.Helper()
	died, dead := b.server.Oracle().DiedAt(session)
	if !dead || died.Sub(b.began) != want {
		t.Errorf("DiedAt(session) = T+%v, %v, want T+%v", died.Sub(b.began), dead, want)
	}
}

// retryThrice is what the record's error handler did: three more calls on the
// same session. It returns how many of them reached the server.
func retryThrice(t *testing.T, b *bed, a *arm, session string) int {
	t.Helper()
	before := len(b.server.Oracle().History().Requests)
	for range 3 {
		req, err := http.NewRequest(http.MethodPost, b.url, strings.NewReader(`{"jsonrpc":"2.0","id":"retry","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(headerSession, session)
		req.Header.Set("Content-Type", "application/json")
		resp, err := a.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("retry on the dead session: status %d, want 404", resp.StatusCode)
		}
		var dead *middleware.SessionResumptionError
		if got := errors.As(middleware.ErrorFrom(resp), &dead); got != (a.guard != nil) {
			t.Errorf("ErrorFrom(retry) is a *SessionResumptionError: %v, want %v", got, a.guard != nil)
		}
	}
	return len(b.server.Oracle().History().Requests) - before
}

// checkProbe checks that the session was probed once, when and how it ended.
func checkProbe(t *testing.T, a *arm, at time.Duration, want middleware.Verdict) {
	t.Helper()
	answered := a.observed(middleware.ProbeAnswered)
	if len(answered) != 1 || answered[0].Verdict != want || answered[0].Time.Sub(a.tap.began) != at {
		t.Errorf("probes: %+v, want one at T+%v with the verdict %v", answered, at, want)
	}
}

// checkRequestDeath checks the typed reason of a death found by a call.
func checkRequestDeath(t *testing.T, a *arm, session string) {
	t.Helper()
	if e := a.sessionErr(session); e.Phase != middleware.PhaseRequest || e.Verdict != middleware.Dead || e.StatusCode != 404 || !errors.Is(e, middleware.ErrSessionDead) {
		t.Errorf("SessionErr(session) = %v, want a death in phase request by status 404", e)
	}
}

func TestRecordWithGoSDK(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			b.until(1 * minute)
			c := a.connectOfficial()
			session := c.ID()
			b.until(1 * minute)
			b.emit(session, "4471")

			b.until(5*minute - 1)
			if n := count(a.tap.of(session, 0), http.MethodGet, ""); n != 1 {
				t.Errorf("%d GETs before the drop, want 1", n)
			}
			b.until(5*minute + 30*time.Second)
			b.emit(session, "4472", "4473")
			b.until(6*minute - 1)
			if got := c.all(); !slices.Equal(got, []string{"4471"}) {
				t.Errorf("before the reconnect the client has %q, want 4471", got)
			}
			b.until(6 * minute)
			want := []string{"4471", "4472", "4473"}
			if got := c.all(); !slices.Equal(got, want) {
				t.Errorf("after the reconnect the client has %q, want %q", got, want)
			}
			resume := a.tap.of(session, 6*minute)
			if n := count(resume, http.MethodGet, ""); n != 1 || resume[0].cursor == "" || resume[0].status != 200 {
				t.Errorf("on the wire at T+6: %v, want one GET with a cursor, answered 200", resume)
			}
			want = append(want, keepBusy(b, session)...)

			// The death, of which nobody hears for two minutes.
			b.until(33 * minute)
			checkDeath(t, b, session, 31*minute)
			if !c.alive() {
				t.Errorf("session ended at T+%v (%v), want it thought alive until the call", c.at, c.err)
			}
			if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, gosdk.ErrSessionMissing) {
				t.Errorf("call at T+33 = %v, want ErrSessionMissing", err)
			}
			if b.now() != 33*minute {
				t.Errorf("the call failed at T+%v, want T+33m", b.now())
			}
			if got := c.all(); !slices.Equal(got, want) {
				t.Errorf("the client has %q, want %q", got, want)
			}
			onWire := retryThrice(t, b, a, session)
			if a.guard == nil {
				if onWire != 3 {
					t.Errorf("control: %d retries reached the server, want 3", onWire)
				}
				return
			}
			checkProbe(t, a, 6*minute, middleware.Live)
			checkRequestDeath(t, a, session)
			if onWire != 0 {
				t.Errorf("protected: %d retries reached the server, want 0", onWire)
			}
			again := a.connectOfficial()
			if text, err := again.call(t.Context(), "echo", map[string]any{"text": "again"}); text != "again" || err != nil {
				t.Errorf("call of the new session = %q, %v, want again", text, err)
			}
		})
	})
}

// The standalone stream of mcp-go comes back after a second and without a
// cursor: what the server said meanwhile is lost, unless the middleware puts
// the cursor back.
func TestRecordWithMcpGo(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			b.until(1 * minute)
			c := a.connectMarks(true)
			session := c.GetSessionId()
			b.until(1 * minute)
			b.emit(session, "4471")

			b.until(5*minute + 500*time.Millisecond)
			b.emit(session, "4472", "4473")
			const back = 5*minute + time.Second
			b.until(back)
			want := []string{"4471"}
			cursor := ""
			if a.guard != nil {
				want = append(want, "4472", "4473")
				cursor = "a cursor"
			}
			if got := c.all(); !slices.Equal(got, want) {
				t.Errorf("after the reconnect the client has %q, want %q", got, want)
			}
			resume := a.tap.of(session, back)
			if n := count(resume, http.MethodGet, ""); n != 1 || (resume[0].cursor == "") != (cursor == "") || resume[0].status != 200 {
				t.Errorf("on the wire at T+%v: %v, want one GET with cursor %q, answered 200", back, resume, cursor)
			}
			b.until(6 * minute)
			b.emit(session, "busy0")
			want = append(append(want, "busy0"), keepBusy(b, session)...)

			b.until(33 * minute)
			checkDeath(t, b, session, 31*minute)
			if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, transport.ErrSessionTerminated) {
				t.Errorf("call at T+33 = %v, want ErrSessionTerminated", err)
			}
			if b.now() != 33*minute {
				t.Errorf("the call failed at T+%v, want T+33m", b.now())
			}
			if got := c.all(); !slices.Equal(got, want) {
				t.Errorf("the client has %q, want %q", got, want)
			}
			onWire := retryThrice(t, b, a, session)
			if a.guard == nil {
				if onWire != 3 {
					t.Errorf("control: %d retries reached the server, want 3", onWire)
				}
				return
			}
			checkProbe(t, a, back, middleware.Live)
			if got := a.observed(middleware.CursorRestored); len(got) != 1 {
				t.Errorf("cursors restored: %+v, want one", got)
			}
			checkRequestDeath(t, a, session)
			if onWire != 0 {
				t.Errorf("protected: %d retries reached the server, want 0", onWire)
			}
			if err := c.initialize(t.Context()); err != nil {
				t.Errorf("Initialize() after the death = %v, want nil", err)
			}
			if text, err := c.call(t.Context(), "echo", map[string]any{"text": "again"}); text != "again" || err != nil {
				t.Errorf("call of the new session = %q, %v, want again", text, err)
			}
		})
	})
}

// mcp-go resumes the stream of a call if it ended cleanly.
func TestRecordWithMcpGoOnACallsStream(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			b.until(1 * minute)
			c := a.connectMarks(false)
			session := c.GetSessionId()
			done := a.start(c, "work", map[string]any{"events": 8, "interval_ms": (3 * minute).Milliseconds(), "detached": true})
			b.until(5 * minute)
			b.cut(lb.CleanEnd)
			b.until(6 * minute)
			resume := a.tap.of(session, 5*minute)
			if n := count(resume, http.MethodGet, ""); n != 1 || resume[0].at != 6*minute || resume[0].cursor == "" || resume[0].status != 200 {
				t.Errorf("on the wire from T+5 to T+6: %v, want one GET at T+6 with a cursor, answered 200", resume)
			}
			b.until(25 * minute)
			o, over := settled(t, done)
			if !over || o.err != nil || o.at != 25*minute {
				t.Errorf("call = %+v, over %v, want its answer at T+25m", o, over)
			}
			var want []string
			for _, i := range numbered("work ", 8) {
				want = append(want, i+" of 8")
			}
			if got := c.all(); !slices.Equal(got, want) {
				t.Errorf("the client has %q, want %q", got, want)
			}
			b.until(33 * minute)
			checkDeath(t, b, session, 31*minute)
			if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, transport.ErrSessionTerminated) {
				t.Errorf("call at T+33 = %v, want ErrSessionTerminated", err)
			}
			if a.guard != nil {
				checkProbe(t, a, 6*minute, middleware.Live)
				checkRequestDeath(t, a, session)
			}
		})
	})
}

// checkProbeDeath checks the typed reason of a death found at a reconnect, and
// that the dead session has cost the wire one GET and one probe.
func checkProbeDeath(t *testing.T, b *bed, a *arm, session string, quarantined int, back time.Duration) {
	t.Helper()
	e := a.sessionErr(session)
	if e.Phase != middleware.PhaseProbe || e.Verdict != middleware.Dead || e.StatusCode != 404 || e.QuarantinedEvents != quarantined || e.LastEventID == "" {
		t.Errorf("SessionErr(session) = %+v, want a death in phase probe by status 404, with a cursor and %d events quarantined", e, quarantined)
	}
	died, _ := b.server.Oracle().DiedAt(session)
	wire := a.tap.of(session, died.Sub(b.began))
	if len(wire) != 2 || count(wire, http.MethodGet, "") != 1 || count(wire, http.MethodPost, "ping") != 1 || wire[0].at != back || wire[1].at != back {
		t.Errorf("on the wire for the dead session: %v, want one GET and one ping at T+%v", wire, back)
	}
	checkProbe(t, a, back, middleware.Dead)
	if n := retryThrice(t, b, a, session); n != 0 {
		t.Errorf("%d retries reached the server, want 0", n)
	}
}

// The dangerous half: the session dies, its log does not, and the stream is
// resumed after the death.
func TestReplayOfTheDeadWithGoSDK(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			b.until(1 * minute)
			c := a.connectOfficial()
			session := c.ID()
			b.until(1 * minute)
			b.emit(session, "4471")
			keepBusy(b, session)
			b.until(30*minute + 30*time.Second)
			before := len(c.all())
			b.cut(lb.FIN)
			b.emit(session, numbered("dead", 10)...)
			const back = 31*minute + 30*time.Second
			b.until(back - 1)
			checkDeath(t, b, session, 31*minute)
			b.until(back + promptly)
			applied := len(c.all()) - before
			if a.guard == nil {
				if applied != 10 || !c.alive() {
					t.Errorf("control: %d events of the dead session applied, session thought alive: %v, want 10 and true", applied, c.alive())
				}
				return
			}
			if applied != 0 {
				t.Errorf("protected: %d events of the dead session applied, want 0", applied)
			}
			if c.alive() || !errors.Is(c.err, gosdk.ErrSessionMissing) || c.at < back {
				t.Errorf("Wait() = %v at T+%v, want ErrSessionMissing at T+%v", c.err, c.at, back)
			}
			checkProbeDeath(t, b, a, session, 10, back)
			if e := a.sessionErr(session); e.OutcomeUnknown {
				t.Errorf("SessionErr(session).OutcomeUnknown = true, want false: nothing was in flight")
			}
		})
	})
}

func TestReplayOfTheDeadWithMcpGo(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			b.until(1 * minute)
			c := a.connectMarks(true)
			session := c.GetSessionId()
			b.until(1 * minute)
			b.emit(session, "4471")
			keepBusy(b, session)
			b.until(30*minute + 59*time.Second + 500*time.Millisecond)
			before := len(c.all())
			b.cut(lb.FIN)
			b.emit(session, numbered("dead", 10)...)
			const back = 31*minute + 500*time.Millisecond
			b.until(back + promptly)
			checkDeath(t, b, session, 31*minute)
			if got := len(c.all()) - before; got != 0 {
				t.Errorf("%d events of the dead session applied, want 0", got)
			}
			if a.guard == nil {
				// Its failure is another one: a stream of a dead session opens and
				// stays open, and nobody is told.
				wire := a.tap.of(session, 31*minute)
				if len(wire) != 1 || wire[0].method != http.MethodGet || wire[0].cursor != "" || wire[0].status != 200 || c.GetSessionId() != session {
					t.Errorf("control: on the wire %v, session %q, want one GET without a cursor, answered 200, and the session kept", wire, c.GetSessionId())
				}
				return
			}
			if got := c.GetSessionId(); got != "" {
				t.Errorf("GetSessionId() = %q, want it given up at the reconnect", got)
			}
			if _, err := c.call(t.Context(), "echo", map[string]any{"text": "x"}); !errors.Is(err, transport.ErrSessionTerminated) {
				t.Errorf("call = %v, want ErrSessionTerminated", err)
			}
			checkProbeDeath(t, b, a, session, 10, back)
		})
	})
}

// A call's answer, too, must not come from a dead session's log.
func TestReplayOfTheDeadOnACallsStream(t *testing.T) {
	clients := map[string]func(a *arm) (caller, string, *inbox, error){
		"go-sdk": func(a *arm) (caller, string, *inbox, error) {
			c := a.connectOfficial()
			return c, c.ID(), &c.inbox, gosdk.ErrSessionMissing
		},
		"mcp-go": func(a *arm) (caller, string, *inbox, error) {
			c := a.connectMarks(false)
			return c, c.GetSessionId(), &c.inbox, transport.ErrSessionTerminated
		},
	}
	for sdk, connect := range clients {
		eachArm(t, func(t *testing.T, name string) {
			t.Run(sdk, func(t *testing.T) {
				virtual(t, recordServer, recordBalancer, func(t *testing.T, b *bed) {
					a := b.arm(name, middleware.Config{})
					b.until(1 * minute)
					c, session, in, gone := connect(a)
					if sdk == "go-sdk" {
						// An idle standalone stream ends its session by itself: go-sdk gives
						// up after 5 reconnects without an event.
						b.until(1 * minute)
						keepBusy(b, session)
					}
					b.until(30*minute + 30*time.Second)
					before := len(in.all())
					done := a.start(c, "work", map[string]any{"events": 11, "interval_ms": 2000, "detached": true})
					b.until(30*minute + 33*time.Second)
					b.cut(lb.CleanEnd)
					const back = 31*minute + 33*time.Second
					b.until(back + promptly)
					checkDeath(t, b, session, 31*minute)
					o, over := settled(t, done)
					if a.guard == nil {
						if !over || o.err != nil || o.at != back || len(in.all())-before != 11 {
							t.Errorf("control: call = %+v, over %v, %d events, want an answer and 11 events from the dead session at T+%v", o, over, len(in.all())-before, back)
						}
						return
					}
					if !over || !errors.Is(o.err, gone) || o.at < back || len(in.all())-before != 1 {
						t.Errorf("protected: call = %+v, over %v, %d events, want %v at T+%v and 1 event", o, over, len(in.all())-before, gone, back)
					}
					e := a.sessionErr(session)
					// go-sdk's two streams come back at one moment. Where the standalone one
					// has found the session dead first, the other's replay is not opened.
					early := sdk == "go-sdk" && e.QuarantinedEvents == 0
					if e.Phase != middleware.PhaseProbe || e.QuarantinedEvents != 11 && !early || !e.OutcomeUnknown {
						t.Errorf("SessionErr(session) = %+v, want phase probe, 11 events quarantined, outcome unknown", e)
					}
					// Two GETs at most, and one probe.
					dead := a.tap.of(session, 31*minute)
					if gets, pings := count(dead, http.MethodGet, ""), count(dead, http.MethodPost, ""); pings != 1 || gets > 2 {
						t.Errorf("on the wire for the dead session: %v, want one probe, and one GET a stream", dead)
					}
				})
			})
		})
	}
}
