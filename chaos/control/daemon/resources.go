package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// resource is one that is there. Its fields are guarded by Daemon.mu, and change
// only in its turn; what they point to does not change.
type resource struct {
	key     key
	stored  store.Resource
	spec    spec
	keeper  *keeper // nil: there is nothing to run
	leaving bool    // it is about to be deleted, and has no new runs

	// Of an experiment. verdictSeq is the Seq of the run with the verdict.
	lastRun, verdict string
	verdictSeq       int64
}

// endpoint is where package mcpserver serves.
const endpoint = "/mcp"

// loadResources reads what there is.
func (d *Daemon) loadResources(ctx context.Context) error {
	all, err := d.store.Resources(ctx)
	if err != nil {
		return err
	}
	for _, stored := range all {
		r := &resource{key: key{stored.Kind, stored.Name}, stored: stored}
		if r.spec, err = parseSpec(stored.Kind, stored.Spec); err != nil {
			// It was right when it was stored, so it was another program that did.
			return fmt.Errorf("%v, which another version has stored, is not right for this one: %w", r.key, err)
		}
		if stored.Kind == control.Experiments {
			run, over, err := d.store.Latest(ctx, stored.ID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			r.lastRun, r.verdict, r.verdictSeq = run.ID, string(over.Verdict), over.Seq
		}
		d.resources[r.key] = r
	}
	return nil
}

// startAll starts what there is, kind by kind, and waits until it runs or has
// failed.
func (d *Daemon) startAll(ctx context.Context) {
	for _, kind := range control.Kinds() {
		var keepers []*keeper
		d.mu.Lock()
		for k, r := range d.resources {
			if k.kind != kind {
				continue
			}
			if r.keeper = d.keeper(r, nil); r.keeper != nil {
				r.keeper.patient = true
				r.keeper.start(d.life)
				keepers = append(keepers, r.keeper)
			}
		}
		d.mu.Unlock()
		for _, k := range keepers {
			k.wait(ctx)
		}
	}
}

// stopAll waits for what d.life has ended.
func (d *Daemon) stopAll() {
	var all sync.WaitGroup
	d.mu.RLock()
	for _, r := range d.resources {
		if r.keeper != nil {
			all.Go(r.keeper.stop)
		}
	}
	d.mu.RUnlock()
	all.Wait()
}

// keeper makes what keeps a resource running, nil for one that does not run. held
// are listeners on those of its addresses that are new.
func (d *Daemon) keeper(r *resource, held map[string]net.Listener) *keeper {
	var build func([]net.Listener) (thing, error)
	switch s := r.spec.(type) {
	case *serverSpec:
		build = func(l []net.Listener) (thing, error) { return buildCluster(s.cluster, l) }
	case *balancerSpec:
		build = func(l []net.Listener) (thing, error) { return buildBalancer(s.config, d.upstreams(s), l[0]) }
	default:
		return nil
	}
	return newKeeper(d.cfg.Log.With("resource", r.key.String()), d.slots, r.stored.Addrs, held, build)
}

// upstreams are where a load balancer's requests go, as of now.
func (d *Daemon) upstreams(s *balancerSpec) []string {
	if s.wire.Server == "" {
		return s.wire.Upstreams
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if r := d.resources[key{control.Servers, s.wire.Server}]; r != nil {
		return r.stored.Addrs
	}
	return nil // it is not deleted while it is referred to
}

// find returns a copy of what there is under a name.
func (d *Daemon) find(k key) (resource, error) {
	if !slices.Contains(control.Kinds(), k.kind) {
		return resource{}, noKind(k.kind)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	r := d.resources[k]
	if r == nil {
		return resource{}, control.NewProblem(control.NotFound, "there is no %v", k)
	}
	return *r, nil
}

// view returns a resource with its state, for which it waits if that is about to
// be known.
func (d *Daemon) view(ctx context.Context, k key) (control.Resource, error) {
	for {
		r, err := d.find(k)
		if err != nil {
			return control.Resource{}, err
		}
		view := control.Resource{
			Kind: k.kind, Name: k.name, ID: r.stored.ID, Generation: r.stored.Generation,
			Created: r.stored.Created, Updated: r.stored.Updated, Spec: r.stored.Spec,
			Status: control.Status{State: control.Running, Addrs: r.stored.Addrs, LastRun: r.lastRun, Verdict: r.verdict},
		}
		status := &view.Status
		if len(status.Addrs) > 0 {
			status.Addr = status.Addrs[0]
			status.URL = "http://" + status.Addr
			if b, ok := r.spec.(*balancerSpec); !ok || b.wire.Server != "" {
				status.URL += endpoint // of other upstreams only their owner knows it
			}
		}
		if e, ok := r.spec.(*experimentSpec); ok {
			if _, err := d.define(e); err != nil {
				status.State, status.Reason = control.Failed, err.Error()
			}
		}
		if r.keeper == nil {
			return view, nil
		}
		if status.State, status.Reason, err = r.keeper.wait(ctx); err != nil {
			return control.Resource{}, err
		}
		if now, err := d.find(k); err != nil || now.keeper == r.keeper {
			return view, nil
		}
	}
}

// define reads an experiment's definition as it is to be run now.
func (d *Daemon) define(e *experimentSpec) (*experiment.Definition, error) {
	var servers *experiment.Servers
	var balancer *experiment.LoadBalancer
	d.mu.RLock()
	for _, k := range e.refers() {
		if r := d.resources[k]; r != nil {
			switch s := r.spec.(type) {
			case *serverSpec:
				servers = &s.settings
			case *balancerSpec:
				balancer = &s.settings
			}
		}
	}
	d.mu.RUnlock()
	return e.define(servers, balancer)
}

// List implements [control.Backend].
func (d *Daemon) List(ctx context.Context, kind control.Kind) ([]control.Resource, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.calls.Done()
	if !slices.Contains(control.Kinds(), kind) {
		return nil, noKind(kind)
	}
	d.mu.RLock()
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(d.resources)), func(k key) bool { return k.kind != kind })
	d.mu.RUnlock()
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.name, b.name) })
	all := make([]control.Resource, 0, len(keys))
	for _, k := range keys {
		view, err := d.view(ctx, k)
		if gone := (*control.Problem)(nil); errors.As(err, &gone) {
			continue // deleted meanwhile
		} else if err != nil {
			return nil, err
		}
		all = append(all, view)
	}
	return all, nil
}

// Get implements [control.Backend].
func (d *Daemon) Get(ctx context.Context, kind control.Kind, name string) (control.Resource, error) {
	if err := d.enter(ctx); err != nil {
		return control.Resource{}, err
	}
	defer d.calls.Done()
	return d.view(ctx, key{kind, name})
}
