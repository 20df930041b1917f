package engine

import (
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// activity is what became of one step, in all cells together. Guarded by the run's
// mu.
type activity struct {
	name  string
	at    experiment.Duration
	begun map[*cell]bool
	ended map[*cell]bool      // whether it succeeded there
	over  experiment.Duration // when the last of them was done
	said  []string
	fails []string
}

// doing notes that a cell begins a step, and reports whether none had before.
func (r *run) doing(a *activity, c *cell) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.begun == nil {
		a.begun = map[*cell]bool{}
	}
	first := len(a.begun) == 0
	a.begun[c] = true
	return first
}

// done notes what came of a step in a cell.
func (r *run) done(a *activity, c *cell, said string, err error) {
	now := r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.ended == nil {
		a.ended = map[*cell]bool{}
	}
	a.ended[c] = err == nil
	a.over = max(a.over, now)
	if said != "" {
		a.said = append(a.said, c.name()+": "+said)
	}
	if err != nil {
		a.fails = append(a.fails, c.name()+": "+err.Error())
	}
}

// journal is the activity for a journal. cells is in how many it was to be done.
func (a *activity) journal(cells int) journal.Activity {
	out := journal.Activity{Name: a.name, At: a.at.Span(), Done: a.over.Span(), Status: journal.StepSucceeded}
	// In the order of their names: which cell was first is no fact of the run.
	slices.Sort(a.said)
	slices.Sort(a.fails)
	out.Output = strings.Join(append(slices.Clone(a.fails), a.said...), "; ")
	switch {
	case len(a.fails) > 0:
		out.Status = journal.StepFailed
	case len(a.ended) < cells:
		out.Status, out.Done = journal.StepSkipped, 0
	}
	return out
}
