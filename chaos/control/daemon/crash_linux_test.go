package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

const (
	crashOperations = 200
	crashes         = 10
	// forever is the seed of runs that do not end by themselves; those with another
	// take so many milliseconds.
	forever = 1 << 20
)

// operation is what the process that is to be killed is asked to do.
type operation struct {
	Do   string // put, delete, start, active, rest, await, list
	Kind control.Kind
	Name string // of a resource, or the id of a run
	Spec json.RawMessage
	Seed uint64 // of a run, or the number of an event
}

// answer is what it says to that.
type answer struct {
	Resource  control.Resource
	Resources []control.Resource
	Run       control.Run
	Runs      []control.Run
	Events    []control.RunEvent
	Last      int // the number of an event
	Problem   *control.Problem
	Error     string
}

func init() { crashChild = serveOperations }

// serveOperations is a daemon that takes operations from its standard input until
// it is killed.
func serveOperations(dir string) int {
	ctx := context.Background()
	d, err := daemon.Open(ctx, daemon.Config{DataDir: dir, Runner: runner(func(ctx context.Context, def *experiment.Definition, o engine.Options) (*journal.Journal, error) {
		for range 20 {
			o.Progress(engine.Progress{Phase: engine.Method})
		}
		timer := time.NewTimer(time.Duration(o.Seed) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return written(def, journal.Upheld, ""), nil
		case <-ctx.Done():
			return written(def, journal.AbortedVerdict, ""), nil
		}
	})})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go d.Serve(ctx)
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var op operation
		if err := in.Decode(&op); err != nil {
			d.Close()
			return 0
		}
		a, err := op.do(ctx, d)
		if err != nil && !errors.As(err, &a.Problem) {
			a.Error = err.Error()
		}
		out.Encode(a)
	}
}

func (op operation) do(ctx context.Context, d *daemon.Daemon) (a answer, err error) {
	switch op.Do {
	case "put":
		a.Resource, _, err = d.Put(ctx, op.Kind, op.Name, -1, op.Spec)
	case "delete":
		err = d.Delete(ctx, op.Kind, op.Name, -1)
	case "start":
		a.Run, err = d.Start(ctx, op.Name, "", control.RunRequest{Seed: op.Seed})
	case "active":
		stop := errors.New("stop")
		err = d.Events(ctx, op.Name, 0, func(e control.RunEvent) error {
			if a.Last = e.N; a.Last < 20 {
				return nil
			}
			return stop
		})
		if err == stop {
			err = nil
		}
	case "rest":
		err = d.Events(ctx, op.Name, int(op.Seed), func(e control.RunEvent) error {
			a.Events = append(a.Events, e)
			return nil
		})
	case "await":
		if err = d.Events(ctx, op.Name, 0, func(control.RunEvent) error { return nil }); err == nil {
			a.Run, err = d.Run(ctx, op.Name)
		}
	case "list":
		for _, kind := range control.Kinds() {
			some, err := d.List(ctx, kind)
			if err != nil {
				return a, err
			}
			a.Resources = append(a.Resources, some...)
		}
		a.Runs, err = d.Runs(ctx, "", 10*crashOperations)
	}
	return a, err
}

// victim is the process that is killed.
type victim struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	err bytes.Buffer
}

func startVictim(t *testing.T, dir, temp string) *victim {
	t.Helper()
	v := &victim{cmd: exec.Command(os.Args[0])}
	v.cmd.Env = append(os.Environ(), crashDir+"="+dir, "TMPDIR="+temp)
	v.cmd.Stderr = &v.err
	var err error
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	v.out = json.NewDecoder(out)
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return v
}

// ask has an operation done; alive is false if the victim died before it said so.
func (v *victim) ask(op operation) (a answer, alive bool) {
	if json.NewEncoder(v.in).Encode(op) != nil {
		return a, false
	}
	return a, v.out.Decode(&a) == nil
}

// askUntilAllRuns lists everything, when all of it runs: somebody else may have had
// a port meanwhile, another test for example.
func (v *victim) askUntilAllRuns(t *testing.T) (a answer, alive bool) {
	ctx := testContext(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, alive = v.ask(operation{Do: "list"})
		taken := func(r control.Resource) bool { return strings.Contains(r.Status.Reason, "address already in use") }
		if !alive || ctx.Err() != nil || !slices.ContainsFunc(a.Resources, taken) {
			return a, alive
		}
		<-tick.C
	}
}

func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

// model is what has been acknowledged.
type model struct {
	random    *rand.Rand
	engines   []string
	resources map[string]control.Resource // by kind and name
	runs      map[string]control.Run      // those of experiments that are there
	count     int
}

func path(kind control.Kind, name string) string { return string(kind) + "/" + name }

