package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// with starts a daemon with a runner and the experiment "small".
func with(t *testing.T, dir string, r daemon.Runner) (*daemon.Daemon, func()) {
	t.Helper()
	d, stop := start(t, daemon.Config{DataDir: dir, Runner: r})
	put(t, d, control.Experiments, "small", -1, experimentSpec(small))
	return d, stop
}

func TestRun(t *testing.T) {
	verdicts := []journal.Verdict{journal.Upheld, journal.Inconclusive, journal.Upheld}
	dir := dataDir(t)
	d, stop := with(t, dir, runner(func(_ context.Context, def *experiment.Definition, o engine.Options) (*journal.Journal, error) {
		if def.TimeScale != 2 || o.Seed != 7 || !slices.Equal(o.Arms, experiment.Arms()) {
			t.Errorf("the runner has scale %v and %+v, want those of the request", def.TimeScale, o)
		}
		o.Progress(engine.Progress{Phase: engine.Method, Step: "a call"})
		o.Progress(engine.Progress{Phase: engine.Method})
		v := verdicts[o.Repeat-1]
		return written(def, v, "it is "+string(v)), nil
	}))
	queued := begin(t, d, "small", "", control.RunRequest{Repeat: 3, Scale: 2, Seed: 7, Arms: experiment.Arms()})
	if queued.State.Final() || queued.Generation != 1 {
		t.Errorf("Start() = %+v, want a run that is not over, of generation 1", queued)
	}
	events := follow(t, d, queued.ID, 0)
	r := over(t, d, queued.ID)
	if r.State != control.Done || r.Verdict != journal.Inconclusive || r.Reason != "it is inconclusive" || r.Journals != 3 || len(r.Checks) != 1 || r.Checks[0].Value != "inconclusive" {
		t.Errorf("the run is %+v, want it done with the worst of its verdicts, and 3 journals", r)
	}
	last := events[len(events)-1]
	if events[0].State != control.Queued || last.State != control.Done || last.Verdict != journal.Inconclusive {
		t.Errorf("its events are %+v, want them from queued to done", events)
	}
	if e := get(t, d, control.Experiments, "small"); e.Status.LastRun != r.ID || e.Status.Verdict != "inconclusive" {
		t.Errorf("the experiment's status is %+v, want that of the run", e.Status)
	}
	var again bytes.Buffer
	if err := d.Journal(testContext(t), r.ID, 2, &again); err != nil || !strings.Contains(again.String(), `"it is inconclusive"`) {
		t.Errorf("Journal(2) = %v\n%s", err, again.String())
	}
	again.Reset()
	if err := d.Report(testContext(t), r.ID, 2, &again); err != nil || !strings.Contains(again.String(), "<html") {
		t.Errorf("Report(2) = %v\n%.200s", err, again.String())
	}
	wantProblem(t, d.Journal(testContext(t), r.ID, 4, &again), control.NotFound, "no journal 4, want from 1 to 3")

	stop()
	d, _ = with(t, dir, newGate())
	after := over(t, d, r.ID)
	if fmt.Sprint(after.State, after.Verdict, after.Journals, after.Checks, *after.Ended) != fmt.Sprint(r.State, r.Verdict, r.Journals, r.Checks, *r.Ended) {
		t.Errorf("after a restart the run is %+v, want %+v", after, r)
	}
	kept := numbers(follow(t, d, r.ID, 0))
	for _, n := range kept {
		if !slices.Contains(numbers(events), n) {
			t.Errorf("after a restart there is an event %d, which there was not among %v", n, numbers(events))
		}
	}
	if len(kept) >= len(events) || kept[len(kept)-1] != last.N {
		t.Errorf("after a restart the events are %v, want those of %v that say more than what the clock shows", kept, numbers(events))
	}
	if rest := follow(t, d, r.ID, last.N); len(rest) != 0 {
		t.Errorf("after the last event there are %v, want none", rest)
	}
}

