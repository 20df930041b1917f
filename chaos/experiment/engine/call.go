package engine

import (
	"context"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// leastTimeout is how long an application waits for a call that has no timeout of
// its own, where the experiment is over before.
const leastTimeout = 10 * time.Second

// call has each client call a tool, and waits for the answers unless that is to be
// done in the background.
func (c *cell) call(ctx context.Context, call *experiment.Call, users []*user, left experiment.Duration) (said string, err error) {
	timeout := c.r.d.Real(call.Timeout)
	if timeout == 0 {
		timeout = max(leastTimeout, c.r.d.Real(left))
	}
	done := make(chan bool, len(users))
	for _, u := range users {
		c.running.Go(func() { done <- u.call(call, timeout) })
	}
	if call.Background {
		return "", nil
	}
	answered := 0
	for range users {
		select {
		case ok := <-done:
			if ok {
				answered++
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if n := len(users) - answered; n > 0 {
		said = plural(n, "call") + " not answered"
	}
	return said, nil
}

// call calls a tool, and again where that fails as often as its application does,
// and reports whether it was answered.
func (u *user) call(call *experiment.Call, timeout time.Duration) bool {
	for range call.Retries + 1 {
		// Fresh arguments: they are the client's from now on.
		ref, done := u.client.CallWithin(timeout, string(call.Tool), u.c.r.d.Arguments(call))
		if call.Name != "" {
			u.c.mu.Lock()
			u.attempts[call.Name] = append(u.attempts[call.Name], ref)
			u.c.mu.Unlock()
		}
		// It ends with the client at the latest.
		switch result := <-done; {
		case result.How == client.Result:
			return true
		case result.How == client.Hanging, u.c.life.Err() != nil:
			return false
		}
	}
	return false
}
