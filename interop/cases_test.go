package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mark "github.com/mark3labs/mcp-go/mcp"
	markserver "github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/middleware"
)

// C05: a gateway that answers for a dead worker, and takes half a minute to.
// It is death for who waits that long, and no verdict for who does not; in
// neither case is anything released.
func TestAGatewayThatTakesHalfAMinute(t *testing.T) {
	for what, cfg := range map[string]middleware.Config{
		"waiting for it": {ProbeTimeout: 40 * time.Second, ProbeBudget: 40 * time.Second},
		"by default":     {},
	} {
		for _, sdk := range sdks {
			t.Run(what+" "+sdk, func(t *testing.T) {
				virtualStub(t, func(t *testing.T, b *bed, s *stub) {
					a := b.arm("protected", cfg)
					script(s)
					s.ping = func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
						if pause(r.Context(), 30*time.Second) {
							status(404, "application/json", `{"error":{"code":-32600,"message":"Session not found"}}`)(w, r)
						}
					}
					c := a.connect(sdk)
					b.until(33 * time.Second)
					waits := cfg.ProbeTimeout != 0
					if alive := c.alive(); alive == waits {
						t.Errorf("after the gateway's half minute the session is thought alive: %v, want %v", alive, !waits)
					}
					b.until(5 * time.Minute)
					c.checkOver(t)
					want := middleware.ErrLivenessUnknown
					if waits {
						want = middleware.ErrSessionDead
					}
					if e := a.sessionErr(c.session); !errors.Is(e, want) {
						t.Errorf("SessionErr(session) = %v, want %v", e, want)
					}
					if got := c.all(); !slices.Equal(got, justOne) {
						t.Errorf("the client has %q, want %q", got, justOne)
					}
				})
			})
		}
	}
}

// C43, C44: a deploy. The new pod has the event store and not the sessions:
// mcp-go's own server, with its own parts, is the zombie.
func TestADeployWithASharedEventStore(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				synctest.Test(t, func(t *testing.T) {
					store := markserver.NewInMemoryEventStore()
					type pod struct {
						server *markserver.MCPServer
						http   *markserver.StreamableHTTPServer
					}
					start := func() *pod {
						m := markserver.NewMCPServer("pod", "1", markserver.WithLogging())
						m.AddTool(mark.NewTool("echo"), func(context.Context, mark.CallToolRequest) (*mark.CallToolResult, error) {
							return mark.NewToolResultText("echo"), nil
						})
						return &pod{m, markserver.NewStreamableHTTPServer(m, markserver.WithStateful(true), markserver.WithEventStore(store),
							markserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))}
					}
					pods := []*pod{start(), start()}
					var current atomic.Pointer[pod]
					current.Store(pods[0])
					b := newHandlerBed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().http.ServeHTTP(w, r) }), func() {
						for _, p := range pods {
							_ = p.http.Shutdown(context.Background())
						}
					})
					a := b.arm(name, middleware.Config{})
					c := a.connect(sdk)
					synctest.Wait()
					say := func(text string) {
						pods[0].server.SendNotificationToAllClients("notifications/message", map[string]any{"level": "info", "data": text})
						synctest.Wait()
					}
					say("one")
					current.Store(pods[1])
					b.cut(lb.RST)
					say("of the old pod")
					b.until(3 * time.Second)
					if a.guard == nil {
						// go-sdk applies what the old pod left; mcp-go, which has no
						// cursor, opens a stream of a session that nobody knows.
						want := justOne
						if sdk == "go-sdk" {
							want = []string{"one", "of the old pod"}
						}
						if got := c.all(); !c.alive() || !slices.Equal(got, want) {
							t.Errorf("control: session alive %v, the client has %q, want it thought alive and %q", c.alive(), got, want)
						}
						return
					}
					c.checkOver(t)
					if got := c.all(); !slices.Equal(got, justOne) {
						t.Errorf("the client has %q, want %q", got, justOne)
					}
					e := a.sessionErr(c.session)
					if e.Phase != middleware.PhaseProbe || e.StatusCode != http.StatusNotFound || e.QuarantinedEvents != 1 {
						t.Errorf("SessionErr(session) = %+v, want a death in phase probe by status 404, one event quarantined", e)
					}
					again := a.connect(sdk)
					if text, err := again.call(t.Context(), "echo", nil); text != "echo" || err != nil {
						t.Errorf("call of the new pod = %q, %v, want echo", text, err)
					}
				})
			})
		})
	}
}