func TestRequestsThatCannotBeMeant(t *testing.T) {
	d, _ := with(t, dataDir(t), newGate())
	ctx := testContext(t)
	for _, c := range []struct {
		req  control.RunRequest
		want string
	}{
		{control.RunRequest{Repeat: 101}, "repeat: is 101, want from 1 to 100"},
		{control.RunRequest{Repeat: -1}, "repeat: is -1"},
		{control.RunRequest{Scale: 0.5}, "scale: is 0.5, want from 1 to 1000"},
		{control.RunRequest{Arms: []string{"left"}}, `arms[0]: is "left", want control or protected`},
		{control.RunRequest{Clients: []experiment.ClientKind{"naive"}}, `clients[0]: is "naive"`},
	} {
		_, err := d.Start(ctx, "small", "", c.req)
		wantProblem(t, err, control.Invalid, c.want)
	}
	_, err := d.Start(ctx, "large", "", control.RunRequest{})
	wantProblem(t, err, control.NotFound, "experiments/large")
	_, err = d.Run(ctx, "nothing")
	wantProblem(t, err, control.NotFound, `no run "nothing"`)
	_, err = d.Cancel(ctx, "nothing")
	wantProblem(t, err, control.NotFound)
	wantProblem(t, d.Events(ctx, "nothing", 0, func(control.RunEvent) error { return nil }), control.NotFound)
	if runs, err := d.Runs(ctx, "", 0); err != nil || len(runs) != 0 {
		t.Errorf("Runs() = %v, %v, want none", runs, err)
	}
}

func TestOneRunAtATime(t *testing.T) {
	g := newGate()
	d, _ := with(t, dataDir(t), g)
	first, second := begin(t, d, "small", "", control.RunRequest{}), begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	if i, err := d.Info(testContext(t)); err != nil || i.ActiveRuns != 1 {
		t.Errorf("Info() = %+v, %v, want one active run", i, err)
	}
	if r, _ := d.Run(testContext(t), second.ID); r.State != control.Queued {
		t.Errorf("the second is %s, want queued", r.State)
	}
	g.goOn <- journal.Upheld
	g.await(t)
	g.goOn <- journal.Deviated
	if a, b := over(t, d, first.ID), over(t, d, second.ID); a.Verdict != journal.Upheld || b.Verdict != journal.Deviated {
		t.Errorf("the verdicts are %s and %s, want upheld and deviated", a.Verdict, b.Verdict)
	}
	runs, err := d.Runs(testContext(t), "small", 10)
	if err != nil || !slices.Equal(ids(runs), []string{second.ID, first.ID}) {
		t.Errorf("Runs() = %v, %v, want the latest first", ids(runs), err)
	}
	if runs, _ := d.Runs(testContext(t), "", 1); len(runs) != 1 || runs[0].ID != second.ID {
		t.Errorf("Runs(1) = %v, want the latest alone", ids(runs))
	}
}

func TestTwoRunsAtATime(t *testing.T) {
	g := newGate()
	d, _ := start(t, daemon.Config{DataDir: dataDir(t), Runner: g, Concurrency: 2})
	put(t, d, control.Experiments, "small", 0, experimentSpec(small))
	begin(t, d, "small", "", control.RunRequest{})
	begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	g.await(t)
}

func TestIdempotencyKey(t *testing.T) {
	g := newGate()
	dir := dataDir(t)
	d, stop := with(t, dir, g)
	first := begin(t, d, "small", "k", control.RunRequest{Seed: 1})
	if again := begin(t, d, "small", "k", control.RunRequest{Seed: 1}); again.ID != first.ID {
		t.Errorf("with the same key it is run %s, want %s", again.ID, first.ID)
	}
	_, err := d.Start(testContext(t), "small", "k", control.RunRequest{Seed: 2})
	wantProblem(t, err, control.Conflict, first.ID, "another request")
	put(t, d, control.Experiments, "other", 0, experimentSpec(small))
	if other := begin(t, d, "other", "k", control.RunRequest{Seed: 1}); other.ID == first.ID {
		t.Error("another experiment has the same run for the key")
	}
	stop()
	d, _ = with(t, dir, g)
	if again := begin(t, d, "small", "k", control.RunRequest{Seed: 1}); again.ID != first.ID {
		t.Errorf("after a restart it is run %s, want %s", again.ID, first.ID)
	}
}

