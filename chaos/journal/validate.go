package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrInvalid is in the errors of [Journal.Validate].
var ErrInvalid = errors.New("journal: not valid")

// maxFaults is how many faults an error names. Ten thousand marks can have as
// many.
const maxFaults = 20

// maxTime is the longest time that a picture may have, either side of T+0.
const maxTime = 100 * 365 * 24 * time.Hour

// The bounds of a scale. Past them the instants of the wall clock overflow.
const (
	minScale = 1e-3
	maxScale = 1e9
)

// Validate returns what keeps j from being a journal, up to 20 faults at once,
// in an error that is [ErrInvalid]. Text may be any; the rest is documented with
// its field.
func (j *Journal) Validate() error {
	v := &validator{}
	v.require(j.Name != "", "name", "empty")
	v.instant("start", j.Start, false)
	v.instant("end", j.End, false)
	v.instant("zero", j.Zero, true)
	v.require(!j.End.Before(j.Start), "end", "before the start")
	v.require(j.Scale >= minScale && j.Scale <= maxScale, "time_scale", "%v, want %v to %v", j.Scale, minScale, maxScale)
	v.require(j.Length >= 0 && j.Length <= maxTime, "length", "%v, want 0 to %v", j.Length, maxTime)
	v.require(j.Repeat >= 0, "repeat", "%d, want 1 or more", j.Repeat)
	v.require(slices.Contains([]Status{Completed, Failed, Aborted, Interrupted}, j.Status), "status",
		"%.40q, want %s, %s, %s or %s", string(j.Status), Completed, Failed, Aborted, Interrupted)
	v.require(slices.Contains([]Verdict{Upheld, Deviated, Inconclusive, AbortedVerdict}, j.Verdict), "verdict",
		"%.40q, want %s, %s, %s or %s", string(j.Verdict), Upheld, Deviated, Inconclusive, AbortedVerdict)
	if j.Definition != nil {
		v.require(json.Valid(j.Definition) && bytes.HasPrefix(bytes.TrimSpace(j.Definition), []byte("{")), "experiment", "not a JSON object")
	}
	v.activities("run", j.Run)
	v.activities("rollbacks", j.Rollback)
	for i, a := range j.Arms {
		v.arm(fmt.Sprintf("arms[%d]", i), a)
	}
	return v.err()
}

// validator collects faults.
type validator struct {
	faults []error
	more   int
}

// require notes a fault unless ok.
func (v *validator) require(ok bool, field, format string, args ...any) {
	switch {
	case ok:
	case len(v.faults) < maxFaults:
		v.faults = append(v.faults, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	default:
		v.more++
	}
}

func (v *validator) err() error {
	if len(v.faults) == 0 {
		return nil
	}
	if v.more > 0 {
		v.faults = append(v.faults, fmt.Errorf("and %d more", v.more))
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(v.faults...))
}

// instant wants a time that RFC 3339 can write, also if a run is added to it.
func (v *validator) instant(field string, t time.Time, optional bool) {
	if t.IsZero() {
		v.require(optional, field, "not set")
		return
	}
	v.require(t.Year() >= 1000 && t.Year() <= 9000, field, "in the year %d", t.Year())
}

func (v *validator) moment(field string, d time.Duration) {
	// Not abs: the least duration has none.
	v.require(d >= -maxTime && d <= maxTime, field, "%v, more than %v from T+0", d, maxTime)
}

func (v *validator) activities(field string, list []Activity) {
	for i, a := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		v.moment(at+".at", a.At)
		v.moment(at+".done", a.Done)
		v.require(slices.Contains([]Outcome{StepSucceeded, StepFailed, StepSkipped}, a.Status), at+".status",
			"%.40q, want %s, %s or %s", string(a.Status), StepSucceeded, StepFailed, StepSkipped)
	}
}

func (v *validator) arm(field string, a Arm) {
	for _, name := range slices.Sorted(maps.Keys(a.Measures)) {
		n := a.Measures[name]
		v.require(!math.IsNaN(n) && !math.IsInf(n, 0), fmt.Sprintf("%s.measures[%.40q]", field, name), "%v, which JSON cannot say", n)
	}
	for i, l := range a.Lanes {
		lane := fmt.Sprintf("%s.lanes[%d]", field, i)
		for k, s := range l.Spans {
			at := fmt.Sprintf("%s.spans[%d]", lane, k)
			v.moment(at+".from", s.From)
			v.moment(at+".to", s.To)
			v.require(s.To >= s.From, at+".to", "%v, before its from, %v", s.To, s.From)
		}
		for k, m := range l.Marks {
			at := fmt.Sprintf("%s.marks[%d]", lane, k)
			v.moment(at+".at", m.At)
			v.require(m.Count >= 0, at+".count", "%d, want 0 or more", m.Count)
			v.require(slices.Contains([]string{"", ProbeLive, ProbeDead, ProbeAmbiguous}, m.Verdict), at+".verdict",
				"%.40q, want %s, %s or %s", m.Verdict, ProbeLive, ProbeDead, ProbeAmbiguous)
		}
	}
}
