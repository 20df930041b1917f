package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// The reasons for which runs are interrupted.
var (
	errCancelled = errors.New("it was cancelled")
	errDeleted   = errors.New("its experiment was deleted")
	errDied      = errors.New("the daemon came to a sudden end while it ran; what it had broken ended with the daemon")
)

// defaultLimit is how many runs are listed where nothing is said.
const defaultLimit = 100

// loadRuns interrupts what was active, and queues what was queued.
func (d *Daemon) loadRuns(ctx context.Context) error {
	var err error
	if d.haltReason, d.halted, err = d.store.Halted(ctx); err != nil {
		return err
	}
	unfinished, err := d.store.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, r := range unfinished {
		e := newExecution(r)
		d.runs[r.ID] = e
		switch {
		case r.State == control.Active:
			err = d.finish(e, control.Interrupted, errDied.Error())
		case d.halted:
			err = d.finish(e, control.Interrupted, haltText(d.haltReason))
		default:
			d.enqueue(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Daemon) enqueue(e *execution) {
	d.mu.Lock()
	d.runs[e.id] = e
	d.queue = append(d.queue, e)
	d.wake()
	halted, reason := d.halted, d.haltReason
	d.mu.Unlock()
	if halted { // meanwhile, by somebody who did not see this run
		e.stop(errors.New(haltText(reason)))
		d.endQueued()
	}
}

// wake has a worker look at the queue.
func (d *Daemon) wake() {
	select {
	case d.queued <- struct{}{}:
	default:
	}
}

// Start implements [control.Backend].
func (d *Daemon) Start(ctx context.Context, name, idempotency string, req control.RunRequest) (control.Run, error) {
	if err := d.enter(ctx); err != nil {
		return control.Run{}, err
	}
	defer d.calls.Done()
	done, err := d.turns.take(ctx, decision)
	if err != nil {
		return control.Run{}, err
	}
	defer done()
	r, err := d.find(key{control.Experiments, name})
	if err != nil {
		return control.Run{}, err
	}
	if idempotency != "" {
		before, err := d.store.RunByKey(ctx, r.stored.ID, idempotency)
		switch {
		case err == nil && string(compact(before.Request)) != string(compact(req)):
			return control.Run{}, control.NewProblem(control.Conflict, "run %s was begun with the same key and another request: use a key for one request only", before.ID)
		case err == nil:
			return d.overlay(before), nil
		case !errors.Is(err, store.ErrNotFound):
			return control.Run{}, d.storing(err)
		}
	}
	if reason, halted := d.isHalted(); halted {
		return control.Run{}, control.NewProblem(control.Halted, "no run is begun until resume: %s", haltText(reason))
	}
	if r.leaving {
		return control.Run{}, control.NewProblem(control.NotFound, "%v is about to be deleted", r.key)
	}
	input, err := d.input(r.spec.(*experimentSpec), req)
	if err != nil {
		return control.Run{}, err
	}
	run := store.Run{
		Run: control.Run{
			ID: strings.ToLower(rand.Text()), Experiment: name, Generation: r.stored.Generation, Request: req,
			State: control.Queued, Created: time.Now().UTC(),
		},
		ExperimentID: r.stored.ID, Key: idempotency, Input: input, LastEvent: 1,
	}
	if run.Seq, err = d.store.AddRun(ctx, run, control.RunEvent{N: 1, At: run.Created, State: control.Queued}); err != nil {
		return control.Run{}, d.storing(err)
	}
	d.mu.Lock()
	if there := d.resources[r.key]; there != nil {
		there.lastRun = run.ID
	}
	d.mu.Unlock()
	d.cfg.Log.Info("queued", "run", run.ID, "experiment", name)
	e := newExecution(run)
	d.enqueue(e)
	return e.get(), nil
}

// input is the definition that a request asks for, as JSON.
func (d *Daemon) input(e *experimentSpec, req control.RunRequest) ([]byte, error) {
	def, err := d.define(e)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	if req.Repeat < 0 {
		r.fault("repeat", "is %d, want from 1 to 100, or none for the definition's", req.Repeat)
	} else if req.Repeat > 0 {
		def.Repeats = req.Repeat
	}
	if req.Scale < 0 {
		r.fault("scale", "is %v, want from 1 to 1000, or none for the definition's", req.Scale)
	} else if req.Scale > 0 {
		def.TimeScale = req.Scale
	}
	var problems experiment.Problems
	if errors.As(def.Validate(), &problems) {
		for _, p := range problems {
			switch {
			case p.Path == "repeats":
				r.fault("repeat", "%s", detail(p))
			case p.Path == "time_scale":
				r.fault("scale", "%s", detail(p))
			default: // it is right by itself, so that the scale is to blame
				r.fault("scale", "is %v, with which %s %s", def.TimeScale, p.Path, detail(p))
			}
		}
	}
	for i, arm := range req.Arms {
		if !slices.Contains(experiment.Arms(), arm) {
			r.fault(fmt.Sprintf("arms[%d]", i), "is %q, want %s", arm, strings.Join(experiment.Arms(), " or "))
		}
	}
	for i, kind := range req.Clients {
		if kinds := def.Clients.Kinds(); !slices.Contains(kinds, kind) {
			r.fault(fmt.Sprintf("clients[%d]", i), "is %q, want one that the experiment has: %v", kind, kinds)
		}
	}
	if r.problem != nil {
		return nil, r.problem
	}
	if err := (engine.Options{Arms: req.Arms, Clients: req.Clients}).Validate(def); err != nil {
		return nil, control.NewProblem(control.Invalid, "%v", err)
	}
	return json.Marshal(def)
}

// overlay is a stored run, or what is known of it better.
func (d *Daemon) overlay(stored store.Run) control.Run {
	d.mu.RLock()
	e := d.runs[stored.ID]
	d.mu.RUnlock()
	if e != nil {
		return e.get()
	}
	return stored.Run
}

// Runs implements [control.Backend]. limit 0 is 100.
func (d *Daemon) Runs(ctx context.Context, name string, limit int) ([]control.Run, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	if name != "" {
		if _, err := d.find(key{control.Experiments, name}); err != nil {
			return nil, err
		}
	}
	if limit <= 0 {
		limit = defaultLimit
	}
	stored, err := d.store.Runs(ctx, name, limit)
	if err != nil {
		return nil, d.storing(err)
	}
	all := make([]control.Run, len(stored))
	for i, r := range stored {
		all[i] = d.overlay(r)
	}
	return all, nil
}

// Run implements [control.Backend].
func (d *Daemon) Run(ctx context.Context, id string) (control.Run, error) {
	if err := d.enter(ctx); err != nil {
		return control.Run{}, err
	}
	defer d.calls.Done()
	return d.run(ctx, id)
}

func (d *Daemon) run(ctx context.Context, id string) (control.Run, error) {
	stored, err := d.store.Run(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return control.Run{}, control.NewProblem(control.NotFound, "there is no run %q: it may be older than those that are kept", id)
	case err != nil:
		return control.Run{}, d.storing(err)
	}
	return d.overlay(stored), nil
}

// Cancel implements [control.Backend]. It returns when all is rolled back.
func (d *Daemon) Cancel(ctx context.Context, id string) (control.Run, error) {
	if err := d.enter(ctx); err != nil {
		return control.Run{}, err
	}
	defer d.calls.Done()
	if err := d.endRuns(ctx, errCancelled, func(e *execution) bool { return e.id == id }); err != nil {
		return control.Run{}, err
	}
	return d.run(ctx, id)
}

// endRuns ends those of the runs that which chooses, and waits until they are over.
func (d *Daemon) endRuns(ctx context.Context, why error, which func(*execution) bool) error {
	d.mu.RLock()
	var ending []*execution
	for _, e := range d.runs {
		if which(e) {
			ending = append(ending, e)
		}
	}
	d.mu.RUnlock()
	for _, e := range ending {
		e.stop(why)
	}
	d.endQueued()
	for _, e := range ending {
		select {
		case <-e.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Events implements [control.Backend]. Of a run that is over there are the events
// that say more than what the clock shows.
func (d *Daemon) Events(ctx context.Context, id string, after int, f func(control.RunEvent) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.mu.RLock()
	e := d.runs[id]
	d.mu.RUnlock()
	events, err := d.storedEvents(ctx, id, after)
	d.calls.Done() // who listens is not waited for
	if err != nil {
		return err
	}
	for _, event := range events {
		if err := f(event); err != nil {
			return err
		}
		after = event.N
	}
	if e == nil {
		return nil
	}
	return e.feed.follow(ctx, after, f)
}

func (d *Daemon) storedEvents(ctx context.Context, id string, after int) ([]control.RunEvent, error) {
	if _, err := d.run(ctx, id); err != nil {
		return nil, err
	}
	events, err := d.store.Events(ctx, id, after)
	return events, d.storing(err)
}

// Journal implements [control.Backend].
func (d *Daemon) Journal(ctx context.Context, id string, n int, w io.Writer) error {
	data, err := d.journal(ctx, id, n)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// Report implements [control.Backend].
func (d *Daemon) Report(ctx context.Context, id string, n int, w io.Writer) error {
	data, err := d.journal(ctx, id, n)
	if err != nil {
		return err
	}
	j := new(journal.Journal)
	if err := j.UnmarshalJSON(data); err != nil {
		return err
	}
	return j.WriteHTML(w)
}

func (d *Daemon) journal(ctx context.Context, id string, n int) ([]byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	r, err := d.run(ctx, id)
	if err != nil {
		return nil, err
	}
	data, err := d.store.Journal(ctx, id, n)
	switch {
	case errors.Is(err, store.ErrNotFound) && r.Journals == 0:
		return nil, control.NewProblem(control.NotFound, "run %s has no journal, and is %s", id, r.State)
	case errors.Is(err, store.ErrNotFound):
		return nil, control.NewProblem(control.NotFound, "run %s has no journal %d, want from 1 to %d", id, n, r.Journals)
	case err != nil:
		return nil, d.storing(err)
	}
	return data, nil
}
