package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// plan prints what a run would do, and marks what this machine lacks for it.
func (f *runFlags) plan(trials []trial, out io.Writer) error {
	doc := struct {
		SchemaVersion int                `json:"schema_version"`
		Plans         []*experiment.Plan `json:"plans"`
		Skipped       []skippedPlan      `json:"skipped,omitempty"`
	}{SchemaVersion: 1, Plans: []*experiment.Plan{}}
	for i := range trials {
		t := &trials[i]
		if t.skipped != "" {
			doc.Skipped = append(doc.Skipped, skippedPlan{t.of.Name, t.skipped})
			continue
		}
		doc.Plans = append(doc.Plans, f.planOf(t))
	}
	if f.json {
		return failed(writeJSON(out, doc))
	}
	for i, p := range doc.Plans {
		if i > 0 {
			if _, err := io.WriteString(out, "\n\n"); err != nil {
				return failed(err)
			}
		}
		if err := p.WriteText(out); err != nil {
			return failed(err)
		}
	}
	for _, s := range doc.Skipped {
		if _, err := io.WriteString(out, "\n"+wrapped("skipped: "+s.Name+": ", "  ", s.Why)); err != nil {
			return failed(err)
		}
	}
	return nil
}

type skippedPlan struct {
	Name string `json:"name"`
	Why  string `json:"skipped"`
}

// failed is a failure, or nil for nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{exitFailed, err}
}

// planOf is the plan of the clients and the arms that are to be run.
func (f *runFlags) planOf(t *trial) *experiment.Plan {
	p := t.of.Plan()
	if kinds := t.options.Clients; len(kinds) > 0 {
		p.Arms = slices.DeleteFunc(p.Arms, func(a experiment.PlannedArm) bool { return !slices.Contains(kinds, a.Client) })
		p.Claims = slices.DeleteFunc(p.Claims, func(c experiment.Claim) bool {
			return c.Client != "" && !slices.Contains(kinds, c.Client)
		})
	}
	// Both arms stay in the picture: it is of what they share.
	if len(f.arms) == 1 {
		p.Claims = slices.DeleteFunc(p.Claims, func(c experiment.Claim) bool { return c.Arm != "" && c.Arm != f.arms[0] })
		p.Notes = append(p.Notes, fmt.Sprintf("Only the %s arm is run, so that nothing can be upheld.", f.arms[0]))
	}
	return p
}
