package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// eventLease is how many numbers of events are reserved at a time, so that not each
// event needs a write, and none has the number of one before a sudden end.
const eventLease = 1000

// execution is a run that is not over, with what is not stored of it.
type execution struct {
	// Immutable.
	id, experimentID string
	feed             *feed
	done             chan struct{} // closed when it is over

	// stop ends it: its cause is why.
	ctx  context.Context
	stop context.CancelCauseFunc

	mu     sync.Mutex
	stored store.Run
}

func newExecution(r store.Run) *execution {
	e := &execution{id: r.ID, experimentID: r.ExperimentID, feed: newFeed(r.LastEvent), done: make(chan struct{}), stored: r}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	return e
}

// get returns what is known of the run.
func (e *execution) get() control.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stored.Run
}

// work runs what is queued until d.life ends.
func (d *Daemon) work() {
	for {
		select {
		case <-d.life.Done():
			return
		case <-d.queued:
		}
		for e := d.next(); e != nil; e = d.next() {
			d.execute(e)
		}
	}
}

// next takes the next run out of the queue, and tells another worker of those
// behind it. nil: there is none, or the daemon ends.
func (d *Daemon) next() *execution {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 || d.life.Err() != nil {
		return nil
	}
	e := d.queue[0]
	d.queue = d.queue[1:]
	if len(d.queue) > 0 {
		d.wake()
	}
	return e
}

// endQueued ends those of the queued runs that have been stopped: they do not wait
// for their turn.
func (d *Daemon) endQueued() {
	var stopped []*execution
	d.mu.Lock()
	d.queue = slices.DeleteFunc(d.queue, func(e *execution) bool {
		if e.ctx.Err() == nil {
			return false
		}
		stopped = append(stopped, e)
		return true
	})
	d.mu.Unlock()
	for _, e := range stopped {
		d.conclude(e, control.Interrupted, context.Cause(e.ctx).Error())
	}
}

// execute runs an experiment, repeats included.
func (d *Daemon) execute(e *execution) {
	defer context.AfterFunc(d.life, func() { e.stop(errClosing) })()
	log := d.cfg.Log.With("run", e.id, "experiment", e.get().Experiment)
	if e.ctx.Err() != nil {
		d.conclude(e, control.Interrupted, context.Cause(e.ctx).Error())
		return
	}
	def, err := experiment.Parse("", e.stored.Input)
	if err == nil {
		now := time.Now().UTC()
		e.mu.Lock()
		e.stored.State, e.stored.Started = control.Active, &now
		e.mu.Unlock()
		e.feed.add(control.RunEvent{At: now, State: control.Active})
		err = d.save(e)
	}
	if err != nil {
		d.conclude(e, control.Interrupted, fmt.Sprintf("it could not be started: %v", err))
		return
	}
	log.Info("begins")
	repeats := max(1, def.Repeats)
	var verdicts []journal.Verdict
	var reason string
	for n := 1; n <= repeats && e.ctx.Err() == nil; n++ {
		j, err := d.once(e, def, n, repeats)
		if err == nil {
			err = d.keep(e, n, j, &verdicts)
		}
		if err != nil {
			reason = err.Error()
			break
		}
		log.Info("has a journal", "repeat", n, "verdict", j.Verdict, "reason", j.Reason)
	}
	switch {
	case reason != "":
		d.conclude(e, control.Interrupted, reason)
	case e.ctx.Err() != nil:
		d.conclude(e, control.Interrupted, context.Cause(e.ctx).Error())
	default:
		d.conclude(e, control.Done, e.get().Reason)
	}
}

// once runs an experiment for the n-th time.
func (d *Daemon) once(e *execution, def *experiment.Definition, n, repeats int) (j *journal.Journal, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("the runner panicked", "run", e.id, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the program has a fault: %v", p)
		}
	}()
	req := e.get().Request
	o := engine.Options{Arms: req.Arms, Clients: req.Clients, Seed: req.Seed, Program: d.cfg.Version}
	if repeats > 1 {
		o.Repeat = n
	}
	o.Progress = func(p engine.Progress) {
		e.feed.add(control.RunEvent{
			At: time.Now().UTC(), State: control.Active, Phase: string(p.Phase), Clock: p.Clock.Span().Seconds(), Step: p.Step, Repeat: n,
		})
		if e.feed.lastN() > e.lease()-eventLease/2 {
			if err := d.save(e); err != nil {
				d.cfg.Log.Error("cannot store a run's events", "run", e.id, "error", err)
			}
		}
	}
	return d.cfg.Runner.Run(e.ctx, def, o)
}

