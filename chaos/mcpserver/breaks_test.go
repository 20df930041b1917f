package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// breakages are the ways in which a stream that carries a question breaks.
var breakages = map[string]func(*bed, string, *stream, frame){
	"connection cut": func(_ *bed, _ string, call *stream, _ frame) {
		call.cut()
	},
	"resumed while its connection is open": func(b *bed, session string, _ *stream, q frame) {
		b.open("GET", session, q.id, "").settled()
	},
}

func TestBreakCancelsInSilence(t *testing.T) {
	for how, breaks := range breakages {
		cfg := mcpserver.Config{OnBreak: mcpserver.BreakCancels, Replay: mcpserver.ReplayFull}
		virtual(t, cfg, func(t *testing.T, b *bed) {
			session := b.initialize()
			call, q := b.confirm(session, 7, `{"message":"?"}`)
			breaks(b, session, call, q)
			synctest.Wait()
			if p := b.server.Oracle().Pending(session); len(p) != 0 {
				t.Errorf("%s: pending %+v, want nothing", how, p)
			}
			if status := b.reply(session, q.asked(t).ID, yes); status != 400 {
				t.Errorf("%s: answer: %d, want 400", how, status)
			}
			elapse(time.Hour)
			resumed := b.open("GET", session, q.id, "")
			if got, ended := resumed.settled(); len(got) != 1 || got[0] != q || ended {
				t.Errorf("%s: replay %+v, ended %v, want the question alone on an open stream", how, got, ended)
			}
			asks := b.server.Oracle().History().Asks
			if len(asks) != 1 || asks[0].Why != mcpserver.WhyBroken || asks[0].Cancelled.IsZero() {
				t.Errorf("%s: asks %+v, want that the break ended it", how, asks)
			}
			b.do("POST", session, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			if got, ended := resumed.settled(); len(got) != 1 || got[0].message(t).Error == nil || !ended {
				t.Errorf("%s: call that the client cancels: %+v, ended %v, want an error and the end", how, got, ended)
			}
		})
	}
}

func TestBreakCancelsAndNotesIt(t *testing.T) {
	for how, breaks := range breakages {
		cfg := mcpserver.Config{OnBreak: mcpserver.BreakCancelsNoted, Replay: mcpserver.ReplayFull}
		virtual(t, cfg, func(t *testing.T, b *bed) {
			session := b.initialize()
			call, q := b.confirm(session, 7, `{"message":"?","times":2,"work_events":1}`)
			breaks(b, session, call, q)
			synctest.Wait()
			if status := b.reply(session, q.asked(t).ID, yes); status != 400 {
				t.Errorf("%s: answer: %d, want 400", how, status)
			}
			got, ended := b.open("GET", session, q.id, "").settled()
			if len(got) != 3 || got[0] != q || !ended {
				t.Fatalf("%s: replay %+v, ended %v, want the question, its end, the result and the end", how, got, ended)
			}
			if note := got[1].asked(t); note.Method != "notifications/cancelled" || note.Params.RequestID != q.asked(t).ID || got[1].stamp(t).Session != session {
				t.Errorf("%s: second in the replay: %s, want that the request is cancelled", how, got[1].data)
			}
			if text, isError := result(t, got[2]); !isError || text != "confirm: mcpserver: the request's stream broke" || *got[2].message(t).ID != 7 || got[2].stamp(t).Session != session {
				t.Errorf("%s: third in the replay: %s, want the call's stamped error", how, got[2].data)
			}
		})
	}
}

func TestBreakKeepsByDefault(t *testing.T) {
	for how, breaks := range breakages {
		virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
			session := b.initialize()
			call, q := b.confirm(session, 7, `{"message":"?"}`)
			breaks(b, session, call, q)
			elapse(time.Hour)
			if p := b.server.Oracle().Pending(session); len(p) != 1 {
				t.Errorf("%s: pending %+v, want one", how, p)
			}
			if status := b.reply(session, q.asked(t).ID, yes); status != 202 {
				t.Errorf("%s: answer: %d, want 202", how, status)
			}
		})
	}
}

