package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// replies is a Person's.
func replies(all ...client.Reply) client.Person { return client.Person{Replies: all} }

func TestPersonAnswers(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		person := replies(client.Reply{After: 3 * time.Second}, client.Reply{Action: client.Decline}, client.Reply{After: time.Second, Action: client.Cancel})
		virtual(t, setup{client: client.Config{Kind: kind, Person: person}}, func(t *testing.T, b *bed) {
			session := b.connect()
			got := b.call("confirm", map[string]any{"message": "Really?", "times": 4})
			want := `confirm: accept {"confirm":true}` + "\nconfirm: decline\nconfirm: cancel\nconfirm: cancel"
			if strings.ReplaceAll(got.Text, " \n", "\n") != want {
				t.Errorf("call = %+v, want %q", got, want)
			}
			if d := time.Since(b.began); d != 5*time.Second {
				t.Errorf("it took %v, want 5s", d)
			}
			prompted, answered := b.of(client.Prompted), b.of(client.Answered)
			if len(prompted) != 4 || len(answered) != 4 {
				t.Fatalf("%d prompts and %d answers, want 4", len(prompted), len(answered))
			}
			for i, action := range []client.Action{client.Accept, client.Decline, client.Cancel, client.Cancel} {
				p, a := prompted[i], answered[i]
				if p.Ref != i+1 || a.Ref != p.Ref || a.Action != action || p.Stamp.Session != session || a.Stamp != p.Stamp || p.Method != "elicitation/create" || p.SessionID != session {
					t.Errorf("prompt %d: %+v, %+v, want %s, with the stamp of its session", i+1, p, a, action)
				}
			}
		})
	})
}

// Whatever a server can ask is answered, and is in the log with its stamp. Pings
// are the client's own matter.
func TestEverythingIsAnswered(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind, Person: replies(client.Reply{After: time.Second})}}, func(t *testing.T, b *bed) {
			b.connect()
			calls := []struct {
				tool   string
				args   map[string]any
				answer string
				method string
			}{
				{"sample", map[string]any{"prompt": "Say something."}, `sample: none text "sampled"`, "sampling/createMessage"},
				{"roots", nil, "roots: 1 file:///revenant", "roots/list"},
				{"confirm_url", map[string]any{"message": "Open it", "url": "https://example.org/"}, "confirm_url: accept", "elicitation/create"},
				{"ping_client", nil, "ping_client: answered", ""},
			}
			for _, c := range calls {
				before := len(b.of(client.Prompted))
				if r := b.call(c.tool, c.args); r.Text != c.answer {
					t.Errorf("%s = %+v, want %q", c.tool, r, c.answer)
				}
				asked := b.of(client.Prompted)[before:]
				if c.method == "" && len(asked) == 0 {
					continue
				}
				if len(asked) != 1 || asked[0].Method != c.method || asked[0].Stamp.Seq == 0 {
					t.Errorf("%s: prompts %+v, want one of %s with a stamp", c.tool, asked, c.method)
				}
			}
		})
	})
}

func TestPersonRefusesToSample(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind, Person: replies(client.Reply{Action: client.Decline})}}, func(t *testing.T, b *bed) {
			b.connect()
			if r := b.call("sample", map[string]any{"prompt": "Say something."}); r.How != client.ToolError || !strings.Contains(r.Text, "the person refuses") {
				t.Errorf("call = %+v, want the person's refusal", r)
			}
		})
	})
}

// A prompt that nobody will answer keeps nobody from being idle, and is taken
// away when the client is closed.
func TestPersonNeverAnswers(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind, Person: replies(client.Reply{Action: client.Never})}}, func(t *testing.T, b *bed) {
			session := b.connect()
			asked := make(chan error, 1)
			go func() {
				_, err := b.server.Ask(t.Context(), session, "Really?")
				asked <- err
			}()
			b.until(20 * time.Second)
			if err := b.client.WaitIdle(t.Context()); err != nil || len(b.of(client.Prompted)) != 1 {
				t.Errorf("WaitIdle = %v, and %d prompts, want nil and 1", err, len(b.of(client.Prompted)))
			}
			if err := b.client.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
			if w := b.of(client.Withdrawn); len(w) != 1 || w[0].Ref != 1 || w[0].Err == nil {
				t.Errorf("withdrawn: %+v, want the prompt", w)
			}
			<-asked
		})
	})
}

// A prompt that the person will answer has somebody to wait for.
func TestWaitIdleWaitsForThePerson(t *testing.T) {
	virtual(t, setup{client: client.Config{Kind: client.Naive, Person: replies(client.Reply{After: 7 * time.Second})}}, func(t *testing.T, b *bed) {
		session := b.connect()
		go func() { _, _ = b.server.Ask(t.Context(), session, "Really?") }()
		b.until(time.Second)
		if err := b.client.WaitIdle(t.Context()); err != nil || time.Since(b.began) != 7*time.Second {
			t.Errorf("WaitIdle = %v after %v, want nil after 7s", err, time.Since(b.began))
		}
	})
}

// What becomes of a prompt when its stream breaks, and the replay has the request
// once more: mcp-go takes it away and asks again, go-sdk leaves it there, and the
// naive client asks beside it.
func TestPromptsWhenTheStreamBreaks(t *testing.T) {
	cases := map[client.Kind]struct{ prompts, withdrawn int }{
		client.GoSDK: {1, 0}, client.MCPGo: {2, 1}, client.Naive: {2, 0},
	}
	for kind, want := range cases {
		t.Run(string(kind), func(t *testing.T) {
			server := mcpserver.Config{Retry: time.Second, Replay: mcpserver.ReplayFull}
			virtual(t, setup{server: server, client: client.Config{Kind: kind, Person: replies(client.Reply{After: 20 * time.Second})}}, func(t *testing.T, b *bed) {
				session := b.connect()
				go func() { _, _ = b.server.Ask(t.Context(), session, "Really?") }()
				b.until(5 * time.Second)
				b.balancer.Cut(lb.FIN)
				b.until(10 * time.Second)
				if p, w := len(b.of(client.Prompted)), len(b.of(client.Withdrawn)); p != want.prompts || w != want.withdrawn {
					t.Errorf("%d prompts, %d withdrawn, want %d, %d", p, w, want.prompts, want.withdrawn)
				}
				b.until(time.Minute)
			})
		})
	}
}
