package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MarshalJSON returns the journal as JSON, or every fault of it, as [Journal.Validate]
// has them.
func (j *Journal) MarshalJSON() ([]byte, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(j.wire())
}

// UnmarshalJSON sets j to the journal in data, or leaves it alone and returns a
// [*FormatError] or what [Journal.Validate] finds. Fields that it does not know
// are ignored.
func (j *Journal) UnmarshalJSON(data []byte) error {
	if err := checkFormat(data); err != nil {
		return err
	}
	var w wireJournal
	if err := json.Unmarshal(data, &w); err != nil {
		return &FormatError{Version: Version, Err: err}
	}
	read := w.journal()
	if err := read.Validate(); err != nil {
		return err
	}
	*j = *read
	return nil
}

// A FormatError says that something is not a journal that this program can
// read.
type FormatError struct {
	// File is where it was read from, "" if it was no file.
	File string
	// Version is its journal_version, 0 if it has none.
	Version int
	// Err is what is wrong with it.
	Err error
}

// Error names the file and what is wrong.
func (e *FormatError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("journal: %v", e.Err)
	}
	return fmt.Sprintf("journal: %s: %v", e.File, e.Err)
}

// Unwrap returns what is wrong.
func (e *FormatError) Unwrap() error { return e.Err }

// checkFormat looks whether data is a journal of this version, before anything
// else is read of it: what another version means by the same field is unknown.
func checkFormat(data []byte) error {
	var head struct {
		Version  json.RawMessage `json:"journal_version"`
		Chaoslib json.RawMessage `json:"chaoslib-version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return &FormatError{Err: fmt.Errorf("not a journal: %w", err)}
	}
	if head.Version == nil {
		if head.Chaoslib != nil {
			return &FormatError{Err: errors.New("a journal of Chaos Toolkit, which has no journal_version; this program reads its own")}
		}
		return &FormatError{Err: errors.New("not a journal: it has no journal_version")}
	}
	version, err := strconv.Atoi(string(head.Version))
	switch {
	case err != nil || version < 1:
		return &FormatError{Err: fmt.Errorf("not a journal: its journal_version is %.40q, want a number from 1", head.Version)}
	case version > Version:
		return &FormatError{Version: version, Err: fmt.Errorf("journal_version %d is newer than this program, which reads %d", version, Version)}
	case version < Version:
		return &FormatError{Version: version, Err: fmt.Errorf("journal_version %d is no longer read, this program reads %d", version, Version)}
	}
	return nil
}

// seconds is a length of time as a JSON number.
type seconds time.Duration

// MarshalJSON writes it as a decimal, without rounding.
func (s seconds) MarshalJSON() ([]byte, error) { return []byte(decimal(time.Duration(s))), nil }

// decimal is d in seconds.
func decimal(d time.Duration) string {
	whole, rest := d/time.Second, d%time.Second
	if rest == 0 {
		return strconv.FormatInt(int64(whole), 10)
	}
	sign := ""
	if d < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	return string(bytes.TrimRight(fmt.Appendf(nil, "%s%d.%09d", sign, whole, rest), "0"))
}

// UnmarshalJSON reads a number of seconds, to the nanosecond.
func (s *seconds) UnmarshalJSON(data []byte) error {
	// A decimal, as it was written: without a detour over a float, which has no
	// nanoseconds in a year.
	whole, fraction, _ := strings.Cut(string(data), ".")
	if len(fraction) <= 9 {
		if ns, err := strconv.ParseInt(whole+fraction+"000000000"[len(fraction):], 10, 64); err == nil {
			*s = seconds(ns)
			return nil
		}
	}
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("a length of time is a number of seconds: %w", err)
	}
	ns := math.Round(f * float64(time.Second))
	if math.Abs(ns) >= 1<<63 {
		return fmt.Errorf("%.40s seconds is out of range", data)
	}
	*s = seconds(ns)
	return nil
}

// The wire types are the JSON. Their fields stand in the order of Chaos
// Toolkit's, and ours after those.
type (
	wireJournal struct {
		Version  int             `json:"journal_version"`
		Program  string          `json:"revenant-version"`
		Platform string          `json:"platform,omitempty"`
		Node     string          `json:"node,omitempty"`
		Def      json.RawMessage `json:"experiment"`
		Start    time.Time       `json:"start"`
		End      time.Time       `json:"end"`
		Duration seconds         `json:"duration"`
		Status   Status          `json:"status"`
		Deviated bool            `json:"deviated"`
		States   wireStates      `json:"steady_states"`
		Run      []wireActivity  `json:"run"`
		Rollback []wireActivity  `json:"rollbacks"`

		Name   string     `json:"name"`
		Title  string     `json:"title,omitempty"`
		About  string     `json:"description,omitempty"`
		Verd   Verdict    `json:"verdict"`
		Reason string     `json:"reason"`
		Again  string     `json:"again,omitempty"`
		Seed   uint64     `json:"seed"`
		Repeat int        `json:"repeat,omitempty"`
		Scale  float64    `json:"time_scale"`
		Zero   *time.Time `json:"zero,omitempty"`
		Length seconds    `json:"length"`
		Arms   []wireArm  `json:"arms"`
	}
	wireStates struct {
		Before *wireState `json:"before"`
		After  *wireState `json:"after"`
		During []struct{} `json:"during"`
	}
	wireState struct {
		Met    bool        `json:"steady_state_met"`
		Probes []wireProbe `json:"probes"`
	}
	wireProbe struct {
		Activity  wireStep  `json:"activity"`
		Status    Outcome   `json:"status"`
		Start     time.Time `json:"start"`
		End       time.Time `json:"end"`
		Duration  seconds   `json:"duration"`
		Met       bool      `json:"tolerance_met"`
		Value     string    `json:"output"`
		Exception []string  `json:"exception,omitempty"`
		Arm       string    `json:"arm"`
		Client    string    `json:"client"`
		Measure   string    `json:"measure"`
	}
	wireStep struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		Tolerance string `json:"tolerance,omitempty"`
	}
	wireActivity struct {
		Activity wireStep  `json:"activity"`
		Status   Outcome   `json:"status"`
		Start    time.Time `json:"start"`
		End      time.Time `json:"end"`
		Duration seconds   `json:"duration"`
		Output   *string   `json:"output"`
		At       seconds   `json:"at"`
		Done     seconds   `json:"done"`
	}
	wireArm struct {
		Name     string             `json:"arm"`
		Client   string             `json:"client"`
		Measures map[string]float64 `json:"measures"`
		Lanes    []wireLane         `json:"lanes"`
		Note     string             `json:"note,omitempty"`
	}
	wireLane struct {
		Name  string     `json:"name"`
		Kind  string     `json:"kind,omitempty"`
		Spans []wireSpan `json:"spans,omitempty"`
		Marks []wireMark `json:"marks,omitempty"`
	}
	wireSpan struct {
		From  seconds `json:"from"`
		To    seconds `json:"to"`
		State string  `json:"state"`
		Label string  `json:"label,omitempty"`
	}
	wireMark struct {
		At      seconds `json:"at"`
		Kind    string  `json:"kind"`
		Verdict string  `json:"verdict,omitempty"`
		Harm    bool    `json:"harm,omitempty"`
		Label   string  `json:"label,omitempty"`
		Count   int     `json:"count,omitempty"`
	}
)

// each maps a slice. The result of none is empty, which is an array in JSON, and
// not null.
func each[A, B any](list []A, f func(A) B) []B {
	mapped := make([]B, len(list))
	for i, a := range list {
		mapped[i] = f(a)
	}
	return mapped
}

// orNil is list, or nil if it is empty, so that what is read equals what was
// written.
func orNil[A any](list []A) []A {
	if len(list) == 0 {
		return nil
	}
	return list
}

func (j *Journal) wire() *wireJournal {
	w := &wireJournal{
		Version: Version, Program: j.Program, Platform: j.Platform, Node: j.Node,
		Def: j.Definition, Start: j.Start.UTC(), End: j.End.UTC(), Duration: seconds(j.End.Sub(j.Start)),
		Status: j.Status, Deviated: j.Verdict == Deviated,
		States: wireStates{Before: state(j.Before, j.Start), After: state(j.After, j.End), During: []struct{}{}},
		Run:    each(j.Run, j.activity), Rollback: each(j.Rollback, j.activity),
		Name: j.Name, Title: j.Title, About: j.Description,
		Verd: j.Verdict, Reason: j.Reason, Again: j.Again,
		Seed: j.Seed, Repeat: j.Repeat, Scale: j.Scale, Length: seconds(j.Length),
		Arms: each(j.Arms, func(a Arm) wireArm {
			return wireArm{a.Name, a.Client, a.Measures, each(a.Lanes, func(l Lane) wireLane {
				return wireLane{l.Name, l.Kind,
					each(l.Spans, func(s Span) wireSpan { return wireSpan{seconds(s.From), seconds(s.To), s.State, s.Label} }),
					each(l.Marks, func(m Mark) wireMark {
						return wireMark{seconds(m.At), m.Kind, m.Verdict, m.Harm, m.Label, m.Count}
					})}
			}), a.Note}
		}),
	}
	if w.Def == nil {
		w.Def = json.RawMessage("{}") // Chaos Toolkit wants an object
	}
	if !j.Zero.IsZero() {
		zero := j.Zero.UTC()
		w.Zero = &zero
	}
	return w
}

// state is the outcome of a hypothesis, nil if nothing was checked. Checking
// takes no time: it is done on what was measured until then.
func state(checks []Check, at time.Time) *wireState {
	if len(checks) == 0 {
		return nil
	}
	s := &wireState{Met: true}
	for _, c := range checks {
		p := wireProbe{
			Activity: wireStep{"probe", c.name(), c.Tolerance}, Status: StepSucceeded,
			Start: at.UTC(), End: at.UTC(), Met: c.Met, Value: c.Value,
			Arm: c.Arm, Client: c.Client, Measure: c.Measure,
		}
		if c.Problem != "" {
			p.Status, p.Exception = StepFailed, []string{c.Problem}
		}
		s.Met = s.Met && c.Met && c.Problem == ""
		s.Probes = append(s.Probes, p)
	}
	return s
}

// name is that of a check: arm/client/measure.
func (c Check) name() string { return c.Arm + "/" + c.Client + "/" + c.Measure }

func (j *Journal) activity(a Activity) wireActivity {
	start, end := j.wall(a.At), j.wall(a.Done)
	if a.Status == StepSkipped {
		end = start
	}
	w := wireActivity{
		Activity: wireStep{Type: "action", Name: a.Name}, Status: a.Status,
		Start: start, End: end, Duration: seconds(end.Sub(start)),
		At: seconds(a.At), Done: seconds(a.Done),
	}
	if a.Output != "" {
		w.Output = &a.Output
	}
	return w
}

// zero is the instant of T+0.
func (j *Journal) zero() time.Time {
	if j.Zero.IsZero() {
		return j.Start
	}
	return j.Zero
}

// wall is when a moment of the experiment's time was.
func (j *Journal) wall(d time.Duration) time.Time {
	const longest = float64(math.MaxInt64 / 2) // of a Duration, with a margin for its rounding
	return j.zero().Add(time.Duration(max(-longest, min(longest, float64(d)/j.Scale)))).UTC()
}

func (w *wireJournal) journal() *Journal {
	j := &Journal{
		Program: w.Program, Platform: w.Platform, Node: w.Node,
		Start: w.Start.UTC(), End: w.End.UTC(), Status: w.Status,
		Before: w.States.Before.checks(), After: w.States.After.checks(),
		Run: orNil(each(w.Run, wireActivity.activity)), Rollback: orNil(each(w.Rollback, wireActivity.activity)),
		Name: w.Name, Title: w.Title, Description: w.About,
		Verdict: w.Verd, Reason: w.Reason, Again: w.Again,
		Seed: w.Seed, Repeat: w.Repeat, Scale: w.Scale, Length: time.Duration(w.Length),
		Arms: orNil(each(w.Arms, func(a wireArm) Arm {
			return Arm{a.Name, a.Client, a.Measures, orNil(each(a.Lanes, func(l wireLane) Lane {
				return Lane{l.Name, l.Kind,
					orNil(each(l.Spans, func(s wireSpan) Span {
						return Span{time.Duration(s.From), time.Duration(s.To), s.State, s.Label}
					})),
					orNil(each(l.Marks, func(m wireMark) Mark {
						return Mark{time.Duration(m.At), m.Kind, m.Verdict, m.Harm, m.Label, m.Count}
					}))}
			})), a.Note}
		})),
	}
	var def bytes.Buffer
	if err := json.Compact(&def, w.Def); err == nil && def.String() != "{}" && def.String() != "null" {
		j.Definition = def.Bytes()
	}
	if w.Zero != nil {
		j.Zero = w.Zero.UTC()
	}
	return j
}

func (s *wireState) checks() []Check {
	if s == nil {
		return nil
	}
	return orNil(each(s.Probes, func(p wireProbe) Check {
		c := Check{Arm: p.Arm, Client: p.Client, Measure: p.Measure, Value: p.Value, Tolerance: p.Activity.Tolerance, Met: p.Met}
		if len(p.Exception) > 0 {
			c.Problem = p.Exception[0]
		}
		return c
	}))
}

func (w wireActivity) activity() Activity {
	a := Activity{Name: w.Activity.Name, At: time.Duration(w.At), Done: time.Duration(w.Done), Status: w.Status}
	if w.Output != nil {
		a.Output = *w.Output
	}
	return a
}