// next is a random operation, most of which succeed.
func (m *model) next() operation {
	m.count++
	pick := func(of string, n int) string { return fmt.Sprintf("%s-%d", of, m.random.IntN(n)) }
	spec := func(v any) json.RawMessage {
		data, _ := json.Marshal(v)
		return data
	}
	switch n := m.random.IntN(20); {
	case n < 5:
		settings := fmt.Appendf(nil, `{"session_ttl": "%ds", "replicas": %d}`, 10+m.count, 1+m.random.IntN(3))
		return operation{Do: "put", Kind: control.Servers, Name: pick("s", 4), Spec: spec(control.ServerSpec{Settings: settings})}
	case n < 10:
		settings := fmt.Appendf(nil, `{"idle_timeout": "%ds", "engine": %q}`, 10+m.count, m.engines[m.random.IntN(len(m.engines))])
		return operation{Do: "put", Kind: control.LoadBalancers, Name: pick("b", 4), Spec: spec(control.LoadBalancerSpec{Server: pick("s", 4), Settings: settings})}
	case n < 13:
		definition := strings.Replace(small, "It proves nothing.", fmt.Sprintf("Number %d.", m.count), 1)
		return operation{Do: "put", Kind: control.Experiments, Name: pick("e", 3), Spec: spec(control.ExperimentSpec{Definition: definition})}
	case n < 15:
		kind := control.Kinds()[m.random.IntN(3)]
		return operation{Do: "delete", Kind: kind, Name: pick(map[control.Kind]string{control.Servers: "s", control.LoadBalancers: "b", control.Experiments: "e"}[kind], 3)}
	case n < 18 || len(m.runs) == 0:
		return operation{Do: "start", Kind: control.Experiments, Name: pick("e", 3), Seed: 1 + m.random.Uint64N(30)}
	}
	ids := make([]string, 0, len(m.runs))
	for id := range m.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return operation{Do: "await", Name: ids[m.random.IntN(len(ids))]}
}

// acknowledge takes an answer in.
func (m *model) acknowledge(t *testing.T, op operation, a answer) {
	t.Helper()
	switch {
	case a.Error != "":
		t.Fatalf("%s %s/%s: %s", op.Do, op.Kind, op.Name, a.Error)
	case a.Problem != nil:
		if p := a.Problem.Type; p != control.NotFound && p != control.Conflict && p != control.Invalid {
			t.Fatalf("%s %s/%s: %v", op.Do, op.Kind, op.Name, a.Problem)
		}
	case op.Do == "put":
		m.resources[path(op.Kind, op.Name)] = a.Resource
	case op.Do == "delete":
		delete(m.resources, path(op.Kind, op.Name))
		if op.Kind == control.Experiments {
			m.forget(op.Name)
		}
	case op.Do == "start", op.Do == "await":
		m.runs[a.Run.ID] = a.Run
	}
}

// forget forgets the runs of an experiment that is not there any more.
func (m *model) forget(name string) {
	for id, r := range m.runs {
		if r.Experiment == name {
			delete(m.runs, id)
		}
	}
}

// compare holds what is there against what was acknowledged. pending is the
// operation that was not: it has been done, or it has not.
func (m *model) compare(t *testing.T, pending operation, a answer) (interrupted int) {
	t.Helper()
	there := make(map[string]control.Resource)
	for _, r := range a.Resources {
		there[path(r.Kind, r.Name)] = r
		if r.Status.State != control.Running {
			t.Errorf("%s/%s is %s: %s", r.Kind, r.Name, r.Status.State, r.Status.Reason)
		}
	}
	maybe := path(pending.Kind, pending.Name)
	for name, want := range m.resources {
		got, ok := there[name]
		switch {
		case ok && got.ID == want.ID && got.Generation == want.Generation && bytes.Equal(got.Spec, want.Spec) && slices.Equal(got.Status.Addrs, want.Status.Addrs):
		case name == maybe && !ok && pending.Do == "delete":
			if pending.Kind == control.Experiments {
				m.forget(pending.Name)
			}
			delete(m.resources, name)
		case name == maybe && ok && pending.Do == "put" && got.ID == want.ID && got.Generation == want.Generation+1:
			m.resources[name] = got
		default:
			t.Errorf("%s is there: %v, as\n%+v, want\n%+v (pending: %s %s)", name, ok, got, want, pending.Do, maybe)
		}
	}
	for name, got := range there {
		if _, known := m.resources[name]; known {
			continue
		}
		if name != maybe || pending.Do != "put" || got.Generation != 1 {
			t.Errorf("%s is there, as %+v, and should not (pending: %s %s)", name, got, pending.Do, maybe)
		}
		m.resources[name] = got
	}
	runs := make(map[string]control.Run)
	for _, r := range a.Runs {
		runs[r.ID] = r
		if r.State == control.Interrupted {
			interrupted++
			// A deletion may have come as far as this.
			if !strings.Contains(r.Reason, "sudden end") && !strings.Contains(r.Reason, "experiment was deleted") {
				t.Errorf("run %s is interrupted because %q, want because of the daemon's end", r.ID, r.Reason)
			}
		}
	}
	for id, want := range m.runs {
		got, ok := runs[id]
		if !ok || want.State.Final() && (got.State != want.State || got.Verdict != want.Verdict || got.Journals != want.Journals) {
			t.Errorf("run %s is there: %v, as %+v, want %+v", id, ok, got, want)
		}
	}
	for id, r := range runs {
		if _, known := m.runs[id]; !known && (pending.Do != "start" || r.Experiment != pending.Name) {
			t.Errorf("run %s of %s is there, and nobody began it", id, r.Experiment)
		}
		m.runs[id] = r
	}
	return interrupted
}

