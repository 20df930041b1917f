package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

func TestConfigIsCheckedAtOnce(t *testing.T) {
	_, err := client.New(client.Config{
		Kind: "curl", Endpoint: "/mcp", Retry: -1, CloseTimeout: -1,
		Person: client.Person{Replies: []client.Reply{{After: -1, Action: "shrug"}}},
	})
	for _, want := range []string{
		`Kind is "curl": want one of ["gosdk" "mcpgo" "naive"]`, `Endpoint is "/mcp": want an absolute URL`, "Transport is <nil>", "Log is <nil>",
		"Retry is -1ns", "CloseTimeout is -1ns", "Person.Replies[0].After is -1ns", `Person.Replies[0].Action is "shrug"`,
	} {
		if err == nil || !strings.Contains(err.Error(), "client: "+want) {
			t.Errorf("New: %v, want it to say %q", err, want)
		}
	}
}

// All are pinned to a version that has sessions, and ask for no other.
func TestConnect(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind}}, func(t *testing.T, b *bed) {
			session := b.connect()
			h := b.server.Oracle().History()
			if len(h.Sessions) != 1 || h.Sessions[0].ID != session || session == "" {
				t.Errorf("session %q, and the oracle has %+v, want it alone", session, h.Sessions)
			}
			var sent []string
			for _, q := range h.Requests {
				sent = append(sent, strings.TrimSpace(q.Method+" "+q.RPC))
			}
			slices.Sort(sent)
			if want := []string{"GET", "POST initialize", "POST notifications/initialized"}; !slices.Equal(sent, want) {
				t.Errorf("the server got %q, want %q", sent, want)
			}
			if r := b.of(client.Connected); len(r) != 1 || r[0].SessionID != session {
				t.Errorf("connected: %+v, want %s", r, session)
			}
			if err := b.client.Connect(t.Context()); err == nil {
				t.Error("Connect again = nil, want an error")
			}
		})
	})
}

func TestCallsOnly(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind, CallsOnly: true}}, func(t *testing.T, b *bed) {
			b.connect()
			if r := b.call("echo", map[string]any{"text": "x"}); r.How != client.Result || r.Text != "x" {
				t.Errorf("call = %+v, want x", r)
			}
			if gets := b.asked(client.Edge, http.MethodGet, ""); len(gets) != 0 {
				t.Errorf("GETs: %+v, want none", gets)
			}
		})
	})
}

func TestConnectFails(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnPOST, RPC: "initialize", To: 1, Status: 503}}
		virtual(t, of, func(t *testing.T, b *bed) {
			err := b.client.Connect(t.Context())
			if r := b.of(client.ConnectFailed); err == nil || len(r) != 1 || r[0].Err == nil {
				t.Errorf("Connect = %v, and records %+v, want an error, and a record of it", err, r)
			}
			if r := b.call("echo", nil); r.How != client.SessionError || !errors.Is(r.Err, client.ErrNoSession) {
				t.Errorf("call without a session = %+v, want ErrNoSession", r)
			}
			b.connect()
		})
	})
}

// How calls end, in the words that are the same for all clients.
func TestOutcomes(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind}, server: mcpserver.Config{Retry: time.Second}}
		virtual(t, of, func(t *testing.T, b *bed) {
			session := b.connect()
			check := func(name string, r client.CallResult, want client.CallResult) {
				t.Helper()
				if r.How != want.How || r.Code != want.Code || (r.Err == nil) != (want.How == client.Result || want.How == client.ToolError) ||
					!strings.Contains(r.Text, want.Text) || r.SessionID != session {
					t.Errorf("%s = %+v, want %+v", name, r, want)
				}
				if r.How == client.Result && r.Stamp.Session != session {
					t.Errorf("%s has the stamp %+v, want one of the session", name, r.Stamp)
				}
			}
			check("echo", b.call("echo", map[string]any{"text": "hello"}), client.CallResult{How: client.Result, Text: "hello"})
			check("echo without its text", b.call("echo", nil), client.CallResult{How: client.ToolError, Text: "text"})
			check("a tool that is none", b.call("nonsense", nil), client.CallResult{How: client.RPCError, Code: -32602})
			check("emit", b.call("emit", map[string]any{"count": 3}), client.CallResult{How: client.Result, Text: "emit: 3 sent"})
			if applied := b.of(client.Applied); len(applied) != 3 || applied[2].Stamp.Session != session || applied[2].Method != "notifications/message" {
				t.Errorf("applied: %+v, want 3 messages with stamps", applied)
			}
			remove, err := b.server.Inject(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "tools/call", Status: 429})
			if err != nil {
				t.Fatal(err)
			}
			check("echo, too often", b.call("echo", map[string]any{"text": "x"}), client.CallResult{How: client.TransportError})
			remove()
			b.server.Reap(session)
			check("echo of a dead session", b.call("echo", map[string]any{"text": "x"}), client.CallResult{How: client.SessionError})

			var how []client.Outcome
			begun, ended := b.of(client.CallBegun), b.of(client.CallEnded)
			for i, r := range ended {
				how = append(how, r.How)
				if r.Ref != i+1 || begun[i].Ref != r.Ref || begun[i].Tool != r.Tool || r.At.Before(begun[i].At) || begun[i].SessionID != session {
					t.Errorf("call %d: %+v and %+v, want the same call", i+1, begun[i], r)
				}
			}
			want := []client.Outcome{client.Result, client.ToolError, client.RPCError, client.Result, client.TransportError, client.SessionError}
			if !slices.Equal(how, want) {
				t.Errorf("outcomes in the log: %v, want %v", how, want)
			}
		})
	})
}

