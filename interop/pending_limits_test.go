package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
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

// What docs/rough-edges.md says of pending requests, measured.

// mcp-go's listener cancels the contexts of its handlers when the standalone
// stream breaks, and answers nothing. To the middleware that answer is lost: the
// server gets none, unless its replay asserts that it waits.
func TestPendingPromptDroppedWithMcpGosStandaloneStream(t *testing.T) {
	table := &rows{t: t}
	for _, server := range []mcpserver.Config{exclusive, inclusive, full} {
		for _, token := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s token %v", server.Replay, token), func(t *testing.T) {
				eachArm(t, func(t *testing.T, name string) {
					server.LivenessToken = token
					p := &person{thinks: always(20 * time.Second)}
					asked(t, name, "mcp-go", false, server, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
						b.until(time.Second)
						done := make(chan string, 1)
						go func() {
							e, err := b.server.Ask(context.Background(), c.session, destructive)
							done <- fmt.Sprint(e.Action, err)
						}()
						b.until(10 * time.Second)
						b.cut(lb.FIN)
						b.until(5 * minute)
						answer := "none"
						select {
						case answer = <-done:
						default:
						}
						stale := uint64(0)
						if a.guard != nil {
							stale = a.guard.Stats().Stale
						}
						table.add("replay %-9s token %-5v protected %-5v prompts %d, dismissed %v, stale %d, server's answer: %s", server.Replay, token, a.guard != nil, p.prompted(), p.dismissed, stale, answer)
						if len(p.dismissed) != 1 || p.dismissed[0] != 10*time.Second {
							t.Errorf("dismissed at %v, want once, with the stream at 10s", p.dismissed)
						}
						prompts, want := 1, "none"
						switch again := server.Replay != mcpserver.ReplayExclusive; {
						case a.guard == nil && server.Replay == mcpserver.ReplayFull: // without a cursor
							prompts, want = 2, "accept<nil>"
						case a.guard != nil && again && token:
							prompts, want = 2, "accept<nil>"
						case a.guard != nil && again:
							a.checkStaleEvents(t, 1, asksForm, false)
						}
						p.checkPrompts(t, prompts)
						if answer != want {
							t.Errorf("the server's answer: %s, want %s", answer, want)
						}
						a.checkLivesOn(t, c)
					})
				})
			})
		}
	}
	table.print()
}

// mcp-go's client takes every prompt away after 30 seconds, and answers nothing.
func TestPendingPromptThatMcpGoTakesAway(t *testing.T) {
	table := &rows{t: t}
	for _, server := range []mcpserver.Config{exclusive, inclusive} {
		for _, token := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s token %v", server.Replay, token), func(t *testing.T) {
				eachArm(t, func(t *testing.T, name string) {
					server.LivenessToken = token
					p := &person{thinks: awayAt(90 * time.Second)}
					asked(t, name, "mcp-go", true, server, balancerFor("mcp-go", sixty), middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
						done := a.start(c, "confirm", confirmIt)
						b.until(10 * minute)
						o, end := ended(t, done)
						table.add("replay %-9s token %-5v protected %-5v prompts %d, dismissed %v, call: %s", server.Replay, token, a.guard != nil, p.prompted(), p.dismissed, end)
						if len(p.dismissed) != 1 || p.dismissed[0] != 30*time.Second {
							t.Errorf("dismissed at %v, want once, at 30s", p.dismissed)
						}
						switch {
						case server.Replay == mcpserver.ReplayExclusive:
							p.checkPrompts(t, 1)
							if end != "never" {
								t.Errorf("%s: call %s, want it under way: the server waits", name, end)
							}
						case a.guard == nil, token:
							p.checkPrompts(t, 2)
							if o.text != yes {
								t.Errorf("%s: call %s, want %q", name, end, yes)
							}
						default:
							p.checkPrompts(t, 1)
							checkStale(t, "mcp-go", o.err)
							a.checkStaleEvents(t, 1, asksForm, true)
						}
						a.checkLivesOn(t, c)
					})
				})
			})
		}
	}
	table.print()
}

// A tool that is silent for longer than Config.StaleGrace after its answer, on a
// server whose replays have the answered request: nobody can tell it from one
// that waits no longer. See TestPendingLongSilentTool for the way out.
func TestPendingSilenceUnderInclusiveReplayCountsAsStale(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			p := &person{thinks: always(5 * time.Second)}
			asked(t, "protected", sdk, true, inclusive, balancerFor(sdk, sixty), middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
				done := a.start(c, "confirm", map[string]any{"message": destructive, "work_events": 1, "interval_ms": 280_000})
				b.until(10 * minute)
				o, end := ended(t, done)
				t.Logf("%s: prompts %d, call: %s", sdk, p.prompted(), end)
				checkStale(t, sdk, o.err)
				if o.at < 122*time.Second || o.at > 123*time.Second {
					t.Errorf("call %s, want it failed at the second replay, after 2m2s", end)
				}
				p.checkPrompts(t, 1)
				a.checkStaleEvents(t, 1, asksForm, true)
				a.checkLivesOn(t, c)
			})
		})
	}
}