// orphans are the processes that have anything to do with a folder.
func orphans(folder string) (all []string) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		if strings.HasPrefix(cwd, folder) || bytes.Contains(line, []byte(folder)) {
			all = append(all, filepath.Base(p)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return all
}

// awaitNone waits until nothing is left of a victim.
func awaitNone(t *testing.T, temp string) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left, _ := os.ReadDir(temp)
		running := orphans(temp)
		if len(left) == 0 && len(running) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("of a daemon that was killed there are the processes %q and the files %v", running, left)
		}
	}
}

// Whatever is acknowledged is there after a sudden end, on its old ports, and
// nothing else is left of the daemon before.
func TestSuddenEnds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	m := &model{random: rand.New(rand.NewPCG(seed, 0)), engines: []string{"embedded", "embedded"}, resources: map[string]control.Resource{}, runs: map[string]control.Run{}}
	for _, e := range []lb.Engine{lb.HAProxy, lb.NGINX} {
		if lb.Available(e) == nil {
			m.engines = append(m.engines, string(e))
		}
	}
	dir := dataDir(t)
	temp := filepath.Join(t.TempDir(), "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	v := startVictim(t, dir, temp)
	defer func() { v.kill() }()

	var interrupted, acknowledged int
	var active string // the run of the first sudden end
	var lastSeen int
	unfinished := make(map[string]int)
	for crash := range crashes {
		for range crashOperations / crashes {
			op := m.next()
			a, alive := v.ask(op)
			if !alive {
				t.Fatalf("the daemon died at %s %s/%s: %s", op.Do, op.Kind, op.Name, v.err.String())
			}
			m.acknowledge(t, op, a)
			acknowledged++
		}
		if crash == 0 { // in the middle of a run
			name, kind := "forever", control.Experiments
			spec, _ := json.Marshal(control.ExperimentSpec{Definition: small})
			for _, op := range []operation{{Do: "put", Kind: kind, Name: name, Spec: spec}, {Do: "start", Kind: kind, Name: name, Seed: forever}} {
				a, _ := v.ask(op)
				m.acknowledge(t, op, a)
				if op.Do == "start" {
					seen, _ := v.ask(operation{Do: "active", Name: a.Run.ID})
					active, lastSeen = a.Run.ID, seen.Last
				}
			}
		}
		// Most of the time goes by while a program starts. Without programs the end
		// comes nearer to where things are written.
		engines := m.engines
		if crash%2 == 1 {
			m.engines = engines[:2]
		}
		timer := time.AfterFunc(time.Duration(m.random.IntN(int(50*time.Millisecond))), func() { v.cmd.Process.Kill() })
		pending := m.next()
		a, alive := v.ask(pending)
		for alive {
			m.acknowledge(t, pending, a)
			acknowledged++
			pending = m.next()
			a, alive = v.ask(pending)
		}
		timer.Stop()
		m.engines = engines
		v.kill()
		// The next one starts while what is left of this one goes.
		v = startVictim(t, dir, temp)
		a, alive = v.askUntilAllRuns(t)
		if !alive || a.Problem != nil || a.Error != "" {
			t.Fatalf("after a sudden end: %v %s, %s", a.Problem, a.Error, v.err.String())
		}
		unfinished[pending.Do]++
		interrupted = max(interrupted, m.compare(t, pending, a))
		// Who has followed the run goes on where they were, and is told of its end.
		rest, _ := v.ask(operation{Do: "rest", Name: active, Seed: uint64(lastSeen)})
		if n := len(rest.Events); n != 1 || rest.Events[0].N <= lastSeen || rest.Events[0].State != control.Interrupted {
			t.Errorf("after event %d there are %+v (%v), want that the run is interrupted", lastSeen, rest.Events, rest.Problem)
		}
		if t.Failed() {
			return
		}
	}
	for id := range m.runs {
		if a, alive := v.ask(operation{Do: "await", Name: id}); !alive || !a.Run.State.Final() {
			t.Errorf("run %s is %s at the end, want it over: %v", id, a.Run.State, a.Problem)
		}
	}
	if interrupted == 0 {
		t.Error("no run was interrupted, want the one that was active")
	}
	v.kill()
	awaitNone(t, temp)
	t.Logf("%d operations were acknowledged, and sudden ends came in the middle of %v; %d resources and %d runs are left, %d interrupted", acknowledged, unfinished, len(m.resources), len(m.runs), interrupted)
}