// A call's stream that is cut is resumed with its cursor. mcp-go does so after a
// clean end alone.
func TestCallsAreResumed(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind, CallsOnly: true}, server: mcpserver.Config{Retry: 5 * time.Second}}
		virtual(t, of, func(t *testing.T, b *bed) {
			b.connect()
			done := b.client.Call("work", map[string]any{"events": 3, "interval_ms": 2000, "detached": true})
			b.until(3 * time.Second)
			b.balancer.Cut(lb.CleanEnd)
			r := <-done
			if r.How != client.Result || r.Text != "work: 3 sent" || time.Since(b.began) != 8*time.Second {
				t.Errorf("call = %+v after %v, want its result at the reconnect, after 8s", r, time.Since(b.began))
			}
			if n := len(b.of(client.Applied)); n != 3 {
				t.Errorf("%d events were applied, want 3", n)
			}
			if gets := b.asked(client.Edge, http.MethodGet, ""); len(gets) != 1 || gets[0].Cursor == "" {
				t.Errorf("GETs: %+v, want one with a cursor", gets)
			}
		})
	})
}

// The application is told once, and as it was found out.
func TestReports(t *testing.T) {
	cases := []struct {
		name    string
		kinds   []client.Kind
		guarded bool
		server  mcpserver.Config
		tell    func(b *bed, session string)
		by      client.By
	}{
		{"a call", client.Kinds(), false, mcpserver.Config{}, func(b *bed, session string) {
			b.server.Reap(session)
			b.call("echo", nil)
			b.call("echo", nil)
		}, client.ByCall},
		{"a reconnect that is answered 404", []client.Kind{client.GoSDK, client.Naive}, false, mcpserver.Config{GETChecksSession: true}, func(b *bed, session string) {
			b.server.Reap(session)
			b.balancer.Cut(lb.FIN)
			b.until(10 * time.Second)
		}, client.ByReconnect},
		// mcp-go tells nobody, and only a call does.
		{"a reconnect that is answered 404, and a call", []client.Kind{client.MCPGo}, false, mcpserver.Config{GETChecksSession: true}, func(b *bed, session string) {
			b.server.Reap(session)
			b.balancer.Cut(lb.FIN)
			b.until(10 * time.Second)
			b.call("echo", nil)
		}, client.ByCall},
		{"the middleware's probe", client.Kinds(), true, mcpserver.Config{}, func(b *bed, session string) {
			b.balancer.Cut(lb.FIN)
			b.emit(session, 1)
			b.server.Reap(session)
			b.until(10 * time.Second)
		}, client.ByReconnect},
		{"a call that the middleware sees", client.Kinds(), true, mcpserver.Config{}, func(b *bed, session string) {
			b.server.Reap(session)
			b.call("echo", nil)
		}, client.ByCall},
		{"the resumption of a call's stream", client.Kinds(), false, mcpserver.Config{GETChecksSession: true}, func(b *bed, session string) {
			done := b.client.Call("work", map[string]any{"events": 3, "interval_ms": 2000, "detached": true})
			b.until(3 * time.Second)
			b.server.Reap(session)
			b.balancer.Cut(lb.CleanEnd)
			<-done
		}, client.ByReconnect},
	}
	for _, c := range cases {
		for _, kind := range c.kinds {
			t.Run(c.name+"/"+string(kind), func(t *testing.T) {
				c.server.Retry = time.Second
				of := setup{server: c.server, guarded: c.guarded, client: client.Config{Kind: kind, CallsOnly: strings.Contains(c.name, "stream")}}
				virtual(t, of, func(t *testing.T, b *bed) {
					session := b.connect()
					b.emitOpen(session, of.client.CallsOnly)
					c.tell(b, session)
					r := b.of(client.SessionOver)
					if len(r) != 1 || r[0].SessionID != session || r[0].By != c.by || !r[0].Dead || r[0].Err == nil {
						t.Errorf("reports: %+v, want one of a dead session, by %s", r, c.by)
					}
					if n := len(b.of(client.Connected)); n != 1 {
						t.Errorf("%d sessions were begun, want 1: the client is not to initialize again", n)
					}
				})
			})
		}
	}
}

