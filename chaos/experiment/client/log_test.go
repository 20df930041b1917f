package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Whoever writes, the records are numbered, and their times do not go back.
func TestLogIsInOrder(t *testing.T) {
	log := client.NewLog()
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 500 {
				log.Observe(middleware.Event{Kind: middleware.Held})
			}
		})
	}
	records, err := log.Until(t.Context(), func(all []client.Record) bool { return len(all) == 4000 })
	writers.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		if r.N != i+1 || i > 0 && r.At.Before(records[i-1].At) || r.Kind != client.Decided {
			t.Fatalf("record %d: %+v, want number %d, and not before the one before it", i, r, i+1)
		}
	}
	if rest := log.Since(3999); len(rest) != 1 || rest[0].N != 4000 {
		t.Errorf("Since(3999) = %+v, want the last one", rest)
	}
	if n := len(log.Since(5000)); n != 0 || len(log.Since(-1)) != 4000 {
		t.Errorf("Since(5000) has %d records, and Since(-1) %d, want 0 and all", n, len(log.Since(-1)))
	}
	records[0].N = 77
	if log.Records()[0].N != 1 || log.Dropped() != 0 {
		t.Error("the caller of Until has changed the log")
	}
}

// What is too much is counted, and not kept.
func TestLogIsBounded(t *testing.T) {
	log := client.NewSmallLog(3)
	for range 5 {
		log.Observe(middleware.Event{Kind: middleware.Held})
	}
	if n := len(log.Records()); n != 3 || log.Dropped() != 2 {
		t.Errorf("%d records, %d dropped, want 3 and 2", n, log.Dropped())
	}
}

func TestUntilGivesUp(t *testing.T) {
	why := errors.New("why not")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := client.NewLog().Until(ctx, func([]client.Record) bool { return false }); !errors.Is(err, why) {
		t.Errorf("Until = %v, want the cause of its context", err)
	}
}

// An exchange is seen above the middleware and below it. What that holds and
// sends by itself is below it alone.
func TestEdgeAndWire(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		of := setup{guarded: true, client: client.Config{Kind: kind}, server: mcpserver.Config{Retry: time.Second}}
		virtual(t, of, func(t *testing.T, b *bed) {
			session := b.connect()
			b.emit(session, 1)
			b.balancer.Cut(lb.FIN)
			b.emit(session, 2)
			b.until(3 * time.Second)
			edge, wire := b.asked(client.Edge, http.MethodGet, ""), b.asked(client.Wire, http.MethodGet, "")
			if len(edge) != 2 || len(wire) != 2 || len(b.asked(client.Wire, http.MethodPost, "ping")) != 1 || len(b.asked(client.Edge, http.MethodPost, "ping")) != 0 {
				t.Errorf("GETs at the edge %+v, on the wire %+v, want 2 each, and one ping, on the wire", edge, wire)
			}
			// mcp-go has no cursor, and the middleware puts it back.
			if asked := edge[1].Cursor != ""; asked == (kind == client.MCPGo) || wire[1].Cursor != "1" || wire[1].SessionID != session {
				t.Errorf("cursors %q at the edge and %q on the wire, want 1 on the wire", edge[1].Cursor, wire[1].Cursor)
			}
			var ids []string
			for _, r := range b.of(client.Delivered) {
				if r.Layer != client.Edge {
					t.Errorf("delivered: %+v, want it at the edge alone", r)
				}
				ids = append(ids, r.EventID)
			}
			if len(ids) != 3 || ids[0] != "1" || ids[2] != "3" {
				t.Errorf("events delivered: %q, want 1, 2, 3", ids)
			}
			kinds := map[middleware.Kind]int{}
			for _, r := range b.of(client.Decided) {
				kinds[r.Guard.Kind]++
			}
			if kinds[middleware.Released] != 1 || kinds[middleware.ProbeAnswered] != 1 {
				t.Errorf("decisions: %v, want one release after one probe", kinds)
			}
		})
	})
}

// Each exchange that has set out is over once, when its client is closed.
func TestExchangesEnd(t *testing.T) {
	each(t, func(t *testing.T, kind client.Kind) {
		virtual(t, setup{guarded: true, client: client.Config{Kind: kind}, server: mcpserver.Config{Retry: time.Second}}, func(t *testing.T, b *bed) {
			session := b.connect()
			b.emit(session, 1)
			b.balancer.Cut(lb.RST)
			b.until(3 * time.Second)
			b.call("emit", map[string]any{"count": 2})
			b.client.Call("work", map[string]any{"events": 1, "interval_ms": 60_000})
			b.until(4 * time.Second)
			if err := b.client.Close(); err != nil {
				t.Fatal(err)
			}
			asked, over := b.of(client.Asked), map[int]int{}
			for _, r := range b.of(client.Over) {
				over[r.Ref]++
			}
			for _, r := range asked {
				if over[r.Ref] != 1 {
					t.Errorf("exchange %d, %s %s %s: over %d times, want once", r.Ref, r.Layer, r.HTTPMethod, r.Method, over[r.Ref])
				}
			}
		})
	})
}
