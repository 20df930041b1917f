package local

import (
	"context"
	"errors"
	"io"

	"github.com/revenant-mcp/revenant/chaos/control"
)

var _ control.Backend = (*Daemon)(nil)

// attempts is how often a call is made for which the daemon is gone each time.
const attempts = 3

// call does what f does with a daemon that is there. Where it ends in between, f is
// called again with the next one, which has everything that this one had: what the
// API changes may be asked for twice.
func call[T any](ctx context.Context, d *Daemon, f func(control.Backend) (T, error)) (result T, err error) {
	if !d.met.Load() {
		if _, err := d.Ensure(ctx); err != nil {
			return result, err
		}
	}
	for try := 1; ; try++ {
		result, err = f(d.client)
		if err == nil || !absent(err) || ctx.Err() != nil || try == attempts {
			return result, err
		}
		if _, err := d.Ensure(ctx); err != nil {
			return result, err
		}
	}
}

// Info implements [control.Backend].
func (d *Daemon) Info(ctx context.Context) (control.Info, error) {
	return call(ctx, d, func(b control.Backend) (control.Info, error) { return b.Info(ctx) })
}

// List implements [control.Backend].
func (d *Daemon) List(ctx context.Context, kind control.Kind) ([]control.Resource, error) {
	return call(ctx, d, func(b control.Backend) ([]control.Resource, error) { return b.List(ctx, kind) })
}

// Get implements [control.Backend].
func (d *Daemon) Get(ctx context.Context, kind control.Kind, name string) (control.Resource, error) {
	return call(ctx, d, func(b control.Backend) (control.Resource, error) { return b.Get(ctx, kind, name) })
}

// Put implements [control.Backend].
func (d *Daemon) Put(ctx context.Context, kind control.Kind, name string, seen int64, spec []byte) (r control.Resource, created bool, err error) {
	r, err = call(ctx, d, func(b control.Backend) (control.Resource, error) {
		r, now, err := b.Put(ctx, kind, name, seen, spec)
		created = created || now
		return r, err
	})
	return r, created, err
}

// Delete implements [control.Backend].
func (d *Daemon) Delete(ctx context.Context, kind control.Kind, name string, seen int64) error {
	_, err := call(ctx, d, func(b control.Backend) (struct{}, error) { return struct{}{}, b.Delete(ctx, kind, name, seen) })
	return err
}

// Start implements [control.Backend].
func (d *Daemon) Start(ctx context.Context, experiment, key string, r control.RunRequest) (control.Run, error) {
	if key == "" { // a second try would be a second run
		if _, err := d.Ensure(ctx); err != nil {
			return control.Run{}, err
		}
		return d.client.Start(ctx, experiment, key, r)
	}
	return call(ctx, d, func(b control.Backend) (control.Run, error) { return b.Start(ctx, experiment, key, r) })
}

// Runs implements [control.Backend].
func (d *Daemon) Runs(ctx context.Context, experiment string, limit int) ([]control.Run, error) {
	return call(ctx, d, func(b control.Backend) ([]control.Run, error) { return b.Runs(ctx, experiment, limit) })
}

// Run implements [control.Backend].
func (d *Daemon) Run(ctx context.Context, id string) (control.Run, error) {
	return call(ctx, d, func(b control.Backend) (control.Run, error) { return b.Run(ctx, id) })
}

// Cancel implements [control.Backend].
func (d *Daemon) Cancel(ctx context.Context, id string) (control.Run, error) {
	return call(ctx, d, func(b control.Backend) (control.Run, error) { return b.Cancel(ctx, id) })
}

// Events implements [control.Backend].
func (d *Daemon) Events(ctx context.Context, id string, after int, f func(control.RunEvent) error) error {
	var refused error
	_, err := call(ctx, d, func(b control.Backend) (struct{}, error) {
		err := b.Events(ctx, id, after, func(e control.RunEvent) error {
			after = e.N
			refused = f(e)
			return refused
		})
		if refused != nil {
			return struct{}{}, nil
		}
		return struct{}{}, err
	})
	return errors.Join(refused, err)
}

// Journal implements [control.Backend]. It is not asked for again: part of it may
// have been written.
func (d *Daemon) Journal(ctx context.Context, id string, n int, w io.Writer) error {
	if _, err := d.Ensure(ctx); err != nil {
		return err
	}
	return d.client.Journal(ctx, id, n, w)
}

// Report implements [control.Backend], as Journal does.
func (d *Daemon) Report(ctx context.Context, id string, n int, w io.Writer) error {
	if _, err := d.Ensure(ctx); err != nil {
		return err
	}
	return d.client.Report(ctx, id, n, w)
}

// Halt implements [control.Backend].
func (d *Daemon) Halt(ctx context.Context, reason string) (control.Info, error) {
	return call(ctx, d, func(b control.Backend) (control.Info, error) { return b.Halt(ctx, reason) })
}

// Resume implements [control.Backend].
func (d *Daemon) Resume(ctx context.Context) (control.Info, error) {
	return call(ctx, d, func(b control.Backend) (control.Info, error) { return b.Resume(ctx) })
}
