package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

// check is one expectation of a cell, and what became of it.
type check struct {
	cell    *cell
	x       experiment.Expectation
	value   experiment.Value
	problem string // why nothing can be said
}

func (k check) met() bool { return k.problem == "" && k.x.Tolerance.Accepts(k.value) }

// judge counts over the histories what the hypothesis is about.
func (r *run) judge() {
	for _, c := range r.cells {
		r.after = append(r.after, c.checks(c.expected())...)
	}
}

// expected is what the hypothesis says of the end.
func (c *cell) expected() []experiment.Expectation {
	h := &c.r.d.Hypothesis
	if c.arm == experiment.Control {
		return h.Control.For(c.kind)
	}
	return h.Protected.For(c.kind)
}

// checks compares what is expected with the cell's history. Without one there is
// nothing to say.
func (c *cell) checks(expected []experiment.Expectation) []check {
	all := make([]check, len(expected))
	for i, x := range expected {
		all[i] = check{cell: c, x: x}
		all[i].count()
	}
	return all
}

// count sets the value. A checker that panics has shown nothing.
func (k *check) count() {
	defer func() {
		if p := recover(); p != nil {
			k.problem = fmt.Sprintf("the checker panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if k.cell.history == nil {
		k.problem = "nothing was recorded"
		return
	}
	value, err := k.cell.value(k.x.Subject)
	if err != nil {
		k.problem = err.Error()
		return
	}
	k.value = value
}

// value measures something.
func (c *cell) value(s experiment.Subject) (experiment.Value, error) {
	h := c.history
	if s.Call != "" {
		return c.callValue(s)
	}
	if s.Session > 0 {
		h = h.Session(s.Session)
	}
	switch s.Measure {
	case experiment.DetectedAt:
		place, err := history.DetectedAt(h)
		return experiment.TextValue(string(place)), err
	case experiment.DetectionError:
		text, err := history.DetectionError(h.Redacted())
		return experiment.TextValue(text), err
	}
	m, ok := history.MeasureNamed(string(s.Measure))
	if !ok {
		return experiment.Value{}, fmt.Errorf("nothing counts %s", s.Measure)
	}
	got := m.Of(h)
	if got.Problem != "" {
		return experiment.Value{}, fmt.Errorf("%s", got.Problem)
	}
	if info, _ := s.Measure.Info(); info.Kind == experiment.TimeSpan {
		return experiment.TimeValue(experiment.Duration(got.Value * 1e9)), nil
	}
	return experiment.NumberValue(got.Value), nil
}

// attempt is one of the calls of a named step.
type attempt struct {
	of   *history.Client
	call history.Call
}

// callValue measures something of a named call.
func (c *cell) callValue(s experiment.Subject) (experiment.Value, error) {
	var outcomes = map[string]bool{}
	var attempts, code, prompted int
	var longest experiment.Duration
	for i, u := range c.users {
		all := u.attemptsOf(s.Call, &c.history.Clients[i])
		attempts = max(attempts, len(all))
		if len(all) == 0 {
			outcomes[experiment.CallNotMade] = true
			continue
		}
		first, last := all[0], all[len(all)-1]
		outcomes[last.outcome()] = true
		prompted = max(prompted, last.prompts(c.history))
		longest = max(longest, c.r.d.Record(first.took(c.history)))
		if code == 0 {
			code = int(first.call.Code)
		}
	}
	switch s.Measure {
	case experiment.CallAttempts:
		return experiment.NumberValue(float64(attempts)), nil
	case experiment.CallErrorCode:
		return experiment.NumberValue(float64(code)), nil
	case experiment.CallPrompts:
		return experiment.NumberValue(float64(prompted)), nil
	case experiment.CallDuration:
		return experiment.TimeValue(longest), nil
	case experiment.CallOutcome:
		if len(outcomes) > 1 {
			return experiment.TextValue(experiment.CallMixed), nil
		}
		for outcome := range outcomes {
			return experiment.TextValue(outcome), nil
		}
		return experiment.TextValue(experiment.CallNotMade), nil
	}
	return experiment.Value{}, fmt.Errorf("nothing counts %s of a call", s.Measure)
}

// attemptsOf are the calls of a named step that the history has.
func (u *user) attemptsOf(name string, of *history.Client) []attempt {
	var all []attempt
	for _, ref := range u.attempts[name] {
		for _, k := range of.Calls {
			if k.Ref == ref {
				all = append(all, attempt{of, k})
			}
		}
	}
	return all
}

func (a attempt) outcome() string {
	switch {
	case a.call.Ended == nil || a.call.How == client.Hanging:
		return experiment.CallHanging
	case a.call.How == client.Result:
		return experiment.CallAnswered
	}
	return experiment.CallFailed
}

// took is how long it was open.
func (a attempt) took(h *history.History) time.Duration {
	if a.call.Ended != nil {
		return *a.call.Ended - a.call.At
	}
	return h.End - a.call.At
}

// prompts counts how often the person was prompted while it was open.
func (a attempt) prompts(h *history.History) (n int) {
	until := a.call.At + a.took(h)
	for _, p := range a.of.Prompts {
		if p.At >= a.call.At && p.At <= until {
			n++
		}
	}
	return n
}
