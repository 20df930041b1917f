package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// moment is one time that one step is done.
type moment struct {
	at   experiment.Duration
	step int // its place in the method
	last bool
}

// moments are all times of all steps in their order: by time, and at one time in
// the order of the method.
func moments(d *experiment.Definition) []moment {
	var all []moment
	for i := range d.Method {
		for at := range d.Method[i].Times() {
			all = append(all, moment{at: at, step: i})
		}
		all[len(all)-1].last = true
	}
	slices.SortStableFunc(all, func(a, b moment) int { return int(a.at - b.at) })
	return all
}

// method carries the steps out, and returns when the experiment's clock shows its
// length.
func (c *cell) method(ctx context.Context) error {
	d := c.r.d
	all := moments(d)
	for i, m := range all {
		if err := sleepUntil(ctx, c.r.instant(m.at)); err != nil {
			return err
		}
		until := d.Length
		for _, next := range all[i:] {
			if next.at > m.at {
				until = next.at
				break
			}
		}
		step := &d.Method[m.step]
		a := c.r.steps[m.step]
		if c.r.doing(a, c) {
			c.r.report("", step.Label())
		}
		said, err := c.step(ctx, step, until)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause // Another cell's: this one was stopped in the middle.
		}
		if err != nil || m.last {
			c.r.done(a, c, said, err)
		}
		if err != nil {
			return c.errorf("step %q: %w", step.Label(), err)
		}
	}
	return sleepUntil(ctx, c.r.instant(d.Length))
}

// step does a step once. until is when it has to have found its clients.
func (c *cell) step(ctx context.Context, s *experiment.Step, until experiment.Duration) (said string, err error) {
	users := c.users
	if s.Clients > 0 {
		users = users[:min(s.Clients, len(users))]
	}
	if s.When != "" {
		if err := c.await(ctx, s.When, users, until); err != nil {
			return "", err
		}
	}
	return c.act(ctx, s.Action, users, c.r.d.Length-c.r.clock())
}

// act does an action, and says what came of it. left is how much time there is.
func (c *cell) act(ctx context.Context, a experiment.Action, users []*user, left experiment.Duration) (said string, err error) {
	d := c.r.d
	switch {
	case a.Connect != nil:
		return "", c.forEach(ctx, users, beginAtOnce, func(ctx context.Context, u *user) error { return u.begin(ctx) })
	case a.Disconnect != nil:
		return "", c.forEach(ctx, users, len(users), func(_ context.Context, u *user) error {
			return u.leave(a.Disconnect.How == experiment.Vanish)
		})
	case a.Emit != nil:
		return c.emit(ctx, a.Emit, users)
	case a.Call != nil:
		return c.call(ctx, a.Call, users, left)
	case a.Ask != nil:
		c.ask(a.Ask.Message, users)
		return "", nil
	case a.Cut != nil:
		now := c.top.balancer.current()
		if now == nil {
			return "", fmt.Errorf("the load balancer is away")
		}
		return plural(now.Cut(d.CutBy(a.Cut)), "stream") + " cut", nil
	case a.Fault != nil:
		return "", c.breakIt(ctx, a.Fault)
	case a.Rule != nil:
		return "", c.misbehave(a.Rule)
	case a.Reap != nil:
		n := 0
		for _, u := range users {
			if c.top.cluster.Reap(u.client.SessionID()) {
				n++
			}
		}
		return plural(n, "session") + " lost", nil
	case a.RestartServers != nil && a.RestartServers.Replica != nil:
		return "", c.top.cluster.Replica(*a.RestartServers.Replica).Restart()
	case a.RestartServers != nil:
		return "", c.top.cluster.RollingRestart(ctx, d.Real(a.RestartServers.Pause))
	case a.RestartLoadBalancer != nil:
		return "", c.top.balancer.restart(ctx, d.Real(a.RestartLoadBalancer.DownFor))
	}
	return "", fmt.Errorf("no such action %q", a.Kind()) // Validate refuses it
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// emit sends events to each client's session. That the server has nobody to send
// them to is no fault of the run: it is what happens to a session that is gone.
func (c *cell) emit(ctx context.Context, e *experiment.Emit, users []*user) (said string, err error) {
	text := "event"
	if e.Bytes > 0 {
		text = strings.Repeat("x", e.Bytes)
	}
	gone := 0
	for i := range e.Number() {
		if i > 0 && e.Every > 0 {
			if err := sleepUntil(ctx, time.Now().Add(c.r.d.Real(e.Every))); err != nil {
				return "", err
			}
		}
		for _, u := range users {
			if !c.r.d.Clients.Of(c.kind).Streams() {
				continue
			}
			switch _, err := c.top.cluster.Emit(u.client.SessionID(), text); {
			case isGone(err):
				gone++
			case err != nil:
				return "", fmt.Errorf("%s: %w", u.name, err)
			}
		}
	}
	if gone > 0 {
		said = plural(gone, "event") + " not sent, for want of a session"
	}
	return said, nil
}

// isGone is whether a server had nobody to send an event to.
func isGone(err error) bool {
	return errors.Is(err, mcpserver.ErrSessionGone) || errors.Is(err, mcpserver.ErrNoStream)
}

// ask has the server ask each client's person, and does not wait for the answer.
func (c *cell) ask(message string, users []*user) {
	for _, u := range users {
		session := u.client.SessionID()
		c.running.Go(func() {
			// What becomes of the question is in the oracle's log.
			_, _ = c.top.cluster.Ask(c.life, session, message)
		})
	}
}

// breakIt puts a fault in force, to be undone in time.
func (c *cell) breakIt(ctx context.Context, f *experiment.Fault) error {
	broken := c.r.d.NewFault(f)
	for _, target := range c.top.targets(f) {
		undo, err := c.stack.Apply(ctx, broken, target)
		if err != nil {
			return err
		}
		// In the record's time, as whoever reads the definition knows it.
		c.note(label(experiment.Action{Fault: f}), c.r.d.Real(f.For), undo)
	}
	return nil
}

// misbehave puts a rule in force, to be removed in time.
func (c *cell) misbehave(rule *experiment.TimedRule) error {
	remove, err := c.top.cluster.Inject(c.r.d.NewRule(rule.Rule))
	if err != nil {
		return err
	}
	undo, err := c.stack.Push("rule", func() error { remove(); return nil })
	if err != nil {
		return err
	}
	c.note(label(experiment.Action{Rule: rule}), c.r.d.Real(rule.For), undo)
	return nil
}

// label is what an action says of itself.
func label(a experiment.Action) string {
	s := experiment.Step{Action: a}
	return s.Label()
}

// note keeps a fault for the history, and undoes it after a while; 0: at the end.
func (c *cell) note(name string, after time.Duration, undo func() error) {
	f := &history.Fault{Name: name, At: time.Since(c.r.zero)}
	c.mu.Lock()
	c.faults = append(c.faults, f)
	c.mu.Unlock()
	if after == 0 {
		return
	}
	c.running.Go(func() {
		if sleepUntil(c.life, time.Now().Add(after)) != nil {
			return // The stack undoes it.
		}
		_ = undo() // The stack has its error.
		at := time.Since(c.r.zero)
		c.mu.Lock()
		f.Undone = &at
		c.mu.Unlock()
	})
}
