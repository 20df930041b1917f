package server

import "sync"

// gate counts the handlers that run, until it is shut and they are gone. The zero
// value is open.
type gate struct {
	mu   sync.Mutex
	in   int
	gone chan struct{} // closed by the last handler of a gate that is shut; nil while open
}

// enter is whether a handler may run. If so, leave has to follow.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone != nil {
		return false
	}
	g.in++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in--; g.in == 0 && g.gone != nil {
		close(g.gone)
	}
}

// shut lets no handler in any more, and returns what is closed when none is left.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = make(chan struct{})
	if g.in == 0 {
		close(g.gone)
	}
	return g.gone
}