// C07: a pool that looks at its stream only keeps a dead session for ever. What
// it gets is the same typed error every time, and none of it reaches the wire.
func TestAPoolThatKeepsADeadSession(t *testing.T) {
	virtualStub(t, func(t *testing.T, b *bed, s *stub) {
		a := b.arm("protected", middleware.Config{})
		a.quiet = true
		c := a.connect("mcp-go")
		if text, err := c.call(t.Context(), "x", nil); text != "ok" || err != nil {
			t.Fatalf("call = %q, %v, want ok", text, err)
		}
		s.kill(c.session)
		for i := range 20 {
			resp, err := a.send(t.Context(), http.MethodPost, c.session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			var dead *middleware.SessionResumptionError
			if !errors.As(middleware.ErrorFrom(resp), &dead) || resp.StatusCode != http.StatusNotFound {
				t.Fatalf("call %d = status %d, want 404 with a *SessionResumptionError", i, resp.StatusCode)
			}
			// Nothing was in flight, and nothing of this call reached the server's
			// tool: it may be made again on a new session.
			if want := map[bool]middleware.Phase{true: middleware.PhaseRequest, false: middleware.PhaseFence}[i == 0]; dead.Phase != want || dead.OutcomeUnknown {
				t.Errorf("call %d: phase %s, outcome unknown %v, want %s and false", i, dead.Phase, dead.OutcomeUnknown, want)
			}
		}
		after := 0
		for _, w := range a.tap.of(c.session, 0) {
			if w.rpc == "tools/call" && w.status == http.StatusNotFound {
				after++
			}
		}
		if after != 1 {
			t.Errorf("%d calls of the dead session reached the wire, want 1", after)
		}
	})
}

// C77: go-sdk gives its session up after five reconnects without an event that
// has an id. On a session that lives the middleware makes that no better and
// no worse.
func TestStreamsWithoutProgressEndGoSDKAsWithoutUs(t *testing.T) {
	var saw []string
	for _, name := range arms {
		virtualStub(t, func(t *testing.T, b *bed, s *stub) {
			s.get = func(w http.ResponseWriter, r *http.Request, _ int) {
				open(w, "retry: 1000\nevent: ping\ndata:\n\n")
			}
			a := b.arm(name, middleware.Config{})
			c := a.connect("go-sdk")
			b.until(time.Minute)
			saw = append(saw, fmt.Sprintf("%d GETs, alive %v, %v", count(a.tap.of(c.session, 0), http.MethodGet, ""), c.alive(), c.end()))
		})
	}
	for i := range saw {
		saw[i] = strings.ReplaceAll(saw[i], "\n", " ")
	}
	if saw[0] != saw[1] || !strings.Contains(saw[0], "exceeded 5 retries") {
		t.Errorf("protected: %s\ncontrol: %s\nwant the same, and five retries", saw[1], saw[0])
	}
}

// C77: nor do held-back rounds look like progress: with more rounds than go-sdk
// has patience for, it is go-sdk that ends the session.
func TestUndecidedRoundsAreNoProgressForGoSDK(t *testing.T) {
	for rounds, want := range map[int]string{3: "session not found", 50: "exceeded 5 retries"} {
		t.Run(fmt.Sprint(rounds), func(t *testing.T) {
			virtualStub(t, func(t *testing.T, b *bed, s *stub) {
				a := b.arm("protected", middleware.Config{AmbiguousRounds: rounds})
				script(s)
				s.ping = undecidedProbes["400"]
				c := a.connect("go-sdk")
				b.until(time.Hour)
				if err := c.end(); c.alive() || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("with AmbiguousRounds %d the session ended with %v, want %q", rounds, err, want)
				}
				if got := c.all(); !slices.Equal(got, justOne) {
					t.Errorf("the client has %q, want %q", got, justOne)
				}
			})
		})
	}
}

// C65, C81: a stream that is closed cleanly, over and over, is a session that
// lives. mcp-go comes back every second, and is not followed by a probe each
// time.
func TestACleanlyClosedStreamIsNotProbedEverySecond(t *testing.T) {
	virtualStub(t, func(t *testing.T, b *bed, s *stub) {
		s.get = func(w http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				open(w, note("1", "one"))
				return
			}
			open(w, ": nothing\n\n")
		}
		a := b.arm("protected", middleware.Config{})
		c := a.connect("mcp-go")
		b.until(20 * time.Minute)
		wire := a.tap.of(c.session, 0)
		gets, pings := count(wire, http.MethodGet, ""), count(wire, http.MethodPost, "ping")
		t.Logf("%d GETs, %d probes in 20 minutes", gets, pings)
		if gets < 1000 || pings > 20*60/30+10 {
			t.Errorf("%d GETs, %d probes, want a GET a second and a probe every thirty", gets, pings)
		}
		if !c.alive() {
			t.Errorf("session ended: %v", c.end())
		}
		s.kill(c.session)
		b.until(21 * time.Minute)
		c.checkOver(t)
	})
}