// inclusiveStore is mcp-go's own event store, whose replays begin with the event
// that the cursor names.
type inclusiveStore struct {
	markserver.EventStore
	mu     sync.Mutex
	before map[string]string // event ids, within a stream
	last   map[string]string // by stream
}

func newInclusiveStore() *inclusiveStore {
	return &inclusiveStore{EventStore: markserver.NewInMemoryEventStore(), before: map[string]string{}, last: map[string]string{}}
}

func (s *inclusiveStore) StoreEvent(ctx context.Context, session, stream string, message json.RawMessage) (string, error) {
	id, err := s.EventStore.StoreEvent(ctx, session, stream, message)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before[id], s.last[session+stream] = s.last[session+stream], id
	return id, err
}

func (s *inclusiveStore) ReplayEventsAfter(ctx context.Context, session, cursor string, send func(string, json.RawMessage) error) (string, error) {
	s.mu.Lock()
	if before := s.before[cursor]; before != "" {
		cursor = before
	}
	s.mu.Unlock()
	return s.EventStore.ReplayEventsAfter(ctx, session, cursor, send)
}

// newMarksAsker is mcp-go's server as it comes. Its tool says something before
// it asks.
func newMarksAsker(store markserver.EventStore) (http.Handler, func()) {
	server := markserver.NewMCPServer("marks", "1", markserver.WithLogging(), markserver.WithElicitation())
	server.AddTool(mark.NewTool("confirm", mark.WithString("message")), func(ctx context.Context, r mark.CallToolRequest) (*mark.CallToolResult, error) {
		_ = server.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": "info", "data": "about to ask"})
		time.Sleep(time.Second) // mcp-go sends the two in either order
		result, err := server.RequestElicitation(ctx, mark.ElicitationRequest{Params: mark.ElicitationParams{
			Message: r.GetString("message", ""), RequestedSchema: confirmSchema,
		}})
		if err != nil {
			return mark.NewToolResultErrorFromErr("confirm", err), nil
		}
		return mark.NewToolResultText("confirm: " + string(result.Action)), nil
	})
	server.AddTool(mark.NewTool("echo", mark.WithString("text")), func(_ context.Context, r mark.CallToolRequest) (*mark.CallToolResult, error) {
		return mark.NewToolResultText(r.GetString("text", "")), nil
	})
	h := markserver.NewStreamableHTTPServer(server, markserver.WithStateful(true),
		markserver.WithEventStore(store), markserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	return h, func() { _ = h.Shutdown(context.Background()) }
}

// mcp-go's own server: when the stream of a call breaks, it cancels the tool,
// and the replay has the tool's error, with an inclusive one after the dead
// request. An answer to that gets a 400, by which go-sdk's client ends its
// session.
func TestPendingRequestOfMcpGosServer(t *testing.T) {
	table := &rows{t: t}
	for what, store := range map[string]func() markserver.EventStore{
		"exclusive": func() markserver.EventStore { return markserver.NewInMemoryEventStore() },
		"inclusive": func() markserver.EventStore { return newInclusiveStore() },
	} {
		for _, sdk := range sdks {
			t.Run(sdk+" "+what, func(t *testing.T) {
				eachArm(t, func(t *testing.T, name string) {
					synctest.Test(t, func(t *testing.T) {
						h, end := newMarksAsker(store())
						b := askerBed(t, h, end, lb.Config{})
						a := b.arm(name, middleware.Config{})
						a.quiet = true
						p := &person{thinks: always(20 * time.Second)}
						c := a.connectAsked(sdk, p)
						done := a.start(c, "confirm", confirmIt)
						b.until(5 * time.Second)
						b.cut(lb.CleanEnd)
						b.until(5 * minute)
						o, how := ended(t, done)
						refused := 0
						for _, w := range a.tap.of(c.session, 0) {
							if w.status == http.StatusBadRequest {
								refused++
							}
						}
						table.add("%s %s protected %-5v prompts %d, dismissed %v, answers refused %d, session alive %-5v, call: %s", sdk, what, a.guard != nil, p.prompted(), p.dismissed, refused, c.alive(), how)
						if o.text != "confirm: context canceled" {
							t.Errorf("%s: call %s, want the tool's own error", name, how)
						}
						if a.guard == nil {
							if alive := c.alive(); alive == (sdk == "go-sdk") {
								t.Errorf("control: session alive %v, want go-sdk's ended by the 400", alive)
							}
							return
						}
						p.checkPrompts(t, 1)
						a.checkStaleEvents(t, 0, "", false)
						a.checkLivesOn(t, c)
						if suppressed := a.guard.Stats().Suppressed; suppressed != map[string]uint64{"exclusive": 0, "inclusive": 1}[what] {
							t.Errorf("%d suppressed, want the dead request of an inclusive replay", suppressed)
						}
					})
				})
			})
		}
	}
	table.print()
}
