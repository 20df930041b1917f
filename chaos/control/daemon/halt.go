package daemon

import (
	"context"
	"errors"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// haltText says that the daemon is halted, and why.
func haltText(reason string) string {
	if reason == "" {
		return "it was halted"
	}
	return "it was halted: " + reason
}

func (d *Daemon) isHalted() (reason string, halted bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.haltReason, d.halted
}

// Halt implements [control.Backend]. Everything is undone also where that cannot be
// stored; then there is an error, and the daemon is halted for as long as it lives.
// Who halts one that is halted has the last word on the reason.
func (d *Daemon) Halt(ctx context.Context, reason string) (control.Info, error) {
	if err := d.enter(ctx); err != nil {
		return control.Info{}, err
	}
	defer d.calls.Done()
	d.mu.Lock()
	d.halted, d.haltReason = true, reason
	d.mu.Unlock()
	d.cfg.Log.Warn("halt", "reason", reason)
	// Nobody can take back what has been called for.
	err := d.storing(d.store.Halt(context.WithoutCancel(ctx), reason))
	ended := d.endRuns(ctx, errors.New(haltText(reason)), func(*execution) bool { return true })
	return d.info(), errors.Join(err, ended)
}

// Resume implements [control.Backend].
func (d *Daemon) Resume(ctx context.Context) (control.Info, error) {
	if err := d.enter(ctx); err != nil {
		return control.Info{}, err
	}
	defer d.calls.Done()
	if err := d.store.Resume(ctx); err != nil {
		return control.Info{}, d.storing(err)
	}
	d.mu.Lock()
	d.halted, d.haltReason = false, ""
	d.mu.Unlock()
	d.cfg.Log.Info("resumed")
	return d.info(), nil
}
