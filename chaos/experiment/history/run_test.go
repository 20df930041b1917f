package history_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
	"github.com/revenant-mcp/revenant/middleware"
)

// arms are the two groups of every run.
var arms = []string{"control", "protected"}

// run is one client behind a load balancer, in memory and in virtual time.
type run struct {
	t        *testing.T
	zero     time.Time
	server   *mcpserver.Server
	balancer *lb.LoadBalancer
	client   *client.Client
	log      *client.Log
	arm      string
	kind     client.Kind

	mu       sync.Mutex
	balanced []lb.Event
}

// virtual makes a run in a bubble. Its client is not connected yet.
func virtual(t *testing.T, arm string, server mcpserver.Config, balancer lb.Config, cfg client.Config, f func(r *run)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, zero: time.Now(), log: client.NewLog(), arm: arm, kind: cfg.Kind}
		back, front := memnettest.New(), memnettest.New()
		server.Listener = back
		s, err := mcpserver.New(server)
		if err != nil {
			t.Fatal(err)
		}
		background(t, s.Run)
		balancer.Listener, balancer.Upstream, balancer.Dial = front, "127.0.0.1:1", back.DialContext
		balancer.Observe = func(e lb.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.balanced = append(r.balanced, e)
		}
		l, err := lb.New(balancer)
		if err != nil {
			t.Fatal(err)
		}
		background(t, l.Run)
		base := &http.Transport{DialContext: front.DialContext, MaxIdleConnsPerHost: 100}
		t.Cleanup(base.CloseIdleConnections)
		cfg.Endpoint, cfg.Log, cfg.Transport = "http://127.0.0.1:1/mcp", r.log, r.log.Wire(base)
		if arm == "protected" {
			guard, err := middleware.New(middleware.Config{Base: cfg.Transport, Observe: r.log.Observe})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Transport = guard
		}
		c, err := client.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
		})
		r.server, r.balancer, r.client = s, l, c
		f(r)
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

// connect begins the first session.
func (r *run) connect() string {
	r.t.Helper()
	if err := r.client.Connect(r.t.Context()); err != nil {
		r.t.Fatalf("Connect() = %v, want nil", err)
	}
	synctest.Wait()
	return r.client.SessionID()
}

// until lets time go by, to a time since the beginning.
func (r *run) until(at time.Duration) {
	r.t.Helper()
	time.Sleep(at - time.Since(r.zero))
	synctest.Wait()
}

// emit sends messages on the standalone stream.
func (r *run) emit(session string, n int) {
	r.t.Helper()
	defer synctest.Wait()
	for range n {
		if _, err := r.server.Emit(session, "event"); err != nil {
			r.t.Fatalf("Emit() = %v, want nil", err)
		}
	}
}

// history is what has happened so far.
func (r *run) history() *history.History {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.New(history.Source{
		Zero: r.zero, End: time.Now(), Scale: 1,
		Oracle:    r.server.Oracle().History(),
		Clients:   []history.ClientSource{{Name: "one", Arm: r.arm, Kind: r.kind, Records: r.log.Records(), Dropped: r.log.Dropped()}},
		Balancers: []history.BalancerSource{{Name: "load balancer", Events: r.balanced}},
	})
}

// checkMeasures checks what some measures come to. What is not named is not
// checked, but may have no problem.
func checkMeasures(t *testing.T, h *history.History, want map[string]float64) {
	t.Helper()
	for _, m := range history.Measures() {
		got := m.Of(h)
		if got.Problem != "" {
			t.Errorf("%s: %s", m.Name, got.Problem)
		} else if want, ok := want[m.Name]; ok && got.Value != want {
			t.Errorf("%s = %v, want %v", m.Name, got.Value, want)
		}
	}
	for name := range want {
		if _, ok := history.MeasureNamed(name); !ok {
			t.Errorf("there is no measure %q", name)
		}
	}
}
