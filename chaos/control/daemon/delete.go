package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// Delete implements [control.Backend]. With an experiment go its runs and their
// journals; those that are not over are ended first.
func (d *Daemon) Delete(ctx context.Context, kind control.Kind, name string, seen int64) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.calls.Done()
	k := key{kind, name}
	done, err := d.turns.take(ctx, k)
	if err != nil {
		return err
	}
	defer done()
	r, err := d.leave(ctx, k, seen)
	if err != nil {
		return err
	}
	if err := d.endRuns(ctx, errDeleted, func(e *execution) bool { return e.experimentID == r.stored.ID }); err != nil {
		d.stay(k)
		return err
	}
	if err := d.store.Delete(ctx, r.stored.ID); err != nil {
		d.stay(k)
		return d.storing(err)
	}
	d.mu.Lock()
	delete(d.resources, k)
	d.mu.Unlock()
	if r.keeper != nil {
		r.keeper.stop()
	}
	d.cfg.Log.Info("deleted", "resource", k.String(), "id", r.stored.ID)
	return nil
}

// leave decides that a resource is to go: from then on nothing refers to it.
func (d *Daemon) leave(ctx context.Context, k key, seen int64) (resource, error) {
	done, err := d.turns.take(ctx, decision)
	if err != nil {
		return resource{}, err
	}
	defer done()
	r, err := d.find(k)
	if err != nil {
		return resource{}, err
	}
	if err := checkSeen(k, seen, &r); err != nil {
		return resource{}, err
	}
	if others := d.referrers(k); len(others) > 0 {
		names := make([]string, len(others))
		for i, other := range others {
			names[i] = other.String()
		}
		return resource{}, control.NewProblem(control.Conflict, "%v is referred to by %s: delete or change that first", k, strings.Join(names, ", "))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resources[k].leaving = true
	return r, nil
}

// stay takes leave back.
func (d *Daemon) stay(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resources[k].leaving = false
}

// referrers are the resources that refer to one.
func (d *Daemon) referrers(to key) []key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var all []key
	for k, r := range d.resources {
		for _, other := range r.spec.refers() {
			if other == to {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b key) int { return cmp.Compare(a.String(), b.String()) })
	return all
}
