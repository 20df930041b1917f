package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mark "github.com/mark3labs/mcp-go/mcp"
	markserver "github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// gateway is a stub that is told what it gets for an answer, and writes down
// which it got. As most gateways, it forgets an id at the first answer.
type gateway struct {
	*stub
	mu      sync.Mutex
	waits   map[string]bool // for these ids, as JSON
	answers []string
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		if m.Method == "" && m.ID != nil {
			g.mu.Lock()
			id := string(m.ID)
			g.answers = append(g.answers, id)
			known := g.waits[id]
			delete(g.waits, id)
			g.mu.Unlock()
			if !known {
				http.Error(w, "unknown id "+id, http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
	}
	g.stub.ServeHTTP(w, r)
}

func (g *gateway) answered() []string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.answers)
}

// farPing answers a ping after 50 milliseconds, so that what a replay brings at
// once is held by then: the rules of a replay are for what is held.
type farPing struct{ next http.RoundTripper }

func (f farPing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"method":"ping"`)) && !pause(req.Context(), 50*time.Millisecond) {
			return nil, req.Context().Err()
		}
	}
	return f.next.RoundTrip(req)
}

// question is an event with an elicitation; id is JSON.
func question(event, id string) string {
	return fmt.Sprintf("id: %s\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":\"Really delete it?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"confirm\":{\"type\":\"boolean\"}}}}}\n\n", event, id)
}

// eachGateway runs f against a gateway for both SDKs and both arms.
func eachGateway(t *testing.T, cfg middleware.Config, waits []string, f func(t *testing.T, b *bed, g *gateway, a *arm, sdk string)) {
	t.Helper()
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				synctest.Test(t, func(t *testing.T) {
					g := &gateway{stub: &stub{}, waits: map[string]bool{}}
					for _, id := range waits {
						g.waits[id] = true
					}
					b := newHandlerBed(t, g, nil)
					f(t, b, g, b.arm(name, cfg), sdk)
				})
			})
		})
	}
}

// mayEcho is a stub's tool echo.
func mayEcho(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
	result(w, id, `{"content":[{"type":"text","text":"on"}]}`)
}

// C66: an elicitation that is stored late comes with the first resumed stream
// and, after another blip, under the same event id with the second. What the
// first of them has torn does not count as given.
func TestAnElicitationUnderTheSameEventIDAfterASecondBlip(t *testing.T) {
	for what, answers := range map[string]struct {
		thinks  time.Duration
		torn    bool
		control map[string]int
	}{
		// The second answer gets a 400, and ends go-sdk's session.
		"answered before the second blip": {time.Second, false, map[string]int{"go-sdk": 2, "mcp-go": 3}},
		// go-sdk looks at what it has; mcp-go drops its prompt with the stream.
		"unanswered":             {20 * time.Second, false, map[string]int{"go-sdk": 1, "mcp-go": 3}},
		"torn by the first blip": {time.Second, true, map[string]int{"go-sdk": 2, "mcp-go": 2}},
	} {
		t.Run(what, func(t *testing.T) {
			eachGateway(t, middleware.Config{}, []string{"12"}, func(t *testing.T, b *bed, g *gateway, a *arm, sdk string) {
				g.call = mayEcho
				e8 := question("e8", "12")
				g.get = func(w http.ResponseWriter, r *http.Request, n int) {
					switch {
					case n == 1:
						open(w, "retry: 1000\n\n", note("e7", "one"))
						pause(r.Context(), time.Second)
					case n == 2 && answers.torn:
						open(w, "retry: 1000\n\n", e8[:len(e8)/2])
						pause(r.Context(), 3*time.Second)
						panic(http.ErrAbortHandler)
					case n <= 3:
						open(w, "retry: 1000\n\n", e8)
						pause(r.Context(), 3*time.Second)
					default:
						open(w, e8)
						<-r.Context().Done()
					}
				}
				p := &person{thinks: always(answers.thinks)}
				c := a.connectAsked(sdk, p)
				b.until(2 * minute)
				t.Logf("%s, %s, protected %v: %d prompts, answers %q, alive %v", sdk, what, a.guard != nil, p.prompted(), g.answered(), c.alive())
				if a.guard == nil {
					p.checkPrompts(t, answers.control[sdk])
					return
				}
				p.checkPrompts(t, 1)
				if got := c.all(); !slices.Equal(got, justOne) {
					t.Errorf("the client has %q, want %q", got, justOne)
				}
				a.checkLivesOn(t, c)
			})
		})
	}
}

// C68, the living half: what the server asks while the stream is down is in no
// client's hands yet. It is given once, and its answer counts.
func TestAnElicitationAskedWhileTheStreamIsDownIsAskedOnce(t *testing.T) {
	for _, sdk := range sdks {
		for _, server := range []mcpserver.Config{exclusive, inclusive} {
			t.Run(sdk+" "+server.Replay.String(), func(t *testing.T) {
				eachArm(t, func(t *testing.T, name string) {
					p := &person{thinks: always(5 * time.Second)}
					asked(t, name, sdk, false, server, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
						b.until(time.Second)
						b.emit(c.session, "one")
						b.cut(lb.FIN)
						done := make(chan string, 1)
						go func() {
							e, err := b.server.Ask(context.Background(), c.session, destructive)
							done <- fmt.Sprint(e.Action, err)
						}()
						b.until(minute)
						answer := "none"
						select {
						case answer = <-done:
						default:
						}
						t.Logf("%s, %s: %d prompts, the server's answer: %s", sdk, name, p.prompted(), answer)
						want, prompts := "accept<nil>", 1
						if a.guard == nil && sdk == "mcp-go" {
							want, prompts = "none", 0 // it has no cursor
						}
						if answer != want {
							t.Errorf("%s: the server's answer: %s, want %s", name, answer, want)
						}
						p.checkPrompts(t, prompts)
						a.checkLivesOn(t, c)
					})
				})
			})
		}
	}
}

// The same on the stream of a call: the second question is asked while that is
// down.
func TestASecondElicitationOfACallWhileItsStreamIsDown(t *testing.T) {
	for _, sdk := range sdks {
		for _, server := range []mcpserver.Config{exclusive, inclusive} {
			healthy{
				what: server.Replay.String(), sdk: sdk, server: server, cuts: []time.Duration{9500 * time.Millisecond},
				thinks: 10 * time.Second, tool: "confirm", args: map[string]any{"message": destructive, "times": 2},
				within: minute, want: yes + "\n" + yes, prompts: 2, controlPrompts: 2 + map[bool]int{true: 1}[server.Replay == mcpserver.ReplayInclusive],
			}.run(t)
		}
	}
}

// C68, the dead half: the session has died meanwhile, and its log replays what
// nobody waits for.
func TestAnElicitationOfADeadSessionIsNotAsked(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				p := &person{thinks: always(5 * time.Second)}
				asked(t, name, sdk, false, full, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					b.until(time.Second)
					b.emit(c.session, "one")
					b.cut(lb.FIN)
					go func() { _, _ = b.server.Ask(context.Background(), c.session, destructive) }()
					synctest.Wait()
					b.server.Reap(c.session)
					b.until(minute)
					t.Logf("%s, %s: %d prompts, alive %v", sdk, name, p.prompted(), c.alive())
					if a.guard == nil {
						p.checkPrompts(t, 1)
						return
					}
					p.checkPrompts(t, 0)
					c.checkOver(t)
					if e := a.sessionErr(c.session); e.Phase != middleware.PhaseProbe || e.QuarantinedEvents != 2 {
						t.Errorf("SessionErr(session) = %+v, want a death in phase probe and 2 events quarantined", e)
					}
				})
			})
		})
	}
}

// C69: a gateway that forgets an id at the first answer, and replays its
// question. There is no second answer.
func TestAReplayedQuestionOfAGatewayIsAnsweredOnce(t *testing.T) {
	eachGateway(t, middleware.Config{}, []string{`"gw-5"`}, func(t *testing.T, b *bed, g *gateway, a *arm, sdk string) {
		g.call = mayEcho
		g.get = func(w http.ResponseWriter, r *http.Request, n int) {
			open(w, "retry: 1000\n\n", note(fmt.Sprintf("e%d", 2*n), fmt.Sprint("round ", n)), question(fmt.Sprintf("e%d", 2*n+1), `"gw-5"`))
			pause(r.Context(), 10*time.Second)
		}
		p := &person{thinks: always(time.Second)}
		c := a.connectAsked(sdk, p)
		b.until(minute)
		t.Logf("%s, protected %v: %d prompts, answers %q, alive %v", sdk, a.guard != nil, p.prompted(), g.answered(), c.alive())
		if a.guard == nil {
			if n := len(g.answered()); n < 2 || c.alive() != (sdk == "mcp-go") {
				t.Errorf("control: %d answers, session alive %v, want a second one, which ends go-sdk's session", n, c.alive())
			}
			return
		}
		p.checkPrompts(t, 1)
		if got := g.answered(); !slices.Equal(got, []string{`"gw-5"`}) {
			t.Errorf("answers on the wire: %q, want one", got)
		}
		if got := c.all(); len(got) < 5 {
			t.Errorf("the client has %q, want what comes with the replays", got)
		}
		a.checkLivesOn(t, c)
	})
}

// C71: a redeploy while the prompt is open. The session is gone, the call gets
// its one error, and with it the host can take the prompt away.
func TestARedeployWhileThePromptIsOpen(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				p := &person{thinks: always(25 * time.Second)}
				asked(t, name, sdk, true, inclusive, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					done := a.start(c, "confirm", confirmIt)
					b.until(5 * time.Second)
					b.server.Reap(c.session)
					b.cut(lb.CleanEnd)
					b.until(5 * minute)
					o, end := ended(t, done)
					late := 0
					for _, w := range a.tap.of(c.session, 7*time.Second) {
						if w.method == http.MethodPost && w.rpc == "" {
							late++
						}
					}
					t.Logf("%s, %s: prompts %d, dismissed %v, answers on the wire %d, alive %v, call: %s", sdk, name, p.prompted(), p.dismissed, late, c.alive(), end)
					if a.guard == nil {
						if late == 0 || o.at < 25*time.Second && end != "never" {
							t.Errorf("control: call %s, %d answers, want it under way until the answer finds the session gone", end, late)
						}
						return
					}
					if !errors.Is(o.err, c.gone) || o.at < 6*time.Second || o.at > 7*time.Second {
						t.Errorf("call %s, want %v after 6s", end, c.gone)
					}
					if len(p.dismissed) != 1 || p.dismissed[0] > 7*time.Second {
						t.Errorf("dismissed at %v, want the prompt taken away with its call", p.dismissed)
					}
					p.checkPrompts(t, 1)
					if late != 0 {
						t.Errorf("%d answers on the wire, want none: nobody waits", late)
					}
				})
			})
		})
	}
}

// C48: a server that shares one log among its sessions, so that a replay brings
// another session's question. This session lives, and the question is new in
// it: the middleware cannot tell, and gives it to the application, once. The
// answer is refused, which ends neither the session nor anything else. What is
// new in a replay at all is refused with PendingStrict only. Where the ids of
// two sessions collide, as with mcp-go's, which count per process, it is kept
// back.
func TestAnotherSessionsQuestionInAReplay(t *testing.T) {
	for what, test := range map[string]struct {
		policy         middleware.Pending
		own            bool // this session has had a question of that id
		prompts, stale int  // protected
	}{
		"reconcile":                 {middleware.PendingReconcile, false, 1, 1},
		"reconcile, colliding ids":  {middleware.PendingReconcile, true, 1, 0},
		"strict":                    {middleware.PendingStrict, false, 0, 1},
		"off, to see what it is of": {middleware.PendingOff, false, 1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			var waits []string
			if test.own {
				waits = []string{"12"}
			}
			eachGateway(t, middleware.Config{Pending: test.policy}, waits, func(t *testing.T, b *bed, g *gateway, a *arm, sdk string) {
				a.tap.base = farPing{a.tap.base}
				g.call = mayEcho
				g.get = func(w http.ResponseWriter, r *http.Request, n int) {
					switch n {
					case 1:
						open(w, "retry: 1000\n\n", note("a2", "a2"))
						if test.own {
							say(w, question("a2b", "12"))
						}
						say(w, note("a3", "a3"))
						pause(r.Context(), 5*time.Second)
					default:
						open(w, note("a4", "a4"), question("b9", "12"), note("a5", "a5"))
						<-r.Context().Done()
					}
				}
				p := &person{thinks: always(time.Second)}
				c := a.connectAsked(sdk, p)
				b.until(minute)
				t.Logf("%s, %s, protected %v: %d prompts, answers %q, alive %v", sdk, what, a.guard != nil, p.prompted(), g.answered(), c.alive())
				if want := []string{"a2", "a3", "a4", "a5"}; a.guard != nil && !slices.Equal(c.all(), want) {
					t.Errorf("the client has %q, want %q", c.all(), want)
				}
				if a.guard == nil || test.policy == middleware.PendingOff {
					if alive := c.alive(); alive != (sdk == "mcp-go") {
						t.Errorf("session alive %v, want go-sdk's ended by the refused answer", alive)
					}
					return
				}
				p.checkPrompts(t, test.prompts)
				if events := a.observed(middleware.Stale); len(events) != test.stale {
					t.Errorf("stale: %+v, want %d", events, test.stale)
				} else if test.policy == middleware.PendingStrict {
					var unknown *middleware.UnknownPendingRequestError
					if !errors.As(events[0].Err, &unknown) || unknown.RequestID != "12" {
						t.Errorf("stale: %v, want an *UnknownPendingRequestError of 12", events[0].Err)
					}
				}
				a.checkLivesOn(t, c)
			})
		})
	}
}

// A request that comes first in a replay together with its own cancellation is
// nobody's any more.
func TestAQuestionThatComesWithItsCancellation(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				server := mcpserver.Config{OnBreak: mcpserver.BreakCancelsNoted, StaleAnswer: 202}
				server.Extend = func(s *mcpserver.Server, m *markserver.MCPServer) {
					m.AddTool(mark.NewTool("ask_later"), func(ctx context.Context, _ mark.CallToolRequest) (*mark.CallToolResult, error) {
						_ = m.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": "info", "data": "soon"})
						time.Sleep(7 * time.Second)
						_, err := s.AskOnCall(ctx, asksForm, map[string]any{"message": destructive, "requestedSchema": confirmSchema})
						return mark.NewToolResultErrorFromErr("ask_later", err), nil
					})
				}
				p := &person{thinks: always(5 * time.Second)}
				asked(t, name, sdk, true, server, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					a.tap.base = farPing{a.tap.base}
					done := a.start(c, "ask_later", nil)
					b.until(6500 * time.Millisecond)
					b.cut(lb.CleanEnd)
					b.until(minute)
					o, end := ended(t, done)
					t.Logf("%s, %s: prompts %d, dismissed %v, call: %s", sdk, name, p.prompted(), p.dismissed, end)
					if !strings.Contains(o.text, "stream broke") {
						t.Errorf("%s: call %s, want the tool's own error", name, end)
					}
					if a.guard == nil {
						if sdk == "mcp-go" { // go-sdk may see the cancellation first
							p.checkPrompts(t, 1)
						}
						return
					}
					p.checkPrompts(t, 0)
					a.checkStaleEvents(t, 0, "", false)
					a.checkLivesOn(t, c)
				})
			})
		})
	}
}
