package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// shownClients is how many clients of a cell have lanes of their own in the
// picture: those of more nobody can read.
const shownClients = 3

// steady checks the hypothesis before the method.
func (r *run) steady() error {
	now := time.Now()
	for _, c := range r.cells {
		c.snapshot(now)
		r.before = append(r.before, c.checks(r.d.Hypothesis.Before.For(c.kind))...)
	}
	for _, k := range r.before {
		if !k.met() {
			return fmt.Errorf("the steady state was not reached: %s", k.words())
		}
	}
	return nil
}

// words says what was wrong.
func (k check) words() string {
	what := k.x.Words()
	if k.problem != "" {
		first, _, _ := strings.Cut(k.problem, "\n")
		return fmt.Sprintf("%s: %s cannot be counted: %s", k.cell.name(), k.x.Subject, first)
	}
	return fmt.Sprintf("%s: %s, and it was %s", k.cell.name(), what, orNothing(k.value.String()))
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// verdict is what the run has shown, and why.
func (r *run) verdict() (journal.Status, journal.Verdict, string) {
	var bound *boundError
	var late *awaitError
	switch {
	case r.stopped == nil:
	case errors.Is(r.stopped, errMissing), errors.Is(r.stopped, errStart):
		return journal.Failed, journal.Inconclusive, r.stopped.Error()
	case errors.As(r.stopped, &bound), errors.Is(r.stopped, errTimeLimit):
		return journal.Aborted, journal.AbortedVerdict, r.stopped.Error()
	case r.interrupted:
		return journal.Interrupted, journal.AbortedVerdict, "the run was stopped from outside: " + r.stopped.Error()
	case errors.As(r.stopped, &late) && late.failed(r):
		return journal.Failed, journal.Deviated, "The protected arm did not hold. " + r.stopped.Error() + ", and those of the control arm were"
	default:
		return journal.Failed, journal.Inconclusive, r.stopped.Error()
	}
	// What cannot be counted in the control arm leaves nothing shown; in the
	// protected arm it takes nothing from what was clearly missed there.
	var control, protected, blurred, unclear []string
	for _, k := range r.after {
		switch {
		case k.met():
		case k.problem != "" && k.cell.arm == experiment.Control:
			blurred = append(blurred, k.words())
		case k.problem != "":
			unclear = append(unclear, k.words())
		case k.cell.arm == experiment.Control:
			control = append(control, k.words())
		default:
			protected = append(protected, k.words())
		}
	}
	switch {
	case len(blurred) > 0:
		return journal.Completed, journal.Inconclusive, "Not all could be counted. " + blurred[0] + more(blurred)
	case len(control) > 0 && r.d.Teeth.None != "":
		return journal.Completed, journal.Inconclusive, "The control arm was not as the hypothesis says. " + control[0] + more(control)
	case len(control) > 0:
		return journal.Completed, journal.Inconclusive, "The control arm did not fail as the hypothesis says, so that nothing is shown. " + control[0] + more(control)
	case len(protected) > 0:
		return journal.Completed, journal.Deviated, "The protected arm did not hold. " + protected[0] + more(protected)
	case len(unclear) > 0:
		return journal.Completed, journal.Inconclusive, "Not all could be counted. " + unclear[0] + more(unclear)
	case !r.has(experiment.Control):
		return journal.Completed, journal.Inconclusive, "The protected arm held. The control arm was left out, so that nothing is shown."
	case !r.has(experiment.Protected):
		return journal.Completed, journal.Inconclusive, "The control arm was as the hypothesis says. The protected arm was left out, so that nothing is shown."
	case r.d.Teeth.None != "":
		return journal.Completed, journal.Upheld, "Both arms were as the hypothesis says."
	}
	return journal.Completed, journal.Upheld, "The control arm failed as the hypothesis says, and the protected arm held" + r.contrast() + "."
}

// contrast is the first number in which the arms differ, for the sentence that
// says that they do.
func (r *run) contrast() string {
	for _, k := range r.after {
		if k.cell.arm != experiment.Control {
			continue
		}
		for _, other := range r.after {
			if other.cell.arm == k.cell.arm || other.cell.kind != k.cell.kind || other.x.Subject != k.x.Subject || other.value == k.value {
				continue
			}
			what := k.x.Subject.String()
			if info, ok := k.x.Measure.Info(); ok && k.x.Session == 0 && k.x.Call == "" {
				what = info.Words
			}
			return fmt.Sprintf(" (%s, %s: %v against %v)", k.cell.kind, what, k.value, other.value)
		}
	}
	return ""
}

func more(all []string) string {
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", len(all)-1)
}

// journal is the record of the run, which is over.
func (r *run) journal() *journal.Journal {
	j := &journal.Journal{
		Program: r.o.Program, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Name: r.d.Name, Title: r.d.Title, Description: r.d.Description,
		Start: r.began, End: r.ended, Zero: r.zero, Scale: r.d.Scale(), Length: r.d.Length.Span(),
		Seed: r.seed, Repeat: r.o.Repeat, Again: r.o.Again,
	}
	if node, err := os.Hostname(); err == nil {
		j.Node = node
	}
	if def, err := json.Marshal(r.d); err == nil {
		j.Definition = def
	}
	j.Status, j.Verdict, j.Reason = r.verdict()
	j.Before, j.After = checksOf(r.before), checksOf(r.after)
	for _, a := range r.steps {
		j.Run = append(j.Run, a.journal(len(r.cells)))
	}
	j.Rollback = append(j.Rollback, r.undone()...)
	for _, a := range r.rollbacks {
		j.Rollback = append(j.Rollback, a.journal(len(r.cells)))
	}
	for _, c := range r.cells {
		if c.history != nil {
			j.Arms = append(j.Arms, c.journal())
		}
	}
	return j
}

func checksOf(all []check) []journal.Check {
	out := make([]journal.Check, 0, len(all))
	for _, k := range all {
		c := journal.Check{
			Arm: k.cell.arm, Client: string(k.cell.kind), Measure: k.x.Subject.String(),
			Tolerance: k.x.Tolerance.Words(), Met: k.met(), Problem: k.problem,
		}
		if k.problem == "" {
			c.Value = k.value.String()
		}
		out = append(out, c)
	}
	return out
}

// undone are the faults that were in force when the method was over.
func (r *run) undone() []journal.Activity {
	var all []journal.Activity
	seen := map[string]bool{}
	for _, c := range r.cells {
		if c.history == nil {
			continue
		}
		for _, f := range c.history.Faults {
			if f.Undone == nil && !seen[f.Name] {
				seen[f.Name] = true
				all = append(all, journal.Activity{Name: "undo: " + f.Name, At: r.d.Length.Span(), Done: r.d.Length.Span(), Status: journal.StepSucceeded})
			}
		}
	}
	return all
}

// journal is what a journal shows of the cell.
func (c *cell) journal() journal.Arm {
	arm, _ := history.Arm(c.history, c.arm, client.Kind(c.kind))
	if len(c.users) <= shownClients {
		return arm
	}
	shown := map[string]bool{}
	for _, u := range c.users[:shownClients] {
		shown[u.name] = true
	}
	arm.Note = fmt.Sprintf("The picture has the first %d of %d clients; the numbers are those of all.", shownClients, len(c.users))
	arm.Lanes = history.Lanes(c.history.Only(func(h history.Client) bool { return shown[h.Name] }))
	return arm
}
