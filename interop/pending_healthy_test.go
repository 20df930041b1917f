package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	mark "github.com/mark3labs/mcp-go/mcp"
	markserver "github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// What a healthy server asks is none of the middleware's business: the
// application gets it once, and the call ends as it does without the middleware,
// or better.

// healthy is one client's call of a tool of a healthy server.
type healthy struct {
	what   string
	sdk    string
	server mcpserver.Config
	idle   time.Duration // of the load balancer; 0: it never cuts
	cuts   []time.Duration
	thinks time.Duration
	person string // what the person does; "" is accept
	tool   string
	args   map[string]any
	grace  time.Duration // Config.StaleGrace
	within time.Duration

	want           string // the call's text
	prompts        int    // protected
	controlPrompts int
	controlFails   bool // without the middleware the call fails; with it as well, unless want is set
}

// run makes the call in both arms.
func (h healthy) run(t *testing.T) {
	t.Run(fmt.Sprintf("%s %s", h.sdk, h.what), func(t *testing.T) {
		eachArm(t, func(t *testing.T, name string) {
			p := &person{thinks: always(h.thinks), answers: h.person}
			balancer := balancerFor(h.sdk, h.idle)
			asked(t, name, h.sdk, true, h.server, balancer, middleware.Config{StaleGrace: h.grace}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
				done := a.start(c, h.tool, h.args)
				for _, at := range h.cuts {
					b.until(at)
					b.cut(balancer.OnExpiry)
				}
				b.until(h.within)
				o, end := ended(t, done)
				suppressed := uint64(0)
				if a.guard != nil {
					suppressed = a.guard.Stats().Suppressed
				}
				t.Logf("%s %s, %s: prompts %d, reconnects %d, completions %d, suppressed %d, call: %s", h.sdk, h.what, name, p.prompted(), a.reconnects(c.session), p.completions(), suppressed, end)
				if a.guard == nil {
					p.checkPrompts(t, max(h.controlPrompts, h.prompts))
					if failed := o.err != nil || end == "never"; failed != h.controlFails {
						t.Errorf("control: call %s, want it failed: %v", end, h.controlFails)
					}
					return
				}
				p.checkPrompts(t, h.prompts)
				a.checkStaleEvents(t, 0, "", false)
				if o.text != h.want || (o.err != nil || end == "never") != (h.want == "") {
					t.Errorf("protected: call %s, want %q", end, h.want)
				}
				if h.tool == "confirm_url" && p.completions() != 1 {
					t.Errorf("protected: %d completions, want 1", p.completions())
				}
				a.checkLivesOn(t, c)
			})
		})
	})
}

// Of mcp-go's client a person has 30 seconds, so that for it everything is
// faster.
var (
	inclusive = mcpserver.Config{Replay: mcpserver.ReplayInclusive, StaleAnswer: 202}
	exclusive = mcpserver.Config{Replay: mcpserver.ReplayExclusive, StaleAnswer: 202}
	full      = mcpserver.Config{Replay: mcpserver.ReplayFull, StaleAnswer: 202}
)

const yes = `confirm: accept {"confirm":true}`

// A person who answers after three cuts, of a server that keeps waiting.
func TestPendingSlowPerson(t *testing.T) {
	for _, h := range []healthy{
		{what: "inclusive", sdk: "go-sdk", server: inclusive, idle: sixty, thinks: 200 * time.Second, prompts: 1, want: yes},
		{what: "full", sdk: "go-sdk", server: full, idle: sixty, thinks: 200 * time.Second, prompts: 1, want: yes},
		// mcp-go's client has no eye for what it is being asked already.
		{what: "inclusive", sdk: "mcp-go", server: inclusive, idle: 8 * time.Second, thinks: 28 * time.Second, prompts: 1, controlPrompts: 4, want: yes},
		{what: "exclusive", sdk: "mcp-go", server: exclusive, idle: 8 * time.Second, thinks: 28 * time.Second, prompts: 1, want: yes},
		// go-sdk's client loses its cursor, and with it the call, at the end of a
		// resumed stream that has brought nothing.
		{what: "exclusive, one cut", sdk: "go-sdk", server: exclusive, idle: sixty, thinks: 90 * time.Second, prompts: 1, want: yes},
		{what: "exclusive, three cuts", sdk: "go-sdk", server: exclusive, idle: sixty, thinks: 200 * time.Second, prompts: 1, controlFails: true},
	} {
		h.tool, h.args, h.within = "confirm", confirmIt, 10*minute
		h.run(t)
	}
}

