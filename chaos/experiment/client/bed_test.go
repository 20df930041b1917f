package client_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
	"github.com/revenant-mcp/revenant/middleware"
)

// bed is a client, a load balancer and a server, in memory and in virtual time.
type bed struct {
	t        *testing.T
	began    time.Time
	server   *mcpserver.Server
	balancer *lb.LoadBalancer
	log      *client.Log
	client   *client.Client
	// transport is the client's, below the log and the middleware.
	transport http.RoundTripper
}

// setup says what is in a bed. The rest of client is the bed's.
type setup struct {
	server   mcpserver.Config
	balancer lb.Config
	client   client.Config
	guarded  bool
	terminal middleware.Terminal
}

// virtual runs f in a bubble, with a client that is not connected yet.
func virtual(t *testing.T, of setup, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		back, front := memnettest.New(), memnettest.New()
		of.server.Listener = back
		server, err := mcpserver.New(of.server)
		if err != nil {
			t.Fatal(err)
		}
		background(t, server.Run)
		of.balancer.Listener, of.balancer.Upstream, of.balancer.Dial = front, "127.0.0.1:1", back.DialContext
		balancer, err := lb.New(of.balancer)
		if err != nil {
			t.Fatal(err)
		}
		background(t, balancer.Run)

		b := &bed{t: t, began: time.Now(), server: server, balancer: balancer, log: client.NewLog()}
		base := &http.Transport{DialContext: front.DialContext, MaxIdleConnsPerHost: 100}
		t.Cleanup(base.CloseIdleConnections)
		b.transport = base
		of.client.Transport = b.log.Wire(base)
		if of.guarded {
			guard, err := middleware.New(middleware.Config{Base: of.client.Transport, Observe: b.log.Observe, Terminal: of.terminal})
			if err != nil {
				t.Fatal(err)
			}
			of.client.Transport = guard
		}
		of.client.Log, of.client.Endpoint = b.log, "http://127.0.0.1:1/mcp"
		b.client, err = client.New(of.client)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.client.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
		})
		f(t, b)
	})
}

// background runs what ends with its context until the test's end.
func background(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

// connect connects the client and returns its session's id.
func (b *bed) connect() string {
	b.t.Helper()
	if err := b.client.Connect(b.t.Context()); err != nil {
		b.t.Fatalf("Connect() = %v, want nil", err)
	}
	synctest.Wait()
	return b.client.SessionID()
}

// until lets time go by to a time since the bed was made.
func (b *bed) until(at time.Duration) {
	b.t.Helper()
	time.Sleep(at - time.Since(b.began))
	synctest.Wait()
}

// emit sends messages on the standalone stream.
func (b *bed) emit(session string, n int) {
	b.t.Helper()
	defer synctest.Wait()
	for range n {
		if _, err := b.server.Emit(session, "event"); err != nil {
			b.t.Fatalf("Emit() = %v, want nil", err)
		}
	}
}

// call calls a tool and waits for what becomes of it.
func (b *bed) call(tool string, args map[string]any) client.CallResult {
	return <-b.client.Call(tool, args)
}

// of lists the records of some kinds.
func (b *bed) of(kinds ...client.RecordKind) []client.Record {
	synctest.Wait()
	return slices.DeleteFunc(b.log.Records(), func(r client.Record) bool { return !slices.Contains(kinds, r.Kind) })
}

// asked lists the requests at a layer with an HTTP method, and a method of
// JSON-RPC unless that is "".
func (b *bed) asked(layer client.Layer, method, rpc string) []client.Record {
	return slices.DeleteFunc(b.of(client.Asked), func(r client.Record) bool {
		return r.Layer != layer || r.HTTPMethod != method || rpc != "" && r.Method != rpc
	})
}

// each runs f for every kind of client.
func each(t *testing.T, f func(t *testing.T, kind client.Kind)) {
	for _, kind := range client.Kinds() {
		t.Run(string(kind), func(t *testing.T) { f(t, kind) })
	}
}