// The connection that a call came with counts no more once its stream was
// resumed; the one that it was resumed with does.
func TestBreakIsThatOfTheConnectionInUse(t *testing.T) {
	virtual(t, mcpserver.Config{OnBreak: mcpserver.BreakCancels}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call, q := b.confirm(session, 7, `{"message":"?","times":3}`)
		b.reply(session, q.asked(t).ID, yes)
		q = call.next()
		cursor := q.id
		b.reply(session, q.asked(t).ID, yes)
		q = call.next()

		// A bystander of the same session.
		other, q2 := b.confirm(session, 8, `{"message":"?"}`)
		resumed := b.open("GET", session, cursor, "")
		if got, _ := resumed.settled(); len(got) != 1 {
			t.Fatalf("resumed: %+v, want the third question", got)
		}
		if p := b.server.Oracle().Pending(session); len(p) != 1 || p[0].ID != q2.asked(t).ID {
			t.Errorf("pending after the resume: %+v, want the other call's alone", p)
		}
		other.cut()
		synctest.Wait()
		if p := b.server.Oracle().Pending(session); len(p) != 0 {
			t.Errorf("pending after both broke: %+v, want nothing", p)
		}
	})
	virtual(t, mcpserver.Config{OnBreak: mcpserver.BreakCancels}, func(t *testing.T, b *bed) {
		session := b.initialize()
		old := b.open("POST", session, "", toolCall(7, "work", `{"events":1,"interval_ms":0}`))
		alone := b.listen(session)
		old.settled()
		done := b.ask(session, "?")
		q := alone.next()
		old.cut()
		synctest.Wait()
		if p := b.server.Oracle().Pending(session); len(p) != 1 {
			t.Errorf("pending after another stream's end: %+v, want one", p)
		}
		alone.cut()
		if a := <-done; !errors.Is(a.err, mcpserver.ErrStreamBroken) {
			t.Errorf("Ask() = %v, want ErrStreamBroken", a.err)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 400 {
			t.Errorf("answer: %d, want 400", status)
		}
		if a := <-b.ask(session, "?"); !errors.Is(a.err, mcpserver.ErrStreamBroken) {
			t.Errorf("Ask() on a broken stream = %v, want ErrStreamBroken", a.err)
		}
	})
}

func TestCallsConnectionCountsNoMoreOnceItsStreamWasResumed(t *testing.T) {
	cfg := mcpserver.Config{OnBreak: mcpserver.BreakCancels}
	cfg.Extend = func(own *mcpserver.Server, m *server.MCPServer) {
		m.AddTool(mcp.NewTool("later"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := m.SendNotificationToClient(ctx, "notifications/message", map[string]any{"data": "soon"}); err != nil {
				return nil, err
			}
			elapse(time.Minute)
			_, err := own.AskOnCall(ctx, "ping", nil)
			return nil, err
		})
	}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(7, "later", `{}`))
		resumed := b.open("GET", session, call.next().id, "")
		if m := resumed.next().asked(t); m.Method != "ping" {
			t.Fatalf("on the resumed stream: %+v, want the ping", m)
		}
		call.cut()
		synctest.Wait()
		if p := b.server.Oracle().Pending(session); len(p) != 1 {
			t.Errorf("pending after the call's own connection ended: %+v, want one", p)
		}
		resumed.cut()
		synctest.Wait()
		if p := b.server.Oracle().Pending(session); len(p) != 0 {
			t.Errorf("pending after the resumed stream broke: %+v, want nothing", p)
		}

		// One that is asked while nobody carries the stream.
		call = b.open("POST", session, "", toolCall(8, "later", `{}`))
		call.next()
		call.cut()
		elapse(time.Hour)
		if p := b.server.Oracle().Pending(session); len(p) != 0 {
			t.Errorf("pending on a stream that had broken before: %+v, want nothing", p)
		}
	})
}

func TestBreakOfTheStandaloneStreamIsNoted(t *testing.T) {
	virtual(t, mcpserver.Config{OnBreak: mcpserver.BreakCancelsNoted}, func(t *testing.T, b *bed) {
		session := b.initialize()
		alone := b.listen(session)
		done := b.ask(session, "?")
		q := alone.next()
		alone.cut()
		if a := <-done; !errors.Is(a.err, mcpserver.ErrStreamBroken) {
			t.Errorf("Ask() = %v, want ErrStreamBroken", a.err)
		}
		got, ended := b.open("GET", session, q.id, "").settled()
		if len(got) != 1 || got[0].asked(t).Method != "notifications/cancelled" || got[0].asked(t).Params.RequestID != q.asked(t).ID || ended {
			t.Errorf("replay: %+v, ended %v, want that the request is cancelled, on an open stream", got, ended)
		}
	})
}

// What the end of a session does to its questions.

