package history_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// On real sockets, in real time, with clients of all kinds before one server: the
// assumptions hold, and a session that lives on a bad network loses nothing.
func TestOnLoopback(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := mcpserver.New(mcpserver.Config{Retry: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	background(t, server.Run)
	var mu sync.Mutex
	var balanced []lb.Event
	balancer, err := lb.New(lb.Config{Upstream: server.Addr().String(), Observe: func(e lb.Event) {
		mu.Lock()
		defer mu.Unlock()
		balanced = append(balanced, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, balancer.Run)

	zero := time.Now()
	logs := map[client.Kind]*client.Log{}
	var sessions []string
	for _, kind := range client.Kinds() {
		log := client.NewLog()
		logs[kind] = log
		base := &http.Transport{}
		t.Cleanup(base.CloseIdleConnections)
		guard, err := middleware.New(middleware.Config{Base: log.Wire(base), Observe: log.Observe})
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Config{Kind: kind, Endpoint: balancer.URL() + "/mcp", Transport: guard, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(ctx); err != nil {
			t.Fatalf("%s: Connect() = %v, want nil", kind, err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("%s: Close() = %v, want nil", kind, err)
			}
		})
		// The stream is there.
		if _, err := log.Until(ctx, func(all []client.Record) bool {
			asked := 0
			return slices.ContainsFunc(all, func(r client.Record) bool {
				if r.Kind == client.Asked && r.Layer == client.Edge && r.HTTPMethod == http.MethodGet {
					asked = r.Ref
				}
				return asked > 0 && r.Kind == client.Headed && r.Ref == asked
			})
		}); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c.SessionID())
	}

	emitted := 0
	emit := func(text string) {
		t.Helper()
		emitted++
		for _, session := range sessions {
			if _, err := server.Emit(session, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	applied := func() {
		t.Helper()
		for kind, log := range logs {
			if _, err := log.Until(ctx, func(all []client.Record) bool {
				n := 0
				for _, r := range all {
					if r.Kind == client.Applied {
						n++
					}
				}
				return n == emitted
			}); err != nil {
				t.Fatalf("%s: %v, want %d events", kind, err, emitted)
			}
		}
	}
	// Before its first event a client has no cursor that anybody could know.
	emit("the first")
	applied()
	for _, how := range []lb.Expiry{lb.RST, lb.FIN} {
		emit("before the cut, or lost in it")
		balancer.Cut(how)
		emit("after it")
		applied()
	}
	src := history.Source{Zero: zero, End: time.Now(), Oracle: server.Oracle().History()}
	for kind, log := range logs {
		src.Clients = append(src.Clients, history.ClientSource{Name: string(kind), Arm: "protected", Kind: kind, Records: log.Records(), Dropped: log.Dropped()})
	}
	mu.Lock()
	src.Balancers = []history.BalancerSource{{Name: "load balancer", Events: balanced}}
	mu.Unlock()
	h := history.New(src)
	checkMeasures(t, h, map[string]float64{
		"sessions_begun": 3, "events_applied": float64(3 * emitted), "events_lost": 0, "events_missed": 0, "events_duplicated": 0,
		"dead_session_events_applied": 0, "false_deaths": 0, "sessions_given_up": 0, "requests_to_dead_session": 0,
	})
	for _, kind := range client.Kinds() {
		if _, problems := history.Arm(h, "protected", kind); len(problems) != 0 {
			t.Errorf("%s: %v, want no problem", kind, problems)
		}
	}
}
