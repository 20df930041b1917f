package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

// The second session ends at the servers' word, which go-sdk repeats with the id.
const secret = `
name: secret
title: A session that ends
description: Its id is told to its client alone.
length: 800ms
clients: {gosdk: {}, naive: {}, mcpgo: {}}
topology: {servers: {retry: 100ms}, load_balancer: {}}
teeth: {none: it is about the journal}
method:
  - {at: 100ms, reap: {}}
  - {at: 200ms, cut: {}}
  - {at: 400ms, call: {tool: echo, retries: 1}}
hypothesis:
  control: {detection_error: {regex: .}}
  protected: {detection_error: {regex: .}}
`

func parse(t *testing.T, text string) *experiment.Definition {
	t.Helper()
	d, err := experiment.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A session's id is a credential: nothing that leaves the process has one in full.
func TestNoSessionIDInAJournal(t *testing.T) {
	r := newRun(parse(t, secret), Options{})
	r.do(t.Context())
	j := r.journal()
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range r.cells {
		for _, of := range c.history.Clients {
			for _, b := range of.Began {
				n++
				if strings.Contains(string(data), b.Session) {
					t.Errorf("the journal has the session id of %s in full", c.name())
				}
			}
		}
	}
	if n < 12 {
		t.Errorf("%d sessions were begun, want 2 in each of 6 cells: %s", n, j.Reason)
	}
}

// A checker that panics has shown nothing, and nothing else is lost by it.
func TestAPanickingCheckerIsInconclusive(t *testing.T) {
	r := newRun(parse(t, secret), Options{})
	ok := experiment.Expectation{Subject: experiment.Subject{Measure: experiment.SessionsBegun}, Tolerance: experiment.Exactly(experiment.NumberValue(0))}
	c := r.cells[0]
	c.history = &history.History{End: time.Second}
	r.after = c.checks([]experiment.Expectation{ok, ok})
	// A cell without clients, whose history has none of its calls either.
	c.users = []*user{{c: c, attempts: map[string][]int{"x": {1}}}}
	broken := ok
	broken.Subject = experiment.Subject{Measure: experiment.CallAttempts, Call: "x"}
	r.after = append(r.after, c.checks([]experiment.Expectation{broken})...)
	status, verdict, reason := r.verdict()
	if verdict != "inconclusive" || status != "completed" || !strings.Contains(reason, "calls.x.attempts cannot be counted: the checker panicked") {
		t.Errorf("verdict %s, %s: %s, want inconclusive for the panic", status, verdict, reason)
	}
	if !r.after[0].met() || !r.after[1].met() || r.after[2].met() {
		t.Error("want the other checks met, and the broken one not")
	}
	if !strings.Contains(r.after[2].problem, "judge.go") {
		t.Errorf("problem %q, want where it panicked", r.after[2].problem)
	}
}

// A panic in a cell ends the run, and is in the journal.
func TestAPanicInACell(t *testing.T) {
	r := newRun(parse(t, secret), Options{})
	err := r.each(t.Context(), func(c *cell, _ context.Context) error {
		if c == r.cells[1] {
			panic("on purpose")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "protected gosdk: panicked: on purpose") {
		t.Errorf("each() = %v, want the panic with its cell", err)
	}
}

// What is done again and again lets others in between.
func TestMoments(t *testing.T) {
	d := parse(t, strings.NewReplacer(
		"{at: 100ms, reap: {}}", "{at: 100ms, every: 100ms, until: 450ms, emit: {}}",
		"  control: {detection_error: {regex: .}}\n", "", "detection_error: {regex: .}", "events_lost: 0").Replace(secret))
	var got []string
	for _, m := range moments(d) {
		text := m.at.String() + " " + d.Method[m.step].Kind()
		if m.last {
			text += " last"
		}
		got = append(got, text)
	}
	want := []string{"100ms emit", "200ms emit", "200ms cut last", "300ms emit", "400ms emit last", "400ms call last"}
	if !slices.Equal(got, want) {
		t.Errorf("moments %q, want %q", got, want)
	}
}

// What cannot be counted in the protected arm takes nothing from what was clearly
// missed there; in the control arm it leaves nothing shown.
func TestUncountable(t *testing.T) {
	d := parse(t, secret)
	for name, c := range map[string]struct {
		blurred, missed string // arms
		want            string
	}{
		"protected alone":          {"protected", "", "inconclusive"},
		"protected, and a miss":    {"protected", "protected", "deviated"},
		"control, and a miss":      {"control", "protected", "inconclusive"},
		"protected, control miss":  {"protected", "control", "inconclusive"},
		"nothing blurred, a miss":  {"", "protected", "deviated"},
		"nothing blurred or wrong": {"", "", "upheld"},
	} {
		r := newRun(d, Options{})
		for _, cell := range r.cells[:2] {
			k := check{cell: cell, x: experiment.Expectation{Subject: experiment.Subject{Measure: experiment.EventsLost}, Tolerance: experiment.Exactly(experiment.NumberValue(0))}}
			k.value = experiment.NumberValue(0)
			r.after = append(r.after, k)
			if cell.arm == c.blurred {
				k.problem = "it is not known"
				r.after = append(r.after, k)
				k.problem = ""
			}
			if cell.arm == c.missed {
				k.value = experiment.NumberValue(1)
				r.after = append(r.after, k)
			}
		}
		if _, verdict, reason := r.verdict(); string(verdict) != c.want {
			t.Errorf("%s: %s (%s), want %s", name, verdict, reason, c.want)
		}
	}
}

// A wait that fails in the protected arm alone is that arm's failure. In both, or
// in the control arm, it shows nothing.
func TestAWaitThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		fails     int // the cell
		succeeded []int
		want      string
	}{
		"in the protected arm":               {1, []int{0}, "deviated"},
		"of another kind of client's":        {1, []int{2, 3}, "inconclusive"},
		"before the control arm's was over":  {1, nil, "inconclusive"},
		"in the control arm":                 {0, []int{1}, "inconclusive"},
		"in the protected arm of the second": {3, []int{0, 1, 2}, "deviated"},
	} {
		r := newRun(parse(t, secret), Options{})
		for _, i := range c.succeeded {
			r.done(r.steps[1], r.cells[i], "", nil)
		}
		err := &awaitError{r.cells[c.fails], experiment.WhenBack, experiment.Duration(time.Second)}
		r.done(r.steps[1], r.cells[c.fails], "", err)
		r.stopped = r.cells[c.fails].errorf("step: %w", err)
		if _, verdict, reason := r.verdict(); string(verdict) != c.want {
			t.Errorf("%s: %s (%s), want %s", name, verdict, reason, c.want)
		}
	}
}

// What a machine lacks is said, and nothing is started.
func TestMissing(t *testing.T) {
	d := parse(t, strings.NewReplacer("load_balancer: {}", "load_balancer: {engine: nginx}", "{at: 200ms, cut: {}}", "{at: 200ms, restart_load_balancer: {}}").Replace(secret))
	r := newRun(d, Options{})
	var asked []string
	r.available = func(n experiment.Need) error {
		asked = append(asked, n.What)
		return errors.New("program not found")
	}
	r.do(t.Context())
	j := r.journal()
	if err := j.Validate(); err != nil {
		t.Errorf("the journal is not valid: %v", err)
	}
	const want = "this machine lacks what the experiment needs: program not found"
	if j.Verdict != "inconclusive" || j.Status != "failed" || j.Reason != want || !slices.Equal(asked, []string{"the program nginx"}) {
		t.Errorf("%s, %s: %s, asked for %q, want failed, inconclusive, %q, asked for nginx", j.Status, j.Verdict, j.Reason, asked, want)
	}
	if len(j.Arms) != 0 || !r.zero.IsZero() {
		t.Errorf("%d arms in the journal, and sessions from %v, want that nothing was begun", len(j.Arms), r.zero)
	}
}
