package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// watchEvery is the time between two looks at the bounds that abort a run.
const watchEvery = 100 * time.Millisecond

// watch ends the method when a bound is reached. The channel is closed when it no
// longer looks, which is soon after the end of ctx.
func (r *run) watch(ctx context.Context, stop context.CancelCauseFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(r.d.Abort.Control)+len(r.d.Abort.Protected) == 0 {
			return
		}
		for sleepUntil(ctx, time.Now().Add(watchEvery)) == nil {
			now := time.Now()
			for _, c := range r.cells {
				if err := c.reached(now); err != nil {
					stop(err)
					return
				}
			}
		}
	}()
	return done
}

// reached is the first bound that the cell has reached, nil if there is none. What
// cannot be counted yet has reached none.
func (c *cell) reached(now time.Time) error {
	bounds := c.r.d.Abort.Protected
	if c.arm == experiment.Control {
		bounds = c.r.d.Abort.Control
	}
	if len(bounds) == 0 {
		return nil
	}
	// A cell of its own, for what is looked at now is not what is judged later.
	look := cell{r: c.r, arm: c.arm, kind: c.kind, top: c.top, users: c.users}
	c.mu.Lock()
	look.faults = append(look.faults, c.faults...)
	look.snapshot(now)
	c.mu.Unlock()
	for m, t := range bounds {
		k := check{cell: &look, x: experiment.Expectation{Subject: experiment.Subject{Measure: m}, Tolerance: t}}
		k.count()
		if k.met() {
			info, _ := m.Info()
			return &boundError{fmt.Sprintf("%s: %s: %v, which is %s: the run is stopped there", c.name(), info.Words, k.value, t.Words())}
		}
	}
	return nil
}
