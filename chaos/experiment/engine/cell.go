package engine

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/fault"
)

// cell is the clients of one kind in one arm, and all that they talk to.
type cell struct {
	r    *run
	arm  string
	kind experiment.ClientKind
	seed uint64

	top   *topology
	users []*user
	stack *fault.Stack
	// life ends what goes on beside the method: calls in the background, questions
	// and undos that are due. running waits for it.
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	faults []*history.Fault

	history *history.History // nil before the snapshot, and without a topology
}

func newCell(r *run, arm string, kind experiment.ClientKind, n int) *cell {
	h := fnv.New64a()
	fmt.Fprint(h, r.seed, kind)
	c := &cell{r: r, arm: arm, kind: kind, seed: h.Sum64()}
	c.life, c.end = context.WithCancel(context.Background())
	c.stack = fault.NewStack(context.Background())
	return c
}

// name is the cell's for people.
func (c *cell) name() string { return c.arm + " " + string(c.kind) }

// errorf is an error that names the cell.
func (c *cell) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", c.name(), fmt.Errorf(format, args...))
}

// build makes the topology and the clients. Nothing is sent yet.
func (c *cell) build(ctx context.Context) error {
	top, err := newTopology(ctx, c.r.d, c.seed)
	if err != nil {
		return c.errorf("%w", err)
	}
	c.top = top
	n := c.r.d.Clients.Of(c.kind).Number()
	for i := range n {
		name := string(c.kind)
		if n > 1 {
			name = fmt.Sprintf("%s %d", name, i+1)
		}
		u, err := c.newUser(name)
		if err != nil {
			return c.errorf("%w", err)
		}
		c.users = append(c.users, u)
	}
	return nil
}

// beginAtOnce bounds how many clients of a cell begin their sessions at the same
// time.
const beginAtOnce = 32

// begin has all clients begin their sessions, each of which is sent an event.
func (c *cell) begin(ctx context.Context) error {
	return c.forEach(ctx, c.users, beginAtOnce, func(ctx context.Context, u *user) error { return u.begin(ctx) })
}

// forEach calls f for users, so many at a time, and returns the first error, which
// ends the context of the others.
func (c *cell) forEach(ctx context.Context, users []*user, atOnce int, f func(context.Context, *user) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, u := range users {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			if err := f(ctx, u); err != nil {
				cancel(c.errorf("%s: %w", u.name, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// snapshot makes the history of what was up to now.
func (c *cell) snapshot(end time.Time) {
	if c.top == nil || c.r.zero.IsZero() {
		return
	}
	src := history.Source{
		Zero: c.r.zero, End: end, Scale: c.r.d.Scale(), Soon: c.r.d.Real(c.r.d.Hypothesis.LateAfter),
		Oracle: c.top.cluster.Oracle().History(), Balancers: c.top.seen(),
	}
	for _, u := range c.users {
		src.Clients = append(src.Clients, history.ClientSource{
			Name: u.name, Arm: c.arm, Kind: client.Kind(c.kind), Records: u.log.Records(), Dropped: u.log.Dropped(),
		})
	}
	c.mu.Lock()
	for _, f := range c.faults {
		src.Faults = append(src.Faults, *f)
	}
	c.mu.Unlock()
	c.history = history.New(src)
}

// rollBack undoes what is in force and then does the rollbacks.
func (c *cell) rollBack(ctx context.Context) error {
	err := c.stack.Close()
	if c.top == nil || c.r.zero.IsZero() {
		return err
	}
	for i := range c.r.d.Rollbacks {
		roll := &c.r.d.Rollbacks[i]
		a := c.r.rollbacks[i]
		said, stepErr := c.act(ctx, roll.Action(), c.users, 0)
		c.r.done(a, c, said, stepErr)
		if err == nil && stepErr != nil {
			err = c.errorf("rollback %q: %w", roll.Label(), stepErr)
		}
	}
	return err
}

// close ends everything of the cell, and returns when nothing of it runs.
func (c *cell) close() error {
	c.end()
	errs := make(chan error, len(c.users)+1)
	_ = c.forEach(context.Background(), c.users, len(c.users)+1, func(_ context.Context, u *user) error {
		if err := u.close(); err != nil {
			errs <- c.errorf("%s: %w", u.name, err)
		}
		return nil
	})
	c.running.Wait()
	if err := c.stack.Close(); err != nil {
		errs <- c.errorf("%w", err)
	}
	if c.top != nil {
		if err := c.top.close(); err != nil {
			return c.errorf("%w", err)
		}
	}
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
