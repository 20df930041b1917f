package daemon

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// slow is a thing that takes a while to end.
type slow struct{ ended atomic.Bool }

func (s *slow) run(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	<-time.After(50 * time.Millisecond)
	s.ended.Store(true)
	return nil
}

// When Serve returns, everything has ended.
func TestServeWaitsForTheEnd(t *testing.T) {
	d, err := Open(t.Context(), Config{DataDir: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(context.Background()) }()
	<-d.Ready()
	s := new(slow)
	k := newKeeper(slog.New(slog.DiscardHandler), make(chan struct{}, 1), nil, nil, func([]net.Listener) (thing, error) { return s, nil })
	k.start(d.life)
	if state, reason, err := k.wait(t.Context()); state != control.Running || err != nil {
		t.Fatalf("it is %s (%q), %v, want it to run", state, reason, err)
	}
	d.mu.Lock()
	d.resources[key{control.Servers, "slow"}] = &resource{keeper: k}
	d.mu.Unlock()
	d.Close()
	if err := <-ended; err != nil || !s.ended.Load() {
		t.Errorf("Serve() = %v, and what it ran has ended: %v, want nil and true", err, s.ended.Load())
	}
}
