package experiment

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// The names of the arms, as journals have them.
const (
	Control   = "control"   // without the middleware
	Protected = "protected" // with it
)

// Arms returns both, in the order in which they are shown.
func Arms() []string { return []string{Control, Protected} }

// Hypothesis is what the arms will have measured. If the control arm does not
// fail as it says, the run is inconclusive; if only the protected arm's is not
// met, the verdict is deviated.
type Hypothesis struct {
	_ struct{}

	// Title says it in a sentence. Default: none.
	Title string `json:"title,omitzero" check:"max=200"`

	// LateAfter is how long an event may take when nothing stands in its way, and
	// more than which makes it one of events_delayed. Default: 500 ms in real time.
	LateAfter Duration `json:"late_after,omitzero" check:"real=5ms"`

	// Before is the steady state: what both arms have measured when their clients
	// have begun their sessions and been sent one event each, and before the
	// method. Default: nothing but that all clients have.
	Before Expectations `json:"before,omitzero"`

	// Control is what the arm without the middleware will have measured at the
	// end: its failure. In at least one measure, for each kind of client, it has
	// to exclude what the protected arm's says. Required unless teeth says why
	// there are none.
	Control Expectations `json:"control,omitzero"`

	// Protected is what the arm with the middleware will have measured at the end.
	Protected Expectations `json:"protected" check:"required"`
}

// Tolerances are what is expected of measures.
type Tolerances map[Measure]Tolerance

// Expectations are what is expected of one arm. In YAML the Measures are keys of
// the same mapping as sessions, calls and clients.
type Expectations struct {
	_ struct{}

	// Measures is what is expected of the arm, for each kind of client.
	Measures Tolerances
	// Sessions is what is expected of the n-th session of each client, counted
	// from 1.
	Sessions map[int]Tolerances
	// Calls is what is expected of a call, by its name.
	Calls map[string]Tolerances
	// Clients is what is expected of one kind of client in place of what is said
	// of all, measure by measure. Its values have no Clients of their own.
	Clients map[ClientKind]Expectations
}

// IsZero is whether nothing is expected.
func (e Expectations) IsZero() bool {
	return len(e.Measures) == 0 && len(e.Sessions) == 0 && len(e.Calls) == 0 && len(e.Clients) == 0
}

// Subject is what an [Expectation] is about: a measure of the arm, or of the n-th
// session of each client, or of a named call.
type Subject struct {
	Measure Measure
	Session int    // from 1; 0: not of a session
	Call    string // ""; not of a call
}

// Expectation is one thing that is expected.
type Expectation struct {
	Subject
	Tolerance Tolerance
}

// String is where the subject is written, below its arm: "events_lost",
// "sessions.2.detected_at", "calls.delete.outcome".
func (s Subject) String() string {
	switch {
	case s.Session > 0:
		return "sessions." + strconv.Itoa(s.Session) + "." + string(s.Measure)
	case s.Call != "":
		return "calls." + s.Call + "." + string(s.Measure)
	}
	return string(s.Measure)
}

// For returns what is expected of one kind of client, in the order of
// [Measures].
func (e Expectations) For(kind ClientKind) []Expectation {
	merged := make(map[Subject]Tolerance)
	e.into(merged)
	if own, ok := e.Clients[kind]; ok {
		own.into(merged)
	}
	all := make([]Expectation, 0, len(merged))
	for s, t := range merged {
		all = append(all, Expectation{s, t})
	}
	slices.SortFunc(all, func(a, b Expectation) int {
		return cmp.Or(
			cmp.Compare(a.Session, b.Session), cmp.Compare(a.Call, b.Call),
			cmp.Compare(orderOf(a.Measure), orderOf(b.Measure)), cmp.Compare(a.Measure, b.Measure))
	})
	return all
}

func (e Expectations) into(merged map[Subject]Tolerance) {
	for m, t := range e.Measures {
		merged[Subject{Measure: m}] = t
	}
	for n, of := range e.Sessions {
		for m, t := range of {
			merged[Subject{Measure: m, Session: n}] = t
		}
	}
	for call, of := range e.Calls {
		for m, t := range of {
			merged[Subject{Measure: m, Call: call}] = t
		}
	}
}

func orderOf(m Measure) int {
	return slices.IndexFunc(measures, func(i MeasureInfo) bool { return i.Measure == m })
}

// MarshalJSON writes the measures beside sessions, calls and clients.
func (e Expectations) MarshalJSON() ([]byte, error) {
	all := make(map[string]any, len(e.Measures)+3)
	for m, t := range e.Measures {
		all[string(m)] = t
	}
	if len(e.Sessions) > 0 {
		all["sessions"] = e.Sessions
	}
	if len(e.Calls) > 0 {
		all["calls"] = e.Calls
	}
	if len(e.Clients) > 0 {
		all["clients"] = e.Clients
	}
	return json.Marshal(all)
}

// Bounds are bounds of measures that abort a run: comparisons with > or >=.
type Bounds map[Measure]Tolerance

// ordered yields the measures of b in their order.
func (b Bounds) ordered() []Measure {
	return slices.SortedFunc(maps.Keys(b), func(x, y Measure) int {
		return cmp.Or(cmp.Compare(orderOf(x), orderOf(y)), cmp.Compare(x, y))
	})
}
