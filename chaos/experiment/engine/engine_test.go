package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// small is an experiment of a second: a session is lost while its client is away.
const small = `
name: small
title: A session that is lost while its client is away
description: Its events are replayed all the same.
length: 1200ms
topology:
  servers: {retry: 200ms}
  load_balancer: {on_expiry: fin}
  links: [front, back]
clients:
  gosdk: {}
  naive: {count: 2}
method:
  - {name: the stream is cut, at: 100ms, cut: {}}
  - {name: events that nobody reads, at: 100ms, when: away, emit: {events: 3}}
  - {name: the session is lost, at: 100ms, when: away, reap: {}}
  - {name: a call, at: 900ms, call: {name: late, tool: echo, retries: 1}}
hypothesis:
  before: {sessions_begun: {in: [1, 2]}, events_lost: 0}
  control:
    dead_session_events_applied: ">= 3"
    detected_at: tool_call
  protected:
    dead_session_events_applied: 0
    requests_to_one_dead_session: "<= 2"
    detected_at: reconnect
    detection_error: {regex: .}
    events_quarantined: {in: [3, 6]}
    calls: {late: {outcome: answered, attempts: 1, error_code: 0, duration: "< 500ms"}}
    clients:
      naive: {events_quarantined: 6, sessions_begun: 4}
`

