package demo

// Outcome is what a run has shown.
type Outcome string

const (
	// Upheld: the control arm shows the failure and the protected arm does not.
	Upheld Outcome = "upheld"
	// Deviated: the protected arm shows it too, or another one.
	Deviated Outcome = "deviated"
	// Inconclusive: the run shows nothing, because the control arm does not
	// fail, or because something did not happen that had to.
	Inconclusive Outcome = "inconclusive"
)

// Verdict is the outcome with its reasons. Each names its arm. Upheld has none.
type Verdict struct {
	Outcome Outcome
	Reasons []string
	// Unplanned says that the run did not go as the method wants it, of which a
	// slow machine is the usual cause.
	Unplanned bool
}

// criteria is how two recordings become a verdict. Each function returns
// reasons, which speak of the arm without naming it.
type criteria struct {
	// unplanned is what should have happened in an arm, with or without the
	// middleware, and did not.
	unplanned func(arm string, r *Recording) []string
	// harmless is what the control arm lacks of the failure.
	harmless func(control *Recording) []string
	// failures is what the protected arm did that it should not have done.
	failures func(protected *Recording) []string
}

// Judge says what two recordings of the record show. It checks its own
// assumptions first: a number that was measured of something else is worth
// nothing.
func (r *Record) Judge(control, protected *Recording) Verdict {
	var v Verdict
	v.Reasons = append(about(Control, r.criteria.unplanned(Control, control)),
		about(Protected, r.criteria.unplanned(Protected, protected))...)
	if len(v.Reasons) > 0 {
		v.Outcome, v.Unplanned = Inconclusive, true
		return v
	}
	bad, harmless := about(Protected, r.criteria.failures(protected)), about(Control, r.criteria.harmless(control))
	v.Reasons = append(bad, harmless...)
	switch {
	case len(bad) > 0:
		v.Outcome = Deviated
	case len(harmless) > 0:
		v.Outcome = Inconclusive
	default:
		v.Outcome = Upheld
	}
	return v
}

func about(arm string, reasons []string) []string {
	for i, r := range reasons {
		reasons[i] = "the " + arm + " arm " + r
	}
	return reasons
}

// and is the verdict on a run of which v and the verdict on one more record are
// the parts: the graver of the two.
func (v Verdict) and(record string, more Verdict) Verdict {
	grave := func(o Outcome) int {
		switch o {
		case Deviated:
			return 2
		case Inconclusive:
			return 1
		}
		return 0
	}
	if grave(more.Outcome) > grave(v.Outcome) {
		v.Outcome = more.Outcome
	}
	v.Unplanned = v.Unplanned || more.Unplanned
	for _, reason := range more.Reasons {
		v.Reasons = append(v.Reasons, record+": "+reason)
	}
	return v
}
