package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// fakeEngineEnv makes a test binary that is the program run nothing: what becomes
// of an experiment is the first word of its name.
const fakeEngineEnv = "REVENANT_TEST_FAKE_ENGINE"

// fakeRuns is how many runs there have been. Each begins a minute after the one
// before.
var fakeRuns int

// fakeEngine is in the place of engine.Run. The reason of a run has its options.
func fakeEngine(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
	if err := o.Validate(d); err != nil {
		return nil, err
	}
	began := time.Date(2026, 11, 12, 9, 30+fakeRuns, 0, 0, time.UTC)
	fakeRuns++
	j := &journal.Journal{
		Program: o.Program, Name: d.Name, Title: d.Title, Start: began, End: began.Add(12340 * time.Millisecond),
		Scale: max(1, d.TimeScale), Seed: max(1, d.Seed), Repeat: o.Repeat, Status: journal.Completed, Again: o.Again,
		Reason: fmt.Sprintf("Options: arms %v, clients %v, seed %d.", o.Arms, o.Clients, o.Seed),
		Before: []journal.Check{{Arm: "control", Client: "naive", Measure: "sessions_begun", Value: "1", Tolerance: "1", Met: true}},
		After: []journal.Check{
			{Arm: "control", Client: "naive", Measure: "dead_session_events_applied", Value: "10", Tolerance: ">= 1", Met: true},
			{Arm: "protected", Client: "naive", Measure: "dead_session_events_applied", Value: "0", Tolerance: "0", Met: true},
		},
	}
	j.Arms = []journal.Arm{{Name: "control", Client: "naive", Lanes: []journal.Lane{{
		Name: "application", Kind: journal.ApplicationLane, Marks: []journal.Mark{{At: time.Minute, Kind: journal.MarkApplied, Harm: true}},
	}}}}
	word, _, _ := strings.Cut(d.Name, "-")
	switch word {
	case "upheld":
		j.Verdict = journal.Upheld
	case "deviated":
		j.Verdict = journal.Deviated
		j.After[1].Value, j.After[1].Met = "10", false
	case "inconclusive":
		j.Verdict = journal.Inconclusive
		j.After[0].Value, j.After[0].Met = "0", false
		j.After[1].Problem = "two streams have the same name"
	case "aborted":
		j.Status, j.Verdict = journal.Aborted, journal.AbortedVerdict
	case "flaky":
		j.Verdict = journal.Upheld
		if o.Repeat == 2 {
			j.Verdict = journal.Inconclusive
		}
	case "waits":
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Signal(os.Interrupt)
		}
		if err != nil {
			return nil, err
		}
		<-ctx.Done()
		j.Status, j.Verdict = journal.Interrupted, journal.AbortedVerdict
	case "stuck": // It never ends by itself, as if a rollback did not.
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		for ticker := time.NewTicker(10 * time.Millisecond); ; <-ticker.C {
			self.Signal(os.Interrupt)
		}
	default:
		return nil, fmt.Errorf("the fake engine knows no %q", word)
	}
	return j, nil
}
