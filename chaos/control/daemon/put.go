package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// Put implements [control.Backend]. What has failed and is put again as it is, is
// started again at once.
func (d *Daemon) Put(ctx context.Context, kind control.Kind, name string, seen int64, data []byte) (control.Resource, bool, error) {
	if err := d.enter(ctx); err != nil {
		return control.Resource{}, false, err
	}
	defer d.calls.Done()
	spec, err := parseSpec(kind, data)
	if err != nil {
		return control.Resource{}, false, err
	}
	if !control.ValidName(name) {
		p := control.NewProblem(control.Invalid, "")
		p.Fields = []control.FieldError{{Field: "name", Detail: fmt.Sprintf("is %q, want %s", name, control.NameRule)}}
		return control.Resource{}, false, p
	}
	k := key{kind, name}
	done, err := d.turns.take(ctx, k)
	if err != nil {
		return control.Resource{}, false, err
	}
	defer done()
	before, after, err := d.write(ctx, k, seen, spec)
	if err != nil {
		return control.Resource{}, false, err
	}
	switch {
	case before == nil:
		d.cfg.Log.Info("created", "resource", k.String(), "id", after.stored.ID)
	case after.keeper == before.keeper && after.keeper != nil:
		after.keeper.retry()
	case before.stored.Generation != after.stored.Generation:
		d.cfg.Log.Info("changed", "resource", k.String(), "generation", after.stored.Generation)
	}
	if after.keeper != nil && (before == nil || before.keeper != after.keeper) {
		if before != nil {
			before.keeper.stop() // its addresses are the same
		}
		after.keeper.start(d.life)
	}
	if before != nil && !slices.Equal(before.stored.Addrs, after.stored.Addrs) {
		d.follow(k)
	}
	view, err := d.view(ctx, k)
	return view, before == nil, err
}

// write decides about a spec and stores it. before is nil if there was none; where
// nothing has changed, before and after are the same. The keeper of what has
// changed is still to be started.
func (d *Daemon) write(ctx context.Context, k key, seen int64, s spec) (before *resource, after resource, err error) {
	done, err := d.turns.take(ctx, decision)
	if err != nil {
		return nil, after, err
	}
	defer done()
	if found, err := d.find(k); err == nil {
		before = &found
	}
	if before != nil && bytes.Equal(before.stored.Spec, s.text()) {
		return before, *before, nil
	}
	if err := checkSeen(k, seen, before); err != nil {
		return nil, after, err
	}
	if err := d.checkReferences(s); err != nil {
		return nil, after, err
	}
	now := time.Now().UTC()
	after = resource{key: k, spec: s}
	if before != nil {
		after = *before
		after.spec = s
	} else {
		after.stored = store.Resource{ID: strings.ToLower(rand.Text()), Kind: k.kind, Name: k.name, Created: now}
	}
	after.stored.Generation++
	after.stored.Updated, after.stored.Spec = now, s.text()
	held, err := d.addresses(&after)
	if err != nil {
		return nil, after, err
	}
	if err := d.store.Put(ctx, after.stored); err != nil {
		closeAll(slices.Collect(maps.Values(held)))
		return nil, after, d.storing(err)
	}
	after.keeper = d.keeper(&after, held)
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.resources[k]; now != nil {
		after.lastRun, after.verdict, after.verdictSeq = now.lastRun, now.verdict, now.verdictSeq // a run may have ended
	}
	d.resources[k] = new(after)
	return before, after, nil
}

// checkSeen holds what a caller has seen against what there is.
func checkSeen(k key, seen int64, there *resource) error {
	switch {
	case seen == -1:
	case seen == 0 && there != nil:
		return control.NewProblem(control.Stale, "there is %v already, with another spec: its generation is %d", k, there.stored.Generation)
	case seen != 0 && there == nil:
		return control.NewProblem(control.Stale, "there is no %v any more, and generation %d was seen", k, seen)
	case there != nil && seen != there.stored.Generation:
		return control.NewProblem(control.Stale, "%v has generation %d, and %d was seen: somebody has changed it meanwhile", k, there.stored.Generation, seen)
	}
	return nil
}

// checkReferences sees to it that what a spec refers to is there, and that an
// experiment can be run with it.
func (d *Daemon) checkReferences(s spec) error {
	r := &reader{}
	fields := s.refers()
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		k := fields[field]
		if there, err := d.find(k); err == nil && !there.leaving {
			continue
		}
		d.mu.RLock()
		var names []string
		for other := range d.resources {
			if other.kind == k.kind {
				names = append(names, other.name)
			}
		}
		d.mu.RUnlock()
		text := fmt.Sprintf("is %q, and there is no %v", k.name, k)
		slices.Sort(names)
		if near := experiment.Nearest(k.name, names); near != "" {
			text += "; did you mean " + near + "?"
		}
		r.fault(field, "%s", text)
	}
	if r.problem != nil {
		return r.problem
	}
	if e, ok := s.(*experimentSpec); ok {
		_, err := d.define(e)
		return err
	}
	return nil
}

// addresses gives a resource its addresses: those that its spec has, or those that
// it has, or new ones, for which it returns listeners.
func (d *Daemon) addresses(r *resource) (held map[string]net.Listener, err error) {
	kept := make(map[string]key)
	d.mu.RLock()
	for k, other := range d.resources {
		for _, addr := range other.stored.Addrs {
			kept[addr] = k
		}
	}
	d.mu.RUnlock()
	before := r.stored.Addrs
	wanted := r.spec.listens()
	held = make(map[string]net.Listener)
	var addrs []string
	for i, want := range wanted {
		addr := want.String()
		if owner, taken := kept[addr]; taken && owner != r.key {
			err = control.NewProblem(control.Conflict, "%s is the address of %v", addr, owner)
			break
		}
		if want.Port() == 0 && i < len(before) && strings.HasPrefix(before[i], want.Addr().String()+":") {
			addr = before[i]
		} else if want.Port() == 0 {
			l, failed := reserve(want.Addr().String(), func(addr string) bool {
				_, taken := kept[addr]
				return taken || slices.Contains(addrs, addr)
			})
			if failed != nil {
				err = fmt.Errorf("daemon: %v: %w", r.key, failed)
				break
			}
			addr = l.Addr().String()
			held[addr] = l
		}
		if slices.Contains(addrs, addr) {
			err = control.NewProblem(control.Conflict, "%s is given, and is kept for another replica", addr)
			break
		}
		addrs = append(addrs, addr)
	}
	if err != nil {
		closeAll(slices.Collect(maps.Values(held)))
		return nil, err
	}
	r.stored.Addrs = addrs
	return held, nil
}

// follow starts the load balancers again that stand before a server whose addresses
// have changed. It waits for their turns whether the caller still does or not.
func (d *Daemon) follow(server key) {
	for _, k := range d.referrers(server) {
		if k.kind != control.LoadBalancers {
			continue
		}
		done, err := d.turns.take(d.life, k)
		if err != nil {
			return
		}
		d.restart(k)
		done()
	}
}

// restart starts a resource again on its addresses. It is the caller's turn.
func (d *Daemon) restart(k key) {
	d.mu.Lock()
	r := d.resources[k]
	if r == nil {
		d.mu.Unlock()
		return
	}
	before := r.keeper
	r.keeper = d.keeper(r, nil)
	now := r.keeper
	d.mu.Unlock()
	before.stop()
	now.start(d.life)
	now.wait(d.life)
}
