package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// startLimit bounds what building a cell and beginning its sessions takes, apart
// from the run's own limit. It is what a slow machine needs with room to spare.
const startLimit = 2 * time.Minute

// rollbackLimit bounds the rollbacks, which go on when the run has been stopped.
const rollbackLimit = 30 * time.Second

// run is one run of an experiment.
type run struct {
	d    *experiment.Definition
	o    Options
	seed uint64
	// available says whether this machine has something: a test's way in.
	available func(experiment.Need) error

	began, ended time.Time
	// zero is when the experiment's clock showed 0, set before the first session
	// begins.
	zero  time.Time
	cells []*cell

	before, after []check
	steps         []*activity
	rollbacks     []*activity
	// stopped is why the run did not come to its end, nil if it did; interrupted
	// is whether that was the caller's word.
	stopped     error
	interrupted bool

	mu       sync.Mutex // guards the activities
	progress sync.Mutex
	phase    Phase
}

func newRun(d *experiment.Definition, o Options) *run {
	r := &run{d: d, o: o, seed: d.Seed, available: experiment.Need.Available, began: time.Now()}
	if o.Seed > 0 {
		r.seed = o.Seed
	}
	r.seed = max(1, r.seed)
	for i := range d.Method {
		r.steps = append(r.steps, &activity{name: d.Method[i].Label(), at: d.Method[i].At})
	}
	for i := range d.Rollbacks {
		r.rollbacks = append(r.rollbacks, &activity{name: d.Rollbacks[i].Label(), at: d.Length})
	}
	for _, kind := range d.Clients.Kinds() {
		for _, arm := range experiment.Arms() {
			if r.has(arm) && (o.Clients == nil || slices.Contains(o.Clients, kind)) {
				r.cells = append(r.cells, newCell(r, arm, kind, len(r.cells)))
			}
		}
	}
	return r
}

// has is whether an arm is run.
func (r *run) has(arm string) bool { return len(r.o.Arms) == 0 || slices.Contains(r.o.Arms, arm) }

// The reasons for which a run does not come to its end, beside those of the steps.
var (
	errTimeLimit = errors.New("the run took longer than its time limit")
	errMissing   = errors.New("this machine lacks what the experiment needs")
	errStart     = errors.New("the start took too long")
)

// boundError is that a bound of the definition was reached.
type boundError struct{ text string }

func (e *boundError) Error() string { return e.text }

// do is the whole run. What it leaves is in r.
func (r *run) do(ctx context.Context) {
	defer func() { r.ended = time.Now() }()
	for _, need := range r.d.Needs() {
		if err := r.available(need); err != nil {
			r.stopped = fmt.Errorf("%w: %w", errMissing, err)
			return
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, r.d.TimeLimit(), fmt.Errorf("%w of %v", errTimeLimit, r.d.TimeLimit()))
	defer cancel()
	ticking := r.tick(limited)
	r.stopped = r.upToTheEnd(limited)
	r.interrupted = ctx.Err() != nil
	r.snapshot()
	r.rollBack(ctx)
	r.report(Counting, "")
	r.judge()
	cancel()
	<-ticking
}

// upToTheEnd does everything up to the moment at which the hypothesis is checked.
func (r *run) upToTheEnd(ctx context.Context) error {
	r.report(Starting, "")
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("%w: more than %v", errStart, startLimit))
	defer cancel()
	if err := r.each(starting, (*cell).build); err != nil {
		return err
	}
	r.start(time.Now())
	if err := r.each(starting, (*cell).begin); err != nil {
		return err
	}
	r.report(SteadyState, "")
	if err := r.steady(); err != nil {
		return err
	}
	r.report(Method, "")
	watched, stop := context.WithCancelCause(ctx)
	watching := r.watch(watched, stop)
	err := r.each(watched, (*cell).method)
	stop(nil)
	<-watching
	return err
}

// each calls f for all cells at once and waits for all. The first error ends the
// context of the others, and is returned. A panic is an error.
func (r *run) each(ctx context.Context, f func(*cell, context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, c := range r.cells {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					cancel(c.errorf("panicked: %v\n%s", p, debug.Stack()))
				}
			}()
			if err := f(c, ctx); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// snapshot ends what counts: it makes every cell's history.
func (r *run) snapshot() {
	end := time.Now()
	for _, c := range r.cells {
		c.snapshot(end)
	}
}

// rollBack undoes what is in force, does the rollbacks, and stops everything. It
// goes on when the run has been stopped.
func (r *run) rollBack(ctx context.Context) {
	r.report(RollingBack, "")
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), rollbackLimit, fmt.Errorf("the rollbacks took longer than %v", rollbackLimit))
	defer cancel()
	err := r.each(ctx, (*cell).rollBack)
	// Not by each: what one cell cannot end must not keep another from its end.
	errs := make([]error, len(r.cells))
	var wg sync.WaitGroup
	for i, c := range r.cells {
		wg.Go(func() { errs[i] = c.close() })
	}
	wg.Wait()
	if r.stopped == nil {
		r.stopped = errors.Join(append(errs, err)...)
	}
}

// clock is what the experiment's clock shows.
func (r *run) clock() experiment.Duration {
	if r.zero.IsZero() {
		return r.d.StartsAt
	}
	return r.d.Record(time.Since(r.zero))
}

// start sets the experiment's clock.
func (r *run) start(now time.Time) {
	r.progress.Lock()
	defer r.progress.Unlock()
	r.zero = now.Add(-r.d.Real(r.d.StartsAt))
}

// instant is when the experiment's clock shows at.
func (r *run) instant(at experiment.Duration) time.Time { return r.zero.Add(r.d.Real(at)) }

// sleepUntil waits for an instant, or returns the cause of ctx.
func sleepUntil(ctx context.Context, at time.Time) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