// emitOpen brings an event, so that there is a cursor, unless there is no stream.
func (b *bed) emitOpen(session string, callsOnly bool) {
	if !callsOnly {
		b.emit(session, 1)
	}
}

// Where what is refused is the answer to a question, no call tells.
func TestReportOfARefusedAnswer(t *testing.T) {
	cases := []struct {
		kind    client.Kind
		guarded bool
	}{{client.GoSDK, false}, {client.GoSDK, true}, {client.MCPGo, true}}
	for _, c := range cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			of := setup{guarded: c.guarded, client: client.Config{Kind: c.kind, Person: replies(client.Reply{After: 5 * time.Second})}}
			virtual(t, of, func(t *testing.T, b *bed) {
				session := b.connect()
				go func() { _, _ = b.server.Ask(t.Context(), session, "Really?") }()
				b.until(time.Second)
				b.server.Reap(session)
				b.until(10 * time.Second)
				if r := b.of(client.SessionOver); len(r) != 1 || r[0].By != client.ByCall || !r[0].Dead {
					t.Errorf("reports: %+v, want one of a dead session, by a POST", r)
				}
			})
		})
	}
}

// A middleware that returns errors is understood, too, once the client stops to
// retry.
func TestTerminalErrorIsADeath(t *testing.T) {
	of := setup{guarded: true, terminal: middleware.TerminalError, client: client.Config{Kind: client.GoSDK}, server: mcpserver.Config{Retry: time.Second}}
	virtual(t, of, func(t *testing.T, b *bed) {
		session := b.connect()
		b.emit(session, 1)
		b.balancer.Cut(lb.FIN)
		b.server.Reap(session)
		b.until(5 * time.Minute)
		if r := b.of(client.SessionOver); len(r) != 1 || !r[0].Dead || r[0].By != client.ByReconnect {
			t.Errorf("reports: %+v, want one of a dead session", r)
		}
	})
}

// What its person was asked in a session that the application leaves is taken
// away. Of the calls that are under way there, mcp-go ends all. go-sdk's close
// waits for them, and the naive client does not know of them.
func TestReinitializeLeavesTheOldSession(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind, Reinitialize: true, Person: replies(client.Reply{Action: client.Never})}}
		virtual(t, of, func(t *testing.T, b *bed) {
			session := b.connect()
			go func() { _, _ = b.server.Ask(t.Context(), session, "Really?") }()
			work := b.client.Call("work", map[string]any{"events": 1, "interval_ms": 60_000, "detached": true})
			b.until(time.Second)
			b.server.Reap(session)
			b.call("echo", map[string]any{"text": "x"})
			b.until(2 * time.Second)
			if w := b.of(client.Withdrawn); len(w) != 1 || w[0].SessionID != session {
				t.Errorf("withdrawn: %+v, want the prompt of the old session", w)
			}
			select {
			case r := <-work:
				if r.How != client.SessionError || kind != client.MCPGo {
					t.Errorf("the call of the old session = %+v, want that its session is over for mcp-go, and it under way for others", r)
				}
			default:
				if kind == client.MCPGo {
					t.Error("the call of the old session is still under way")
				}
			}
			if r := b.call("echo", map[string]any{"text": "x"}); r.How != client.Result {
				t.Errorf("call of the new session = %+v, want its result", r)
			}
		})
	})
}

// Some servers say 410.
func TestGoneIsDead(t *testing.T) {
	for _, kind := range []client.Kind{client.GoSDK, client.Naive} {
		for _, reconnect := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, reconnect), func(t *testing.T) {
				of := setup{client: client.Config{Kind: kind}}
				of.server = mcpserver.Config{UnknownSession: mcpserver.UnknownGone, GETChecksSession: true, Retry: time.Second}
				virtual(t, of, func(t *testing.T, b *bed) {
					session := b.connect()
					b.emit(session, 1)
					b.server.Reap(session)
					if reconnect {
						b.balancer.Cut(lb.FIN)
						b.until(5 * time.Second)
					} else {
						b.call("echo", nil)
					}
					if r := b.of(client.SessionOver); len(r) != 1 || !r[0].Dead || (r[0].By == client.ByReconnect) != reconnect {
						t.Errorf("reports: %+v, want one of a dead session", r)
					}
				})
			})
		}
	}
}

