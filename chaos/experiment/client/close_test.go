package client_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// A living session is deleted, a call that is open ends as hanging, and nothing
// is left: the bubble waits for all goroutines of its own.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{client: client.Config{Kind: kind, Reinitialize: true}}, func(t *testing.T, b *bed) {
			session := b.connect()
			done := b.client.Call("work", map[string]any{"events": 1, "interval_ms": 60_000})
			b.until(time.Second)
			if err := b.client.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
			if r := <-done; r.How != client.Hanging || !errors.Is(r.Err, client.ErrClosed) {
				t.Errorf("the open call = %+v, want hanging", r)
			}
			if died, dead := b.server.Oracle().DiedAt(session); !dead || died.Sub(b.began) != time.Second {
				t.Errorf("DiedAt = %v, %v, want it deleted", died, dead)
			}
			if r := b.of(client.SessionOver); len(r) != 0 {
				t.Errorf("reports: %+v, want none: the application leaves", r)
			}
			if r := b.call("echo", nil); r.How != client.SessionError || !errors.Is(r.Err, client.ErrClosed) {
				t.Errorf("call after Close = %+v, want ErrClosed", r)
			}
			if err := b.client.Close(); err != nil {
				t.Errorf("Close() again = %v, want nil", err)
			}
			if err := b.client.Disconnect(false); !errors.Is(err, client.ErrNoSession) || len(b.of(client.Left)) != 0 {
				t.Errorf("Disconnect after Close = %v, want ErrNoSession", err)
			}
			if n := len(b.of(client.Closed)); n != 1 {
				t.Errorf("closed %d times in the log, want once", n)
			}
			if err := b.client.Connect(t.Context()); err == nil || len(b.of(client.ConnectFailed)) != 0 {
				t.Errorf("Connect after Close = %v, and records %+v, want an error, and nothing tried", err, b.of(client.ConnectFailed))
			}
		})
	})
}

// A server that does not answer the DELETE holds nobody up for longer than was
// said.
func TestCloseIsBounded(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind, CloseTimeout: 3 * time.Second}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnDELETE, Hang: true}}
		virtual(t, of, func(t *testing.T, b *bed) {
			b.connect()
			before := time.Now()
			if err := b.client.Close(); err != nil || time.Since(before) != 3*time.Second {
				t.Errorf("Close() = %v after %v, want nil after 3s", err, time.Since(before))
			}
			if r := b.of(client.SessionOver); len(r) != 0 {
				t.Errorf("reports: %+v, want none", r)
			}
		})
	})
}

// Nor does a server that does not answer initialize.
func TestCloseWhileConnecting(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{client: client.Config{Kind: kind}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnPOST, RPC: "initialize", Hang: true}}
		virtual(t, of, func(t *testing.T, b *bed) {
			failed := make(chan error, 1)
			go func() { failed <- b.client.Connect(t.Context()) }()
			synctest.Wait()
			done := b.client.Call("echo", nil)
			synctest.Wait()
			if err := b.client.Close(); err != nil || time.Since(b.began) != 0 {
				t.Errorf("Close() = %v after %v, want nil at once", err, time.Since(b.began))
			}
			if err := <-failed; err == nil {
				t.Error("Connect = nil, want an error")
			}
			if r := <-done; r.How != client.Hanging {
				t.Errorf("the call that waits for a session = %+v, want it hanging", r)
			}
			tried := len(b.of(client.ConnectFailed))
			if err := b.client.Connect(t.Context()); err == nil || len(b.of(client.ConnectFailed)) != tried {
				t.Errorf("Connect after Close = %v, want an error, and nothing tried", err)
			}
		})
	})
}

// deaf is a transport that does not hear that its request is cancelled.
type deaf struct {
	http.RoundTripper
	free chan struct{}
}

func (d deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete {
		<-d.free
	}
	return d.RoundTripper.RoundTrip(req)
}

// What cannot be ended is said.
func TestCloseSaysWhatStillRuns(t *testing.T) {
	virtual(t, setup{client: client.Config{Kind: client.Naive}}, func(t *testing.T, b *bed) {
		free := make(chan struct{})
		log := client.NewLog()
		c, err := client.New(client.Config{
			Kind: client.Naive, Endpoint: "http://127.0.0.1:1/mcp", Log: log, Transport: deaf{b.transport, free}, CloseTimeout: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := c.Close(); !errors.Is(err, client.ErrStillRunning) || time.Since(before) != 2*time.Second {
			t.Errorf("Close() = %v after %v, want ErrStillRunning after 2s", err, time.Since(before))
		}
		close(free)
		synctest.Wait()
	})
}
