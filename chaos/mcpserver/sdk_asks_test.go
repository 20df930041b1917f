//lint:file-ignore SA1019 In the versions that have sessions, sampling is not deprecated.

package mcpserver_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mark "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// user is who sits before a go-sdk client: it says yes after a while.
type user struct {
	prompts  atomic.Int32
	complete atomic.Int32
	thinks   time.Duration
}

func (u *user) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			u.prompts.Add(1)
			select {
			case <-time.After(u.thinks):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if r.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
		ElicitationCompleteHandler: func(context.Context, *mcp.ElicitationCompleteNotificationRequest) { u.complete.Add(1) },
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			if text, ok := r.Params.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "hi" {
				return nil, errors.New("not the prompt")
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "hello"}}, nil
		},
	}
}

func (s *sdk) call(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Errorf("CallTool(%s) = %v, want nil", tool, err)
		return ""
	}
	return result.Content[0].(*mcp.TextContent).Text
}

func TestSDKClientAnswersWhatTheServerAsks(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: time.Second}, func(t *testing.T, b *bed) {
		u := &user{thinks: time.Second}
		c := connectWith(b, "2025-11-25", u.options())
		for _, test := range []struct {
			tool string
			args map[string]any
			want string
		}{
			{"confirm", map[string]any{"message": "?"}, `confirm: accept {"confirm":true}`},
			{"confirm", map[string]any{"message": "?", "times": 2, "work_events": 1}, "confirm: accept {\"confirm\":true}\nconfirm: accept {\"confirm\":true}"},
			{"confirm_url", map[string]any{"message": "?", "url": "https://example.com/"}, "confirm_url: accept"},
			{"sample", map[string]any{"prompt": "hi"}, `sample: m text "hello"`},
			{"roots", nil, "roots: 0"},
			{"ping_client", nil, "ping_client: answered"},
		} {
			if got := c.call(t, test.tool, test.args); got != test.want {
				t.Errorf("%s: %q, want %q", test.tool, got, test.want)
			}
		}
		e, err := b.server.Ask(t.Context(), c.ID(), "?")
		if err != nil || e.Action != "accept" {
			t.Errorf("Ask() = %+v, %v, want accept", e, err)
		}
		synctest.Wait()
		if u.prompts.Load() != 5 || u.complete.Load() != 1 {
			t.Errorf("%d prompts, %d completions, want 5 and 1", u.prompts.Load(), u.complete.Load())
		}
	})
}

func TestSDKClientAnswersAfterItsStreamBroke(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: time.Second}, func(t *testing.T, b *bed) {
		u := &user{thinks: 10 * time.Second}
		c := connectWith(b, "2025-11-25", u.options())
		time.AfterFunc(5*time.Second, c.cut)
		if got := c.call(t, "confirm", map[string]any{"message": "?"}); got != `confirm: accept {"confirm":true}` {
			t.Errorf("confirm: %q, want the answer", got)
		}
		if n := u.prompts.Load(); n != 1 {
			t.Errorf("%d prompts, want 1", n)
		}
	})
}

// The control group of the experiment on pending requests: a client without
// protection prompts its user again for a request that it has answered.
func TestSDKClientPromptsAgainWhenAReplayRepeatsTheRequest(t *testing.T) {
	cfg := mcpserver.Config{Retry: time.Second, Replay: mcpserver.ReplayFull, StaleAnswer: 202}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		u := &user{thinks: time.Second}
		c := connectWith(b, "2025-11-25", u.options())
		for i := range 3 {
			time.AfterFunc(time.Duration(4+4*i)*time.Second, c.cut)
		}
		args := map[string]any{"message": "?", "work_events": 20, "interval_ms": 1000}
		if got := c.call(t, "confirm", args); got != `confirm: accept {"confirm":true}` {
			t.Errorf("confirm: %q, want the answer", got)
		}
		if n := u.prompts.Load(); n != 4 {
			t.Errorf("%d prompts, want 4, one for each connection", n)
		}
		if n := len(b.records(mcpserver.AnswerDropped)); n != 3 {
			t.Errorf("%d answers dropped, want 3", n)
		}
	})
}