// The same on the standalone stream, which has no call that could end.
func TestPendingSlowPersonOnTheStandaloneStream(t *testing.T) {
	for what, server := range map[string]mcpserver.Config{"inclusive": inclusive, "exclusive": exclusive, "full": full} {
		t.Run(what, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				p := &person{thinks: always(200 * time.Second)}
				asked(t, name, "go-sdk", false, server, lb.Config{IdleTimeout: sixty}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					done := make(chan mcpserver.Elicitation, 1)
					go func() {
						e, err := b.server.Ask(context.Background(), c.session, destructive)
						if err != nil {
							t.Errorf("%s: Ask() = %v, want nil", name, err)
						}
						done <- e
					}()
					b.until(5 * minute)
					select {
					case e := <-done:
						if e.Action != "accept" {
							t.Errorf("%s: Ask() = %+v, want accept", name, e)
						}
					default:
						t.Fatalf("%s: Ask() waits, want the person's answer", name)
					}
					t.Logf("go-sdk %s, %s: prompts %d, reconnects %d", what, name, p.prompted(), a.reconnects(c.session))
					if a.guard == nil {
						return // a replay may have prompted again meanwhile
					}
					p.checkPrompts(t, 1)
					a.checkStaleEvents(t, 0, "", false)
					a.checkLivesOn(t, c)
				})
			})
		})
	}
}

// After an accepted answer the tool works, with progress, over many cuts.
func TestPendingLongToolWithProgress(t *testing.T) {
	args := map[string]any{"message": destructive, "work_events": 12, "interval_ms": 20_000}
	for _, h := range []healthy{
		{what: "inclusive", sdk: "go-sdk", server: inclusive, controlPrompts: 2},
		{what: "inclusive", sdk: "mcp-go", server: inclusive, controlPrompts: 2},
		{what: "exclusive", sdk: "go-sdk", server: exclusive},
		{what: "exclusive", sdk: "mcp-go", server: exclusive},
		// Every replay has the answered question, and everything since.
		{what: "full", sdk: "go-sdk", server: full, controlPrompts: 13},
		{what: "full", sdk: "mcp-go", server: full, controlPrompts: 13},
	} {
		h.tool, h.args, h.within = "confirm", args, 10*minute
		h.idle, h.thinks, h.prompts, h.want = 15*time.Second, 5*time.Second, 1, yes
		h.run(t)
	}
}

// The same in silence: with exclusive replay nothing says that the server would
// not be at work.
func TestPendingLongSilentTool(t *testing.T) {
	for _, h := range []healthy{
		{what: "exclusive", sdk: "mcp-go", server: exclusive, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 600_000}},
		// One cut: see TestPendingSlowPerson.
		{what: "exclusive", sdk: "go-sdk", server: exclusive, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 90_000}},
		// With inclusive replay it does look as if the server asked again in vain:
		// Config.StaleGrace has to be longer than the longest silence.
		{what: "inclusive, with grace", sdk: "mcp-go", server: inclusive, grace: 15 * minute, controlPrompts: 10, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 600_000}},
		{what: "inclusive, with grace", sdk: "go-sdk", server: inclusive, grace: 15 * minute, controlPrompts: 5, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 280_000}},
		// For a minute nothing counts, however often the question comes.
		{what: "inclusive, a minute", sdk: "go-sdk", server: inclusive, idle: 12 * time.Second, controlPrompts: 5, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 55_000}},
		{what: "inclusive, a minute", sdk: "mcp-go", server: inclusive, idle: 12 * time.Second, controlPrompts: 5, args: map[string]any{"message": destructive, "work_events": 1, "interval_ms": 55_000}},
	} {
		h.tool, h.within = "confirm", 15*minute
		if h.idle == 0 {
			h.idle = sixty
		}
		h.thinks, h.prompts, h.want = 5*time.Second, 1, yes
		h.run(t)
	}
}