func (e *execution) lease() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stored.LastEvent
}

// save stores what is known of a run and the events that are worth it, and
// reserves numbers for those to come.
func (d *Daemon) save(e *execution) error {
	events := e.feed.unstored()
	e.mu.Lock()
	if !e.stored.State.Final() {
		e.stored.LastEvent = e.feed.lastN() + eventLease
	}
	stored := e.stored
	e.mu.Unlock()
	if err := d.store.SaveRun(context.Background(), stored, events...); err != nil {
		return err
	}
	e.feed.areStored(events)
	return nil
}

// worstFirst are all verdicts.
var worstFirst = []journal.Verdict{journal.Deviated, journal.AbortedVerdict, journal.Inconclusive, journal.Upheld}

// keep stores a journal. The run has the worst of its verdicts so far, with the
// reason and the checks of the first that has it.
func (d *Daemon) keep(e *execution, n int, j *journal.Journal, verdicts *[]journal.Verdict) error {
	data, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("its journal is none: %w", err)
	}
	e.mu.Lock()
	now := e.stored
	now.Journals = n
	if len(*verdicts) == 0 || slices.Index(worstFirst, j.Verdict) < slices.Index(worstFirst, now.Verdict) {
		now.Verdict, now.Reason, now.Checks = j.Verdict, j.Reason, slices.Concat(j.Before, j.After)
	}
	e.mu.Unlock()
	if err := d.store.AddJournal(context.Background(), now, n, data); err != nil {
		return fmt.Errorf("its journal cannot be stored: %w", err)
	}
	*verdicts = append(*verdicts, j.Verdict)
	e.mu.Lock()
	e.stored = now
	e.mu.Unlock()
	e.feed.add(control.RunEvent{At: time.Now().UTC(), State: control.Active, Repeat: n, Verdict: j.Verdict, Reason: j.Reason})
	return nil
}

// conclude is finish, with the error in the log: the run stays known as what it is
// until the daemon ends.
func (d *Daemon) conclude(e *execution, state control.RunState, reason string) {
	if err := d.finish(e, state, reason); err != nil {
		d.cfg.Log.Error("cannot store how a run ended", "run", e.id, "state", state, "error", err)
	}
}

// finish ends a run that runs no more.
func (d *Daemon) finish(e *execution, state control.RunState, reason string) error {
	now := time.Now().UTC()
	e.mu.Lock()
	e.stored.State, e.stored.Reason, e.stored.Ended = state, reason, &now
	if v := e.stored.Verdict; state == control.Interrupted && v != journal.Deviated {
		e.stored.Verdict = journal.AbortedVerdict
	}
	verdict, seq := e.stored.Verdict, e.stored.Seq
	e.mu.Unlock()
	last := e.feed.add(control.RunEvent{At: now, State: state, Verdict: verdict, Reason: reason})
	e.mu.Lock()
	e.stored.LastEvent = last.N
	e.mu.Unlock()
	err := d.save(e)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	d.mu.Lock()
	if err == nil {
		delete(d.runs, e.id)
	}
	for _, r := range d.resources {
		if r.stored.ID == e.experimentID && seq > r.verdictSeq { // not of an earlier one that was over later
			r.verdict, r.verdictSeq = string(verdict), seq
		}
	}
	d.mu.Unlock()
	e.feed.close(errOver)
	close(e.done)
	d.cfg.Log.Info("is over", "run", e.id, "state", state, "verdict", verdict, "reason", reason)
	if err == nil {
		err = d.store.Prune(context.Background(), e.experimentID, d.cfg.KeepRuns)
	}
	return err
}

// leaveRuns lets the queued runs be, for the next daemon, and tells who listens to
// them. Nobody else has anything to do with runs any more.
func (d *Daemon) leaveRuns() {
	for _, e := range d.runs {
		if e.get().State.Final() { // it could not be stored before
			if err := d.save(e); err != nil {
				d.cfg.Log.Error("cannot store how a run ended", "run", e.id, "error", err)
			}
		}
		e.feed.close(unavailable())
	}
}