func TestCancel(t *testing.T) {
	g := newGate()
	d, _ := with(t, dataDir(t), g)
	active, queued := begin(t, d, "small", "", control.RunRequest{Repeat: 2}), begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	g.goOn <- journal.Upheld
	g.await(t)
	for _, id := range []string{queued.ID, active.ID, active.ID} {
		r, err := d.Cancel(testContext(t), id)
		if err != nil || r.State != control.Interrupted || r.Reason != "it was cancelled" || r.Verdict != journal.AbortedVerdict || r.Ended == nil {
			t.Errorf("Cancel() = %+v, %v, want an interrupted run", r, err)
		}
	}
	if r := over(t, d, active.ID); r.Journals != 2 {
		t.Errorf("it has %d journals, want that of the run before, and that of the one that was interrupted", r.Journals)
	}
	events := follow(t, d, queued.ID, 0)
	if got := numbers(events); len(got) != 2 || events[1].State != control.Interrupted {
		t.Errorf("the events of the queued run are %+v, want that it was queued, and interrupted", events)
	}
}

// The verdict of an experiment is that of its latest run that is over, and not of
// the one that was over last.
func TestVerdictOfTheLatestRun(t *testing.T) {
	g := newGate()
	d, _ := with(t, dataDir(t), g)
	first, second := begin(t, d, "small", "", control.RunRequest{}), begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	if _, err := d.Cancel(testContext(t), second.ID); err != nil {
		t.Fatal(err)
	}
	g.goOn <- journal.Upheld
	over(t, d, first.ID)
	if e := get(t, d, control.Experiments, "small"); e.Status.Verdict != string(journal.AbortedVerdict) || e.Status.LastRun != second.ID {
		t.Errorf("the status is %+v, want that of the second run", e.Status)
	}
}

func TestHalt(t *testing.T) {
	g := newGate()
	dir := dataDir(t)
	d, stop := with(t, dir, g)
	ctx := testContext(t)
	active, queued := begin(t, d, "small", "k", control.RunRequest{}), begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	i, err := d.Halt(ctx, "the fire alarm")
	if err != nil || !i.Halted || i.HaltReason != "the fire alarm" || i.ActiveRuns != 0 {
		t.Errorf("Halt() = %+v, %v, want it halted, with no active run", i, err)
	}
	for _, id := range []string{active.ID, queued.ID} {
		if r, _ := d.Run(ctx, id); r.State != control.Interrupted || r.Reason != "it was halted: the fire alarm" {
			t.Errorf("run %s is %s (%q), want interrupted by the halt", id, r.State, r.Reason)
		}
	}
	_, err = d.Start(ctx, "small", "", control.RunRequest{})
	wantProblem(t, err, control.Halted, "until resume", "the fire alarm")
	if again := begin(t, d, "small", "k", control.RunRequest{}); again.ID != active.ID {
		t.Errorf("the run that was begun with the key is %s, want %s", again.ID, active.ID)
	}
	stop()
	d, _ = with(t, dir, g)
	if i, err := d.Info(ctx); err != nil || !i.Halted || i.HaltReason != "the fire alarm" {
		t.Errorf("after a restart Info() = %+v, %v, want it halted", i, err)
	}
	if i, err := d.Resume(ctx); err != nil || i.Halted || i.HaltReason != "" {
		t.Errorf("Resume() = %+v, %v, want it not halted", i, err)
	}
	begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
}

func TestStopInterruptsWhatIsActive(t *testing.T) {
	g := newGate()
	dir := dataDir(t)
	d, stop := with(t, dir, g)
	active, queued := begin(t, d, "small", "", control.RunRequest{}), begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	listening, heard := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		listening <- d.Events(context.Background(), queued.ID, 0, func(control.RunEvent) error {
			heard <- struct{}{}
			return nil
		})
	}()
	<-heard
	stop()
	wantProblem(t, <-listening, control.Unavailable)
	d, _ = with(t, dir, g)
	if r := over(t, d, active.ID); r.State != control.Interrupted || r.Reason != "the daemon was stopped" {
		t.Errorf("the active run is %s (%q), want interrupted", r.State, r.Reason)
	}
	g.await(t)
	g.goOn <- journal.Upheld
	if r := over(t, d, queued.ID); r.State != control.Done {
		t.Errorf("the queued run is %s, want done by the next daemon", r.State)
	}
}

