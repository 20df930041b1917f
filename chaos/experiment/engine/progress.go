package engine

import (
	"context"
	"time"
)

// tickEvery is the time between two reports of progress without news.
const tickEvery = 200 * time.Millisecond

// report tells the caller how far the run is; phase "" is the one before.
func (r *run) report(phase Phase, step string) {
	r.progress.Lock()
	defer r.progress.Unlock()
	if phase != "" {
		r.phase = phase
	}
	if r.o.Progress == nil {
		return
	}
	r.o.Progress(Progress{
		Phase: r.phase, Clock: min(max(r.clock(), 0), r.d.Length), Step: step, Elapsed: time.Since(r.began), Takes: r.d.Takes(),
	})
}

// tick reports now and then until ctx ends; then the channel is closed.
func (r *run) tick(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r.o.Progress == nil {
			return
		}
		ticker := time.NewTicker(tickEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.report("", "")
			case <-ctx.Done():
				return
			}
		}
	}()
	return done
}
