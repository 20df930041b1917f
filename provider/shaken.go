package provider

import (
	"context"
	"sync"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// shaken is a client that looks at the daemon's version before it asks for anything.
// What a resource begins with is checked; what it does then follows that.
type shaken struct {
	*control.Client

	mu  sync.Mutex
	met bool
}

func (s *shaken) meet(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met {
		return nil
	}
	_, err := s.Handshake(ctx)
	s.met = err == nil
	return err
}

// Get implements control.Backend.
func (s *shaken) Get(ctx context.Context, kind control.Kind, name string) (control.Resource, error) {
	if err := s.meet(ctx); err != nil {
		return control.Resource{}, err
	}
	return s.Client.Get(ctx, kind, name)
}

// Put implements control.Backend.
func (s *shaken) Put(ctx context.Context, kind control.Kind, name string, seen int64, spec []byte) (control.Resource, bool, error) {
	if err := s.meet(ctx); err != nil {
		return control.Resource{}, false, err
	}
	return s.Client.Put(ctx, kind, name, seen, spec)
}

// Delete implements control.Backend.
func (s *shaken) Delete(ctx context.Context, kind control.Kind, name string, seen int64) error {
	if err := s.meet(ctx); err != nil {
		return err
	}
	return s.Client.Delete(ctx, kind, name, seen)
}
