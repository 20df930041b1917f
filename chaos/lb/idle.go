package lb

import (
	"sync"
	"time"
)

// idleClock calls a function when it has not been touched for its limit. It may
// call it more than once, and once more just after a touch that came too late.
// Methods may be called from any goroutine.
type idleClock struct {
	limit time.Duration // immutable; 0: the function is never called

	mu    sync.Mutex
	timer *time.Timer // nil: no limit, or stopped
}

// startIdleClock starts the first interval. Its caller stops the clock.
func startIdleClock(limit time.Duration, expire func()) *idleClock {
	c := &idleClock{limit: limit}
	if limit > 0 {
		c.timer = time.AfterFunc(limit, expire)
	}
	return c
}

// touch starts the interval again.
func (c *idleClock) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Reset(c.limit)
	}
}

// stop ends the clock for good; touch has no effect afterwards.
func (c *idleClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
