package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// Many who do everything at once get answers that are theirs to have, and leave
// what is the same after a restart.
func TestManyAtOnce(t *testing.T) {
	const callers, calls = 8, 60
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	dir := dataDir(t)
	cfg := daemon.Config{DataDir: dir, Concurrency: 2, Runner: runner(func(ctx context.Context, def *experiment.Definition, o engine.Options) (*journal.Journal, error) {
		timer := time.NewTimer(5 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return written(def, journal.Upheld, ""), nil
		case <-ctx.Done():
			return written(def, journal.AbortedVerdict, ""), nil
		}
	})}
	d, stop := start(t, cfg)
	ctx := testContext(t)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(caller)))
			name := func() string { return fmt.Sprintf("x-%d", random.IntN(3)) }
			for call := range calls {
				var err error
				switch random.IntN(12) {
				case 0, 1:
					_, _, err = d.Put(ctx, control.Servers, name(), -1, fmt.Appendf(nil, `{"settings": {"replicas": %d, "session_ttl": "%ds"}}`, 1+random.IntN(3), 1+call))
				case 2, 3:
					_, _, err = d.Put(ctx, control.LoadBalancers, name(), int64(random.IntN(3)-1), fmt.Appendf(nil, `{"server": %q, "settings": {"idle_timeout": "%ds"}}`, name(), 1+call))
				case 4, 5:
					_, _, err = d.Put(ctx, control.Experiments, name(), -1, []byte(experimentSpec(small, "server", name(), "load_balancer", name())))
				case 6:
					err = d.Delete(ctx, control.Kinds()[random.IntN(3)], name(), -1)
				case 7, 8:
					var r control.Run
					if r, err = d.Start(ctx, name(), fmt.Sprint(random.IntN(100)), control.RunRequest{}); err == nil && random.IntN(2) == 0 {
						_, err = d.Cancel(ctx, r.ID)
					}
				case 9:
					var runs []control.Run
					if runs, err = d.Runs(ctx, "", 3); err == nil && len(runs) > 0 {
						err = d.Events(ctx, runs[len(runs)-1].ID, 0, func(control.RunEvent) error { return nil })
					}
				case 10:
					_, err = d.List(ctx, control.Kinds()[random.IntN(3)])
				case 11:
					if _, err = d.Halt(ctx, "for a moment"); err == nil {
						_, err = d.Resume(ctx)
					}
				}
				var p *control.Problem
				if err != nil && (!errors.As(err, &p) || p.Type == control.Internal || p.Type == control.Unavailable) {
					t.Errorf("caller %d, call %d: %v", caller, call, err)
				}
			}
		})
	}
	all.Wait()
	before := everything(t, d)
	stop()
	d, _ = start(t, cfg)
	if after := everything(t, d); after != before {
		t.Errorf("after a restart there is\n%s\nwant\n%s", after, before)
	}
}

// everything is what there is, when no run is queued or active.
func everything(t *testing.T, d *daemon.Daemon) (text string) {
	t.Helper()
	runs, err := d.Runs(testContext(t), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		r = over(t, d, r.ID)
		text += fmt.Sprintln(r.ID, r.Experiment, r.State, r.Verdict, r.Reason, r.Journals)
	}
	for _, kind := range control.Kinds() {
		list, err := d.List(testContext(t), kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if kind != control.Experiments { // another test may have had the port
				r = await(t, d, kind, r.Name, control.Running)
			}
			text += fmt.Sprintf("%+v\n", r)
			if r.Status.URL != "" && initialize(t, r.Status.URL) != "200" {
				t.Errorf("%s/%s does not serve", kind, r.Name)
			}
		}
	}
	return text
}