func TestDeathOfTheSessionEndsWhatIsPendingInSilence(t *testing.T) {
	cfg := mcpserver.Config{SessionTTL: time.Minute, LogRetention: time.Hour, Replay: mcpserver.ReplayInclusive}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		call, q := b.confirm(session, 7, `{"message":"?"}`)
		if p := b.server.Oracle().Pending(session); len(p) != 1 {
			t.Errorf("pending: %+v, want one", p)
		}
		elapse(time.Minute)
		if p := b.server.Oracle().Pending(session); len(p) != 0 {
			t.Errorf("pending after the death: %+v, want nothing", p)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 404 {
			t.Errorf("answer after the death: %d, want 404", status)
		}
		if got, ended := call.settled(); len(got) != 0 || ended {
			t.Errorf("call after the death: %+v, ended %v, want silence", got, ended)
		}
		if got, ended := b.open("GET", session, q.id, "").settled(); len(got) != 1 || got[0] != q || ended {
			t.Errorf("replay after the death: %+v, ended %v, want the question on an open stream", got, ended)
		}
		if asks := b.server.Oracle().History().Asks; len(asks) != 1 || asks[0].Why != mcpserver.WhySession {
			t.Errorf("asks: %+v, want that the session's death ended it", asks)
		}
		// When the log has forgotten it, nobody can reach the call any more.
		elapse(2 * time.Hour)
		synctest.Wait()
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions, want 0", n)
		}
		for _, r := range b.server.Oracle().History().Requests {
			if r.RPC == "tools/call" && r.Ended.IsZero() {
				t.Errorf("request %+v has not ended, want that it is let go of", r)
			}
		}
	})
}

func TestDeadSessionsQuestionIsSentButNeverPending(t *testing.T) {
	cfg := mcpserver.Config{Extend: func(own *mcpserver.Server, m *server.MCPServer) {
		m.AddTool(mcp.NewTool("later"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			elapse(time.Minute)
			_, err := own.AskOnCall(ctx, "ping", nil)
			return nil, err
		})
	}}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		time.AfterFunc(time.Second, func() { b.server.Reap(session) })
		call := b.open("POST", session, "", toolCall(7, "later", `{}`))
		if got, ended := call.settled(); len(got) != 1 || got[0].asked(t).Method != "ping" || ended {
			t.Errorf("call: %+v, ended %v, want the ping on an open stream", got, ended)
		}
		asks := b.server.Oracle().History().Asks
		if len(asks) != 1 || asks[0].Why != mcpserver.WhySession {
			t.Errorf("asks: %+v, want one that its session's death ended", asks)
		}
	})
}

func TestDeleteEndsWhatIsPending(t *testing.T) {
	virtual(t, mcpserver.Config{OnBreak: mcpserver.BreakCancels}, func(t *testing.T, b *bed) {
		session := b.initialize()
		waiting, _ := b.confirm(session, 7, `{"message":"?"}`)
		lost, _ := b.confirm(session, 8, `{"message":"?"}`)
		lost.cut()
		synctest.Wait()
		b.do("DELETE", session, "", "")
		synctest.Wait()
		if _, ended := waiting.settled(); !ended {
			t.Error("call is open after DELETE, want its end")
		}
		for _, r := range b.server.Oracle().History().Requests {
			if r.Ended.IsZero() {
				t.Errorf("request %+v has not ended, want that DELETE ended it", r)
			}
		}
		asks := b.server.Oracle().History().Asks
		if len(asks) != 2 || asks[0].Why != mcpserver.WhySession || asks[1].Why != mcpserver.WhyBroken {
			t.Errorf("asks: %+v, want that one ended with the session, the other with its stream", asks)
		}
	})
}

// The same over real sockets, the waits on events only.
func TestBreaksOverLoopback(t *testing.T) {
	for _, test := range []struct {
		breaks mcpserver.OnBreak
		want   []string // methods on the resumed stream; "" is the result
	}{
		{mcpserver.BreakKeeps, []string{"elicitation/create", ""}},
		{mcpserver.BreakCancelsNoted, []string{"elicitation/create", "notifications/cancelled", ""}},
	} {
		cfg := mcpserver.Config{OnBreak: test.breaks, Replay: mcpserver.ReplayInclusive}
		b := newBed(t, cfg, &http.Transport{})
		session := b.initialize()
		call, q := b.confirm(session, 7, `{"message":"?"}`)
		call.cut()
		resumed := b.open("GET", session, q.id, "")
		got := []string{resumed.next().asked(t).Method}
		want := 400
		if test.breaks == mcpserver.BreakKeeps {
			want = 202
		} else {
			got = append(got, resumed.next().asked(t).Method)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != want {
			t.Errorf("%v: answer: %d, want %d", test.breaks, status, want)
		}
		got = append(got, resumed.next().asked(t).Method)
		if !slices.Equal(got, test.want) {
			t.Errorf("%v: on the resumed stream %q, want %q", test.breaks, got, test.want)
		}
		if err := b.stop(); err != nil {
			t.Errorf("%v: Run() = %v, want nil", test.breaks, err)
		}
	}
}
