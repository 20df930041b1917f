package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Who disconnects gives up what is under way, and says so or vanishes. Then there
// can be another session.
func TestDisconnect(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		for _, vanish := range []bool{false, true} {
			t.Run(fmt.Sprint("vanish ", vanish), func(t *testing.T) {
				of := setup{client: client.Config{Kind: kind, Reinitialize: true, Person: replies(client.Reply{Action: client.Never})}}
				virtual(t, of, func(t *testing.T, b *bed) {
					first := b.connect()
					go func() { _, _ = b.server.Ask(t.Context(), first, "Really?") }()
					work := b.client.Call("work", map[string]any{"events": 1, "interval_ms": 60_000, "detached": true})
					b.until(time.Second)
					if err := b.client.Disconnect(vanish); err != nil || time.Since(b.began) != time.Second {
						t.Errorf("Disconnect = %v after %v, want nil at once", err, time.Since(b.began)-time.Second)
					}
					if r := <-work; r.How != client.Hanging || r.SessionID != first {
						t.Errorf("the call under way = %+v, want that it was given up", r)
					}
					if _, dead := b.server.Oracle().DiedAt(first); dead == vanish {
						t.Errorf("the session died: %v, want %v", dead, !vanish)
					}
					if n := len(b.asked(client.Wire, http.MethodDelete, "")); (n > 0) == vanish {
						t.Errorf("%d DELETEs on the wire", n)
					}
					if l, over := b.of(client.Left), b.of(client.SessionOver); len(l) != 1 || l[0].SessionID != first || len(over) != 0 {
						t.Errorf("left: %+v, reports: %+v, want the one, and none", l, over)
					}
					if w := b.of(client.Withdrawn); len(w) != 1 {
						t.Errorf("withdrawn: %+v, want the prompt", w)
					}
					if err := b.client.Disconnect(vanish); !errors.Is(err, client.ErrNoSession) {
						t.Errorf("Disconnect again = %v, want ErrNoSession", err)
					}
					if r := b.call("echo", map[string]any{"text": "x"}); !errors.Is(r.Err, client.ErrNoSession) {
						t.Errorf("call without a session = %+v, want ErrNoSession", r)
					}
					before := len(b.of(client.Asked))
					b.until(time.Minute)
					if after := b.of(client.Asked); len(after) != before {
						t.Errorf("sent when nobody was connected: %+v", after[before:])
					}
					second := b.connect()
					if r := b.call("echo", map[string]any{"text": "x"}); r.How != client.Result || second == first {
						t.Errorf("call of the next session = %+v, want its result", r)
					}
				})
			})
		}
	})
}

// A DELETE that is not answered is cut off.
func TestDisconnectIsBounded(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind, CloseTimeout: 3 * time.Second}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnDELETE, To: 1, Hang: true}}
		virtual(t, of, func(t *testing.T, b *bed) {
			b.connect()
			if err := b.client.Disconnect(false); err != nil || time.Since(b.began) != 3*time.Second {
				t.Errorf("Disconnect = %v after %v, want nil after 3s", err, time.Since(b.began))
			}
			b.connect()
		})
	})
}

// An application that does nothing about a dead session may connect later.
func TestConnectInPlaceOfADeadSession(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind}}, func(t *testing.T, b *bed) {
			first := b.connect()
			b.server.Reap(first)
			b.call("echo", nil)
			b.until(time.Minute)
			if b.client.SessionID() != first {
				t.Errorf("the session is %s, want still %s", b.client.SessionID(), first)
			}
			second := b.connect()
			synctest.Wait()
			if r := b.call("echo", map[string]any{"text": "x"}); r.How != client.Result || second == first {
				t.Errorf("call of the next session = %+v, want its result", r)
			}
			b.emit(second, 1)
			if n := len(b.of(client.Applied)); n != 1 {
				t.Errorf("%d events, want 1: the old session's stream is closed", n)
			}
		})
	})
}

func TestCallWithin(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind}}, func(t *testing.T, b *bed) {
			b.connect()
			_, done := b.client.CallWithin(5*time.Second, "work", map[string]any{"events": 1, "interval_ms": 60_000})
			r := <-done
			if r.How != client.Hanging || !errors.Is(r.Err, client.ErrTimeout) || time.Since(b.began) != 5*time.Second {
				t.Errorf("call = %+v after %v, want it given up after 5s", r, time.Since(b.began))
			}
			_, done = b.client.CallWithin(5*time.Second, "work", map[string]any{"events": 1, "interval_ms": 1000})
			r = <-done
			if r.How != client.Result {
				t.Errorf("call = %+v, want its result", r)
			}
			if len(b.of(client.SessionOver)) != 0 {
				t.Error("the application was told that its session is over")
			}
		})
	})
}