// go-sdk answers a request that is cancelled with an error, and takes a 400 for
// that as the end of its session.
func TestSDKClientGetsTheErrorOfACancelledRequest(t *testing.T) {
	cfg := mcpserver.Config{Retry: time.Second, OnBreak: mcpserver.BreakCancelsNoted, StaleAnswer: 202}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		u := &user{thinks: time.Hour}
		c := connectWith(b, "2025-11-25", u.options())
		time.AfterFunc(5*time.Second, c.cut)
		began := time.Now()
		got := c.call(t, "confirm", map[string]any{"message": "?"})
		if got != "confirm: mcpserver: the request's stream broke" || time.Since(began) != 6*time.Second {
			t.Errorf("confirm: %q after %v, want the server's error after 6s", got, time.Since(began))
		}
	})
}

func TestSDKClientsCallHangsWhenItsRequestIsCancelledInSilence(t *testing.T) {
	cfg := mcpserver.Config{Retry: time.Second, OnBreak: mcpserver.BreakCancels, StaleAnswer: 202}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		u := &user{thinks: time.Minute}
		c := connectWith(b, "2025-11-25", u.options())
		time.AfterFunc(5*time.Second, c.cut)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "confirm", Arguments: map[string]any{"message": "?"}})
		if !errors.Is(err, context.DeadlineExceeded) || u.prompts.Load() != 1 {
			t.Errorf("CallTool() = %v after %d prompts, want no answer after one", err, u.prompts.Load())
		}
		if n := len(b.records(mcpserver.AnswerDropped)); n != 1 {
			t.Errorf("%d answers dropped, want 1", n)
		}
	})
}

// elicits is a mcp-go client's handler.
type elicits struct{ prompts atomic.Int32 }

func (e *elicits) Elicit(context.Context, mark.ElicitationRequest) (*mark.ElicitationResult, error) {
	e.prompts.Add(1)
	return &mark.ElicitationResult{ElicitationResponse: mark.ElicitationResponse{
		Action: mark.ElicitationResponseActionAccept, Content: map[string]any{"confirm": true},
	}}, nil
}

func (e *elicits) CreateMessage(context.Context, mark.CreateMessageRequest) (*mark.CreateMessageResult, error) {
	return &mark.CreateMessageResult{
		SamplingMessage: mark.SamplingMessage{Role: mark.RoleAssistant, Content: mark.NewTextContent("hello")}, Model: "m",
	}, nil
}

func (e *elicits) ListRoots(context.Context, mark.ListRootsRequest) (*mark.ListRootsResult, error) {
	return &mark.ListRootsResult{Roots: []mark.Root{{URI: "file:///a"}}}, nil
}

func TestMCPGoClientAnswersWhatTheServerAsks(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		tr, err := transport.NewStreamableHTTP(b.server.URL(),
			transport.WithHTTPBasicClient(b.client),
			transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		e := &elicits{}
		c := client.NewClient(tr, client.WithProtocolVersion("2025-11-25"),
			client.WithElicitationHandler(e), client.WithSamplingHandler(e), client.WithRootsHandler(e))
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Initialize(t.Context(), mark.InitializeRequest{Params: mark.InitializeParams{
			ProtocolVersion: "2025-11-25", ClientInfo: mark.Implementation{Name: "test", Version: "1"},
		}}); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			tool string
			args map[string]any
			want string
		}{
			{"confirm", map[string]any{"message": "?", "work_events": 1}, `confirm: accept {"confirm":true}`},
			{"sample", map[string]any{"prompt": "hi"}, `sample: m text "hello"`},
			{"roots", nil, "roots: 1 file:///a"},
			{"ping_client", nil, "ping_client: answered"},
		} {
			result, err := c.CallTool(t.Context(), mark.CallToolRequest{Params: mark.CallToolParams{Name: test.tool, Arguments: test.args}})
			if err != nil {
				t.Fatalf("CallTool(%s) = %v, want nil", test.tool, err)
			}
			if got := mark.GetTextFromContent(result.Content[0]); got != test.want {
				t.Errorf("%s: %q, want %q", test.tool, got, test.want)
			}
		}
		if n := e.prompts.Load(); n != 1 {
			t.Errorf("%d prompts, want 1", n)
		}
	})
}
