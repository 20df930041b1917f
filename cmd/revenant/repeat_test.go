package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// Two runs with one seed do the same, and the middleware decides the same in the
// same order: what differs is when, to a part of a second.
//
// Of the control arm only the steps are compared. Its client begins a session
// while the streams of the one before are still ending, and which of the two is
// first is for the scheduler to say; the middleware waits for them, so that the
// protected arm has an order.
//
// Nor is compared how many events the middleware had in its hands at its verdict:
// that is as many as had come when the probe was answered. Those that come after
// a Live are handed on without having been held, and after a Dead nobody reads on.
func TestARunCanBeRepeated(t *testing.T) {
	t.Parallel()
	d, err := fromLibrary("session")
	if err != nil || d.of == nil {
		t.Fatal(err, d.problems)
	}
	var runs [2]*journal.Journal
	var both sync.WaitGroup
	for i := range runs {
		both.Go(func() {
			j, err := engine.Run(t.Context(), d.of, engine.Options{Seed: 7})
			if err != nil {
				t.Error(err)
			}
			runs[i] = j
		})
	}
	both.Wait()
	if t.Failed() {
		return
	}
	a, b := decisions(runs[0]), decisions(runs[1])
	if a != b {
		t.Errorf("one run is\n%s\nthe other\n%s", a, b)
	}
	for _, what := range []string{"probe Live", "released", "probe Dead", "quarantined", "applied", "reconnect", "died"} {
		if !strings.Contains(a, what) {
			t.Errorf("there is no %q in\n%s", what, a)
		}
	}
}

// decisions is what was done in a run, and then, for each lane of the protected
// arm, what happened in it, in the order of time but without the times.
func decisions(j *journal.Journal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s\n", j.Seed, j.Verdict)
	for _, step := range slices.Concat(j.Run, j.Rollback) {
		fmt.Fprintf(&b, "T+%v %s: %s\n", step.At, step.Name, step.Status)
	}
	for _, arm := range j.Arms {
		if arm.Name != journal.Protected {
			continue
		}
		for _, lane := range arm.Lanes {
			fmt.Fprintf(&b, "%s %s:", arm.Client, lane.Name)
			for _, s := range slices.SortedStableFunc(slices.Values(lane.Spans), func(a, b journal.Span) int { return cmp.Compare(a.From, b.From) }) {
				fmt.Fprintf(&b, " %s", s.State)
			}
			b.WriteString(";")
			for _, m := range slices.SortedStableFunc(slices.Values(lane.Marks), func(a, b journal.Mark) int { return cmp.Compare(a.At, b.At) }) {
				fmt.Fprintf(&b, " %s", strings.TrimSpace(m.Kind+" "+m.Verdict))
				if m.Count > 1 && m.Kind != journal.MarkReleased && m.Kind != journal.MarkQuarantined {
					fmt.Fprintf(&b, "×%d", m.Count)
				}
				if m.Harm {
					b.WriteString("!")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
