package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// answered is what Ask returned.
type answered struct {
	mcpserver.Elicitation
	err error
}

// ask asks in the background.
func (b *bed) ask(session, message string) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		e, err := b.server.Ask(context.Background(), session, message)
		done <- answered{e, err}
	}()
	return done
}

func TestAskGoesOnTheStandaloneStream(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		alone := b.listen(session)
		done := b.ask(session, "really?")
		q := alone.next()
		if a := q.asked(t); a.Method != "elicitation/create" || a.Params.Message != "really?" || q.id == "" || q.stamp(t).Session != session {
			t.Errorf("question: %+v, want a stamped one with an event id", q)
		}
		alone.cut()
		elapse(time.Hour)
		if status := b.reply(session, q.asked(t).ID, yes); status != 202 {
			t.Errorf("answer: %d, want 202", status)
		}
		if a := <-done; a.err != nil || a.Action != "accept" || string(a.Content) != `{"confirm":true}` {
			t.Errorf("Ask() = %+v, want what the user answered", a)
		}
		if asks := b.server.Oracle().History().Asks; len(asks) != 1 || asks[0].CallID != "" {
			t.Errorf("asks: %+v, want one without a call", asks)
		}
	})
}

func TestAskFails(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session, dying := b.initialize(), b.initialize()
		fails := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("Ask() %s = %v, want %v", what, err, want)
			}
		}
		_, err := b.server.Ask(t.Context(), "nobody", "?")
		fails("of nobody", err, mcpserver.ErrSessionGone)
		_, err = b.server.Ask(t.Context(), session, "?")
		fails("without a stream", err, mcpserver.ErrNoStream)

		alone, stream := b.listen(session), b.listen(dying)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.server.Ask(ctx, session, "?")
		fails("that takes too long", err, context.DeadlineExceeded)
		if status := b.reply(session, alone.next().asked(t).ID, yes); status != 400 {
			t.Errorf("late answer: %d, want 400", status)
		}

		done := b.ask(dying, "?")
		stream.next()
		b.server.Reap(dying)
		fails("of a session that dies", (<-done).err, mcpserver.ErrSessionGone)

		done = b.ask(session, "?")
		alone.next()
		resp, _ := b.do("POST", session, "", `{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no","data":[7]}}`)
		clientErr := (*mcpserver.ClientError)(nil)
		if err := (<-done).err; resp.StatusCode != 202 || !errors.As(err, &clientErr) || clientErr.Code != -1 || clientErr.Message != "no" || string(clientErr.Data) != "[7]" || clientErr.Method != "elicitation/create" {
			t.Errorf("Ask() answered with an error = %v, want it", err)
		}

		done = b.ask(session, "?")
		alone.next()
		b.do("DELETE", session, "", "")
		fails("of a session that is deleted", (<-done).err, mcpserver.ErrSessionGone)
		synctest.Wait()
		if n := pumps(); n != 1 {
			t.Errorf("mcp-go keeps %d sessions, want 1, that of the reaped one's log", n)
		}
		b.stop()
		_, err = b.server.Ask(t.Context(), session, "?")
		fails("after the end", err, mcpserver.ErrClosed)
	})
}

func TestExtendAddsTools(t *testing.T) {
	var s *mcpserver.Server
	extend := func(own *mcpserver.Server, m *server.MCPServer) {
		s = own
		m.AddTool(mcp.NewTool("greet"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := own.AskOnCall(ctx, "sampling/createMessage", map[string]any{"x": 1, "_meta": map[string]any{"own": "yes"}})
			return mcp.NewToolResultText(string(result)), err
		})
	}
	virtual(t, mcpserver.Config{Extend: extend}, func(t *testing.T, b *bed) {
		if s != b.server {
			t.Error("Extend was given another server than New returned")
		}
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(1, "greet", `{}`))
		q := call.next()
		var m struct {
			Params struct {
				X    int
				Meta map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(q.data), &m); err != nil || m.Params.X != 1 || m.Params.Meta["own"] != "yes" || q.stamp(t).Session != session {
			t.Errorf("question: %s, want the tool's own params, and a stamp", q.data)
		}
		b.reply(session, q.asked(t).ID, `{"y":2}`)
		if text, _ := result(t, call.next()); text != `{"y":2}` {
			t.Errorf("result: %s, want what the client answered", text)
		}
		if _, err := b.server.AskOnCall(t.Context(), "ping", nil); err == nil {
			t.Error("AskOnCall() outside a tool = nil, want an error")
		}
	})
}