// Everything else that a server can ask, with a cut while the client is at it,
// and a replay that has the question again.
func TestPendingOfEveryKind(t *testing.T) {
	for _, sdk := range sdks {
		for _, server := range []mcpserver.Config{inclusive, exclusive} {
			for _, h := range []healthy{
				{what: "form", tool: "confirm", args: confirmIt, want: yes},
				{what: "form thrice", tool: "confirm", args: map[string]any{"message": destructive, "times": 3}, prompts: 3, want: yes + "\n" + yes + "\n" + yes},
				{what: "declined", tool: "confirm", args: confirmIt, person: "decline", want: "confirm: decline"},
				{what: "cancelled", tool: "confirm", args: confirmIt, person: "cancel", want: "confirm: cancel"},
				{what: "URL", tool: "confirm_url", args: map[string]any{"message": destructive, "url": "https://example.com/"}, want: "confirm_url: accept"},
				{what: "sampling", tool: "sample", args: map[string]any{"prompt": "hi"}, want: `sample: m text "hello"`},
				{what: "roots", tool: "roots", want: "roots: 1 file:///a"},
			} {
				h.what += " " + server.Replay.String()
				h.sdk, h.server, h.prompts = sdk, server, max(h.prompts, 1)
				h.cuts, h.thinks, h.within = []time.Duration{5 * time.Second}, 10*time.Second, minute
				if sdk == "mcp-go" && server.Replay == mcpserver.ReplayInclusive {
					h.controlPrompts = h.prompts + 1
				}
				h.run(t)
			}
		}
	}
}

// A ping is answered as often as it comes, also in a replay.
func TestPendingPingsPassReplayedOrNot(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				server := full
				server.Extend = func(s *mcpserver.Server, m *markserver.MCPServer) {
					m.AddTool(mark.NewTool("ping_and_confirm"), func(ctx context.Context, _ mark.CallToolRequest) (*mark.CallToolResult, error) {
						for _, ask := range []struct {
							method string
							params map[string]any
						}{{"ping", nil}, {asksForm, map[string]any{
							"message": destructive, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{"confirm": map[string]any{"type": "boolean"}}},
						}}} {
							if _, err := s.AskOnCall(ctx, ask.method, ask.params); err != nil {
								return nil, err
							}
						}
						return mark.NewToolResultText("both answered"), nil
					})
				}
				p := &person{thinks: always(20 * time.Second)}
				asked(t, name, sdk, true, server, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					if text, err := c.call(t.Context(), "ping_client", nil); text != "ping_client: answered" || err != nil {
						t.Errorf("ping_client = %q, %v, want answered", text, err)
					}
					done := a.start(c, "ping_and_confirm", nil)
					for range 3 {
						b.until(b.now() + 5*time.Second)
						b.cut(lb.CleanEnd)
					}
					b.until(5 * minute)
					if o, end := ended(t, done); o.text != "both answered" {
						t.Errorf("%s: call %s, want both answered", name, end)
					}
					pings := 0
					history := b.server.Oracle().History()
					for _, answer := range history.Answers {
						if answer.ID == "2" {
							pings++
						}
					}
					t.Logf("%s, %s: %d prompts, the second ping answered %d times", sdk, name, p.prompted(), pings)
					if pings != 4 || history.Asks[1].Method != "ping" {
						t.Errorf("%s: the ping that was replayed three times was answered %d times, want 4", name, pings)
					}
					if a.guard != nil {
						p.checkPrompts(t, 1)
						a.checkStaleEvents(t, 0, "", false)
						for _, e := range a.observed(middleware.DuplicateSuppressed) {
							if e.RPCMethod == "ping" {
								t.Errorf("suppressed %+v, want no ping", e)
							}
						}
						a.checkLivesOn(t, c)
					}
				})
			})
		})
	}
}