// A client that has given up was not told that its session is dead.
func TestGivenUp(t *testing.T) {
	cases := []struct {
		name   string
		server mcpserver.Config
		give   func(b *bed, session string)
		by     client.By
	}{
		{"at a reconnect", mcpserver.Config{Rules: []mcpserver.Rule{{On: mcpserver.OnResume, Status: 400}}}, func(b *bed, _ string) {
			b.balancer.Cut(lb.FIN)
			b.until(5 * time.Second)
		}, client.ByReconnect},
		{"at a call", mcpserver.Config{UnknownSession: mcpserver.UnknownBadRequest}, func(b *bed, session string) {
			b.server.Reap(session)
			b.call("echo", nil)
		}, client.ByCall},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.server.Retry = time.Second
			virtual(t, setup{client: client.Config{Kind: client.GoSDK}, server: c.server}, func(t *testing.T, b *bed) {
				session := b.connect()
				b.emit(session, 1)
				c.give(b, session)
				if r := b.of(client.SessionOver); len(r) != 1 || r[0].Dead || r[0].By != c.by {
					t.Errorf("reports: %+v, want one, not of a dead session, by %s", r, c.by)
				}
			})
		})
	}
}

// An application that is told begins another session, once, and goes on with it.
func TestReinitialize(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprint("guarded ", guarded), func(t *testing.T) {
				of := setup{guarded: guarded, client: client.Config{Kind: kind, Reinitialize: true}, server: mcpserver.Config{Retry: time.Second}}
				virtual(t, of, func(t *testing.T, b *bed) {
					first := b.connect()
					b.server.Reap(first)
					b.call("echo", map[string]any{"text": "x"})
					if err := b.client.WaitIdle(t.Context()); err != nil {
						t.Fatal(err)
					}
					second := b.client.SessionID()
					if r := b.call("echo", map[string]any{"text": "again"}); r.Text != "again" || r.SessionID != second || second == first {
						t.Errorf("call = %+v in session %s after %s, want it answered in another", r, second, first)
					}
					synctest.Wait()
					b.emit(second, 1) // Its stream is there.
					if got := b.of(client.Applied); len(got) != 1 || got[0].SessionID != second {
						t.Errorf("applied: %+v, want one event of the new session", got)
					}
					if got := b.of(client.Connected, client.SessionOver); len(got) != 3 {
						t.Errorf("records: %+v, want two sessions and one report", got)
					}
					b.until(10 * time.Second)
					for _, r := range b.asked(client.Edge, http.MethodDelete, "") {
						t.Errorf("DELETE of %s: the old session is known to be dead", r.SessionID)
					}
				})
			})
		}
	})
}

// One that fails is not tried again.
func TestReinitializeFails(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind, Reinitialize: true}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnPOST, RPC: "initialize", From: 2, Status: 500}}
		virtual(t, of, func(t *testing.T, b *bed) {
			b.server.Reap(b.connect())
			b.call("echo", nil)
			b.until(time.Minute)
			if r := b.call("echo", nil); !errors.Is(r.Err, client.ErrNoSession) {
				t.Errorf("call = %+v, want ErrNoSession", r)
			}
			if n := len(b.asked(client.Edge, http.MethodPost, "initialize")); n != 2 || len(b.of(client.ConnectFailed)) != 1 {
				t.Errorf("%d initialize, %+v, want 2 and one that failed", n, b.of(client.ConnectFailed))
			}
		})
	})
}

func TestCookies(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		for _, keeps := range []bool{false, true} {
			virtual(t, setup{client: client.Config{Kind: kind, Cookies: keeps}, server: mcpserver.Config{Cookie: "way"}}, func(t *testing.T, b *bed) {
				b.connect()
				b.call("echo", nil)
				requests := b.server.Oracle().History().Requests
				if got := requests[len(requests)-1].Cookie; (got == "0") != keeps {
					t.Errorf("cookies %v: the server got %q", keeps, got)
				}
			})
		}
	})
}

func TestWaitIdle(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind}}, func(t *testing.T, b *bed) {
			b.connect()
			b.client.Call("work", map[string]any{"events": 1, "interval_ms": 5000})
			b.client.Call("work", map[string]any{"events": 1, "interval_ms": 9000})
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			if err := b.client.WaitIdle(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WaitIdle for 6s = %v, want its deadline", err)
			}
			if err := b.client.WaitIdle(t.Context()); err != nil || time.Since(b.began) != 9*time.Second {
				t.Errorf("WaitIdle = %v after %v, want nil after 9s", err, time.Since(b.began))
			}
			synctest.Wait()
		})
	})
}
