package client

import (
	"context"
	"sync"
)

// gauge counts what is under way. The zero gauge is empty.
type gauge struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // non-nil while somebody waits; closed at n == 0
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// wait waits until there is nothing, or ctx ends, whose cause it returns.
func (g *gauge) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
