package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// crashDir has the data directory in the environment of a process that is to be
// killed, and crashChild is what that does; nil where no test kills any.
const crashDir = "REVENANT_TEST_CRASH_DIR"

var crashChild func(dir string) int

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" && crashChild != nil {
		os.Exit(crashChild(dir))
	}
	goleak.VerifyTestMain(m)
}

// testTime bounds what a test waits for.
const testTime = 60 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// dataDir is a data directory.
func dataDir(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }

// start runs a daemon until stop is called, or the test ends.
func start(t *testing.T, cfg daemon.Config) (d *daemon.Daemon, stop func()) {
	t.Helper()
	d, err := daemon.Open(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(context.Background()) }()
	<-d.Ready()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		d.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	}
	t.Cleanup(stop)
	return d, stop
}

// put puts a spec and wants that to work.
func put(t *testing.T, d *daemon.Daemon, kind control.Kind, name string, seen int64, spec string) control.Resource {
	t.Helper()
	r, _, err := d.Put(testContext(t), kind, name, seen, []byte(spec))
	if err != nil {
		t.Fatalf("Put(%s/%s, %s) = %v", kind, name, spec, err)
	}
	return r
}

func get(t *testing.T, d *daemon.Daemon, kind control.Kind, name string) control.Resource {
	t.Helper()
	r, err := d.Get(testContext(t), kind, name)
	if err != nil {
		t.Fatalf("Get(%s/%s) = %v", kind, name, err)
	}
	return r
}

// wantState wants a resource that runs, or one that has failed for a reason.
func wantState(t *testing.T, r control.Resource, state control.State, reason string) {
	t.Helper()
	if r.Status.State != state || !strings.Contains(r.Status.Reason, reason) {
		t.Fatalf("%s/%s is %s (%q), want %s with %q", r.Kind, r.Name, r.Status.State, r.Status.Reason, state, reason)
	}
}

// await asks until a resource is in a state.
func await(t *testing.T, d *daemon.Daemon, kind control.Kind, name string, state control.State) control.Resource {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r := get(t, d, kind, name)
		if r.Status.State == state {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s/%s is %s (%q), want %s", kind, name, r.Status.State, r.Status.Reason, state)
		}
	}
}

// wantProblem wants a problem of a kind, with texts in it.
func wantProblem(t *testing.T, err error, of control.ProblemType, texts ...string) {
	t.Helper()
	var p *control.Problem
	if !errors.As(err, &p) || p.Type != of {
		t.Errorf("the error is %v, want a problem %s", err, of)
		return
	}
	for _, text := range texts {
		if !strings.Contains(p.Error(), text) {
			t.Errorf("the problem is %q, want %q in it", p, text)
		}
	}
}

// initialize begins an MCP session and returns the answer's status.
func initialize(t *testing.T, url string) string {
	t.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTime))
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	answer := make([]byte, 12)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return string(bytes.TrimPrefix(answer[:n], []byte("HTTP/1.1 ")))
}

// small is an experiment that a runner of a test is asked to run.
const small = `
name: small
title: A small experiment
description: It proves nothing.
length: 2s
clients:
  gosdk: {}
method:
  - {name: the session is lost, at: 50ms, reap: {}}
  - {name: a call, at: 100ms, call: {name: late, tool: echo}}
hypothesis:
  control:
    dead_session_events_applied: ">= 1"
  protected:
    dead_session_events_applied: 0
`

func experimentSpec(definition string, refs ...string) string {
	spec := map[string]string{"definition": definition}
	for i := 0; i < len(refs); i += 2 {
		spec[refs[i]] = refs[i+1]
	}
	data, _ := json.Marshal(spec)
	return string(data)
}

// runner runs experiments in a test.
type runner func(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error)

func (r runner) Run(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
	return r(ctx, d, o)
}

// written is a journal with a verdict.
func written(d *experiment.Definition, v journal.Verdict, reason string) *journal.Journal {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	j := &journal.Journal{Name: d.Name, Start: at, End: at.Add(time.Second), Scale: 1, Status: journal.Completed, Verdict: v, Reason: reason}
	if v == journal.AbortedVerdict {
		j.Status = journal.Interrupted
	}
	j.After = []journal.Check{{Arm: journal.Protected, Client: "gosdk", Measure: "m", Value: string(v), Tolerance: "upheld", Met: v == journal.Upheld}}
	return j
}

// gate is a runner whose runs begin, and go on when they are told.
type gate struct {
	begun chan *experiment.Definition
	goOn  chan journal.Verdict
}

func newGate() *gate {
	return &gate{begun: make(chan *experiment.Definition), goOn: make(chan journal.Verdict)}
}

func (g *gate) Run(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
	select {
	case g.begun <- d:
	case <-ctx.Done():
		return written(d, journal.AbortedVerdict, "ended"), nil
	}
	select {
	case v := <-g.goOn:
		return written(d, v, "so the test says"), nil
	case <-ctx.Done():
		return written(d, journal.AbortedVerdict, "ended"), nil
	}
}

func (g *gate) await(t *testing.T) *experiment.Definition {
	t.Helper()
	select {
	case d := <-g.begun:
		return d
	case <-testContext(t).Done():
		t.Fatal("no run begins")
		return nil
	}
}

// begin starts a run and wants that to work.
func begin(t *testing.T, d *daemon.Daemon, name, key string, r control.RunRequest) control.Run {
	t.Helper()
	run, err := d.Start(testContext(t), name, key, r)
	if err != nil {
		t.Fatalf("Start(%s) = %v", name, err)
	}
	return run
}

// follow returns the events of a run when it is over.
func follow(t *testing.T, d *daemon.Daemon, id string, after int) []control.RunEvent {
	t.Helper()
	var all []control.RunEvent
	err := d.Events(testContext(t), id, after, func(e control.RunEvent) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		t.Fatalf("Events(%s, %d) = %v", id, after, err)
	}
	return all
}

// over waits until a run is, and returns it.
func over(t *testing.T, d *daemon.Daemon, id string) control.Run {
	t.Helper()
	follow(t, d, id, 0)
	r, err := d.Run(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func numbers(events []control.RunEvent) []int {
	all := make([]int, len(events))
	for i, e := range events {
		all[i] = e.N
	}
	return all
}

func ids(runs []control.Run) []string {
	all := make([]string, len(runs))
	for i, r := range runs {
		all[i] = r.ID
	}
	return all
}
