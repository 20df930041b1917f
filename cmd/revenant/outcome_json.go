package main

import (
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// document is the JSON of "revenant run" and "revenant report".
type document struct {
	SchemaVersion int `json:"schema_version"`
	// Verdict is the worst of all.
	Verdict     journal.Verdict     `json:"verdict"`
	Experiments []documentedOutcome `json:"experiments"`
	Runs        []documentedRun     `json:"runs"`
	// Report and JUnit are the files that were written for all runs together.
	Report string `json:"report,omitempty"`
	JUnit  string `json:"junit,omitempty"`
}

// documentedOutcome is one experiment, with the worst verdict of its runs.
type documentedOutcome struct {
	Name string `json:"name"`
	// Verdict is null of one that was skipped, which Skipped says why.
	Verdict *journal.Verdict `json:"verdict"`
	Skipped string           `json:"skipped,omitempty"`
	Runs    int              `json:"runs"`
	// NotRun is how many runs are missing because of an interrupt.
	NotRun int `json:"not_run,omitempty"`
}

type documentedRun struct {
	Name        string          `json:"name"`
	Verdict     journal.Verdict `json:"verdict"`
	Status      journal.Status  `json:"status"`
	Reason      string          `json:"reason"`
	Seed        uint64          `json:"seed"`
	Repeat      int             `json:"repeat,omitempty"`
	RealSeconds float64         `json:"real_seconds"`
	// NotMet are those of Checks that were not met.
	NotMet []documentedCheck `json:"checks_not_met"`
	Checks []documentedCheck `json:"checks"`
	Again  string            `json:"again,omitempty"`
	File   string            `json:"file,omitempty"`   // the journal that was read
	Report string            `json:"report,omitempty"` // the page that was written
}

type documentedCheck struct {
	When    string `json:"when"` // before or after the method
	Arm     string `json:"arm"`
	Client  string `json:"client"`
	Measure string `json:"measure"`
	Value   string `json:"value"`
	Want    string `json:"want"`
	Met     bool   `json:"met"`
	Problem string `json:"problem,omitempty"`
}

// document is all outcomes for programs.
func (all outcomes) document(report, junit string) document {
	doc := document{
		SchemaVersion: 1, Verdict: all.verdict(), Report: report, JUnit: junit,
		Experiments: []documentedOutcome{}, Runs: []documentedRun{},
	}
	for _, o := range all {
		d := documentedOutcome{Name: o.name, Skipped: o.skipped, Runs: len(o.runs)}
		if o.skipped == "" {
			v := o.verdict()
			d.Verdict, d.NotRun = &v, max(0, o.repeat-len(o.runs))
		}
		doc.Experiments = append(doc.Experiments, d)
		for _, r := range o.runs {
			doc.Runs = append(doc.Runs, documentedRun{
				Name: r.Name, Verdict: r.Verdict, Status: r.Status, Reason: r.Reason, Seed: r.Seed, Repeat: r.Repeat,
				RealSeconds: r.End.Sub(r.Start).Seconds(), NotMet: documented(unmet(r.Journal)), Checks: documented(checksOf(r.Journal)),
				Again: r.Again, File: r.file, Report: r.page,
			})
		}
	}
	return doc
}

func documented(checks []checked) []documentedCheck {
	all := []documentedCheck{}
	for _, c := range checks {
		when := "after"
		if c.before {
			when = "before"
		}
		all = append(all, documentedCheck{when, c.Arm, c.Client, c.Measure, c.Value, c.Tolerance, c.met(), c.Problem})
	}
	return all
}