// define parses an experiment, changed as with strings.NewReplacer.
func define(t *testing.T, text string, changes ...string) *experiment.Definition {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the definition has no %q to change", changes[i])
		}
	}
	d, err := experiment.Parse("test.yaml", []byte(strings.NewReplacer(changes...).Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func run(t *testing.T, ctx context.Context, d *experiment.Definition, o engine.Options) *journal.Journal {
	t.Helper()
	j, err := engine.Run(ctx, d, o)
	if err != nil {
		t.Fatalf("Run() = %v, want a journal", err)
	}
	if err := j.Validate(); err != nil {
		t.Errorf("the journal is not valid: %v", err)
	}
	return j
}

func check(t *testing.T, j *journal.Journal, status journal.Status, verdict journal.Verdict, reason string) {
	t.Helper()
	if j.Status != status || j.Verdict != verdict || !strings.Contains(j.Reason, reason) {
		t.Errorf("%s, %s: %s\nwant %s, %s, with %q", j.Status, j.Verdict, j.Reason, status, verdict, reason)
		for _, c := range slices.Concat(j.Before, j.After) {
			t.Logf("%s %s %s = %s, want %s %s", c.Arm, c.Client, c.Measure, c.Value, c.Tolerance, c.Problem)
		}
		for _, a := range slices.Concat(j.Run, j.Rollback) {
			t.Logf("step %q: %s %s", a.Name, a.Status, a.Output)
		}
	}
}

func TestUpheld(t *testing.T) {
	t.Parallel()
	d := define(t, small)
	var phases []engine.Phase
	var steps []string
	j := run(t, t.Context(), d, engine.Options{Seed: 7, Repeat: 2, Program: "v0", Again: "again", Progress: func(p engine.Progress) {
		if !slices.Contains(phases, p.Phase) {
			phases = append(phases, p.Phase)
		}
		if p.Step != "" {
			steps = append(steps, p.Step)
		}
		if p.Clock < 0 || p.Clock > d.Length || p.Takes != d.Takes() {
			t.Errorf("progress %+v, want a clock up to %v, and Takes %v", p, d.Length, d.Takes())
		}
	}})
	check(t, j, journal.Completed, journal.Upheld, "(gosdk, events of a dead session applied: 3 against 0)")
	if j.Seed != 7 || j.Repeat != 2 || j.Program != "v0" || j.Again != "again" || j.Name != "small" || len(j.Definition) == 0 {
		t.Errorf("the journal's seed %d, repeat %d, program %q, again %q, name %q", j.Seed, j.Repeat, j.Program, j.Again, j.Name)
	}
	var arms []string
	for _, a := range j.Arms {
		arms = append(arms, a.Client+" "+a.Name)
		if len(a.Lanes) == 0 || len(a.Measures) == 0 {
			t.Errorf("%s %s has %d lanes and %d measures", a.Client, a.Name, len(a.Lanes), len(a.Measures))
		}
	}
	if want := []string{"gosdk control", "gosdk protected", "naive control", "naive protected"}; !slices.Equal(arms, want) {
		t.Errorf("arms %q, want %q", arms, want)
	}
	if want := []engine.Phase{engine.Starting, engine.SteadyState, engine.Method, engine.RollingBack, engine.Counting}; !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
	if want := []string{"the stream is cut", "events that nobody reads", "the session is lost", "a call"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	for _, a := range j.Run {
		if a.Status != journal.StepSucceeded || a.Done < a.At {
			t.Errorf("step %+v, want it succeeded and done after its time", a)
		}
	}
	if want := "control gosdk: 1 session lost; control naive: 2 sessions lost; protected gosdk: 1 session lost; protected naive: 2 sessions lost"; j.Run[2].Output != want {
		t.Errorf("output %q, want %q", j.Run[2].Output, want)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		o       engine.Options
		status  journal.Status
		verdict journal.Verdict
		reason  string
	}{
		"the protected arm does not hold": {[]string{"sessions_begun: 4", "sessions_begun: 5"}, engine.Options{},
			journal.Completed, journal.Deviated, "The protected arm did not hold. protected naive: sessions begun: 5, and it was 4"},
		"no teeth": {[]string{`dead_session_events_applied: ">= 3"`, `dead_session_events_applied: ">= 30"`}, engine.Options{},
			journal.Completed, journal.Inconclusive, "The control arm did not fail as the hypothesis says, so that nothing is shown. control gosdk"},
		"no steady state": {[]string{"sessions_begun: {in: [1, 2]}", "sessions_begun: 2"}, engine.Options{},
			journal.Failed, journal.Inconclusive, "the steady state was not reached: control gosdk: sessions begun: 2, and it was 1"},
		"a step that is never due": {[]string{"at: 900ms, call", "at: 900ms, when: away, call"}, engine.Options{},
			journal.Failed, journal.Inconclusive, `step "a call": not all clients were away until T+1.2s`},
		"one arm": {nil, engine.Options{Arms: []string{"protected"}},
			journal.Completed, journal.Inconclusive, "The control arm was left out"},
		"the other": {nil, engine.Options{Arms: []string{"control"}, Clients: []experiment.ClientKind{"gosdk"}},
			journal.Completed, journal.Inconclusive, "The protected arm was left out"},
		"a bound": {[]string{"clients:\n  gosdk", "abort: {control: {dead_session_events_applied: '>= 2'}}\nclients:\n  gosdk", "length: 1200ms", "length: 20s", "at: 900ms", "at: 19s"}, engine.Options{},
			journal.Aborted, journal.AbortedVerdict, "which is at least 2: the run is stopped there"},
		"time": {[]string{"clients:\n  gosdk", "abort: {real_time_limit: 1500ms}\nclients:\n  gosdk", "echo, retries: 1}}", "work, events: 2, interval: 60s}}"}, engine.Options{},
			journal.Aborted, journal.AbortedVerdict, "time limit of 1.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			j := run(t, t.Context(), define(t, small, c.changes...), c.o)
			check(t, j, c.status, c.verdict, c.reason)
		})
	}
}

// Whoever asked for a run stops it: what was broken is whole again, the rollbacks
// are done, the rest of the method is not, and there is a journal.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	d := define(t, small,
		"  - {name: a call", "  - {name: broken, at: 700ms, fault: {target: front, kind: latency, delay: 10ms}}\n  - {name: broken for a while, at: 700ms, rule: {on: post, status: 503, for: 5s}}\n  - {name: a call",
		"at: 900ms", "at: 10s", "length: 1200ms", "length: 20s",
		"hypothesis:", "rollbacks:\n  - {name: end, call: {tool: echo, retries: 1}}\nhypothesis:")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	j := run(t, ctx, d, engine.Options{Progress: func(p engine.Progress) {
		if p.Step == "broken for a while" {
			time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("enough")) })
		}
	}})
	check(t, j, journal.Interrupted, journal.AbortedVerdict, "the run was stopped from outside: enough")
	var got []string
	for _, a := range slices.Concat(j.Run, j.Rollback) {
		got = append(got, fmt.Sprintf("%s: %s", a.Name, a.Status))
	}
	want := []string{
		"the stream is cut: succeeded", "events that nobody reads: succeeded", "the session is lost: succeeded",
		"broken: succeeded", "broken for a while: succeeded", "a call: skipped",
		"undo: link front: latency delay=10ms, to the end: succeeded", "undo: rule: on post, status 503, for 5s: succeeded", "end: succeeded",
	}
	// Which they would not be with the rule in force.
	if said := j.Rollback[len(j.Rollback)-1].Output; said != "" {
		t.Errorf("the calls of the rollback: %s, want all answered", said)
	}
	if !slices.Equal(got, want) {
		t.Errorf("activities\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Who had no stream has not lost it.
func TestAwayWithoutAStream(t *testing.T) {
	t.Parallel()
	d := define(t, small, "gosdk: {}\n  naive: {count: 2}", "gosdk: {standalone_stream: false}",
		"{name: the stream is cut, at: 100ms, cut: {}}", "{at: 100ms, when: away, reap: {}}",
		"{name: events that nobody reads, at: 100ms, when: away, emit: {events: 3}}", "{at: 350ms, call: {tool: emit, events: 3}}",
		"name: the session is lost, at: 100ms, when: away, reap: {}", "name: the session is lost, at: 350ms, reap: {}",
		"      naive: {events_quarantined: 6, sessions_begun: 4}\n", "", "    clients:\n", "")
	check(t, run(t, t.Context(), d, engine.Options{}), journal.Failed, journal.Inconclusive, "not all clients were away until T+350ms")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	d := define(t, small)
	_, err := engine.Run(t.Context(), d, engine.Options{Arms: []string{"left"}, Clients: []experiment.ClientKind{"mcpgo"}, Repeat: -1})
	want := []string{`arm "left", want control or protected`, `client "mcpgo", want one that the experiment has: gosdk, naive`, "repeat -1, want 0 or more"}
	for _, w := range want {
		if err == nil || !errors.Is(err, engine.ErrOptions) || !strings.Contains(err.Error(), w) {
			t.Errorf("Run() = %v, want ErrOptions with %q", err, w)
		}
	}
}
