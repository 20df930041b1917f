package daemon

import (
	"context"
	"sync"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// key names a resource.
type key struct {
	kind control.Kind
	name string
}

func (k key) String() string { return string(k.kind) + "/" + k.name }

// decision is the key of the turn of those who decide.
var decision = key{}

// turns gives out the turns to change something.
type turns struct {
	mu    sync.Mutex
	taken map[key]chan struct{} // closed when the turn is over
}

// take waits for a turn; done ends it. The error is that of ctx.
func (t *turns) take(ctx context.Context, k key) (done func(), err error) {
	for {
		t.mu.Lock()
		before, taken := t.taken[k]
		if !taken {
			mine := make(chan struct{})
			t.taken[k] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.taken, k)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