func TestDeleteOfAnExperimentTakesItsRuns(t *testing.T) {
	g := newGate()
	d, _ := with(t, dataDir(t), g)
	active := begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	if err := d.Delete(testContext(t), control.Experiments, "small", -1); err != nil {
		t.Fatal(err)
	}
	_, err := d.Run(testContext(t), active.ID)
	wantProblem(t, err, control.NotFound)
	if e := put(t, d, control.Experiments, "small", 0, experimentSpec(small)); e.Status.LastRun != "" {
		t.Errorf("the next of the name has %+v, want no run", e.Status)
	}
}

func TestOldRunsGo(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t), KeepRuns: 2, Runner: runner(func(_ context.Context, def *experiment.Definition, _ engine.Options) (*journal.Journal, error) {
		return written(def, journal.Upheld, ""), nil
	})})
	put(t, d, control.Experiments, "small", 0, experimentSpec(small))
	var all []string
	for range 4 {
		r := begin(t, d, "small", "", control.RunRequest{})
		over(t, d, r.ID)
		all = append(all, r.ID)
	}
	// The last has gone through what is done at the end when the next begins.
	begin(t, d, "small", "", control.RunRequest{})
	ctx := testContext(t)
	for ctx.Err() == nil {
		if runs, err := d.Runs(ctx, "small", 0); err != nil || len(runs) <= 2 {
			break
		}
	}
	runs, err := d.Runs(ctx, "small", 0)
	if err != nil || len(runs) != 2 || runs[1].ID != all[3] {
		t.Errorf("Runs() = %v, %v, want the last two, of which one is %s", ids(runs), err, all[3])
	}
}

func TestRunnersThatFail(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		run          runner
	}{
		{"error", "no such thing", func(context.Context, *experiment.Definition, engine.Options) (*journal.Journal, error) {
			return nil, errors.New("no such thing")
		}},
		{"panic", "the program has a fault: oh", func(context.Context, *experiment.Definition, engine.Options) (*journal.Journal, error) { panic("oh") }},
		{"journal", "its journal is none", func(context.Context, *experiment.Definition, engine.Options) (*journal.Journal, error) {
			return new(journal.Journal), nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := with(t, dataDir(t), c.run)
			r := over(t, d, begin(t, d, "small", "", control.RunRequest{}).ID)
			if r.State != control.Interrupted || !strings.Contains(r.Reason, c.reason) || r.Journals != 0 {
				t.Errorf("the run is %+v, want it interrupted with %q", r, c.reason)
			}
		})
	}
}

// A resource's settings stand for those of the definition.
func TestExperimentWithResources(t *testing.T) {
	g := newGate()
	d, _ := with(t, dataDir(t), g)
	put(t, d, control.Servers, "s", 0, `{"settings": {"replicas": 2, "session_ttl": "90s"}}`)
	put(t, d, control.LoadBalancers, "b", 0, `{"server": "s", "settings": {"idle_timeout": "60s"}}`)
	put(t, d, control.Experiments, "e", 0, experimentSpec(small, "server", "s", "load_balancer", "b"))
	begin(t, d, "e", "", control.RunRequest{})
	def := g.await(t)
	if s := def.Topology.Servers; s.Replicas != 2 || s.SessionTTL.String() != "1m30s" {
		t.Errorf("the servers are %+v, want those of servers/s", s)
	}
	if b := def.Topology.LoadBalancer; b == nil || b.IdleTimeout.String() != "1m" {
		t.Errorf("the load balancer is %+v, want that of load-balancers/b", b)
	}
}

// Who is slow to read gets what there still is, in order, and the end.
func TestManyEvents(t *testing.T) {
	const ticks = 5000
	d, _ := with(t, dataDir(t), runner(func(_ context.Context, def *experiment.Definition, o engine.Options) (*journal.Journal, error) {
		for i := range ticks {
			o.Progress(engine.Progress{Phase: engine.Method, Clock: experiment.Duration(i)})
		}
		return written(def, journal.Upheld, ""), nil
	}))
	r := begin(t, d, "small", "", control.RunRequest{})
	got := numbers(follow(t, d, r.ID, 0))
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) || got[len(got)-1] < ticks {
		t.Errorf("the numbers of its events are %v, want them to grow, to more than %d", got, ticks)
	}
	if got := follow(t, d, r.ID, 0); len(got) > 20 {
		t.Errorf("%d events are kept, want those that say something", len(got))
	}
}
