package demo

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Entry is one thing that happened in one arm.
type Entry struct {
	At   time.Time
	Part int
	Arm  string
	// Session is the id of the arm's session then.
	Session string
	// Kind is for programs, Text for people, and Detail the error that Text
	// speaks of, whole, "" for none. A [Screen] does not show it.
	Kind, Text, Detail string
	// Tone is how it looks from the application's point of view.
	Tone Tone
	// Quiet entries are not shown to people, who have seen their like before.
	Quiet bool
}

// Tone is how something looks from the application's point of view.
type Tone uint8

// The tones. Harm is what the middleware is there to prevent.
const (
	Plain Tone = iota
	Good
	Harm
)

// Line is one line of the timeline for people. Arm is "both" where the same
// happened in both arms; At is then when it happened first.
type Line struct {
	Entry
	// Clock is At in the record's time, since T+0.
	Clock time.Duration
}

// Both is the arm of a [Line] that both arms share.
const Both = "both"

// merge makes lines of what happened in the two arms during one step. What both
// begin with is told once.
func (c clock) merge(control, protected []Entry) []Line {
	var lines []Line
	add := func(e Entry) {
		if !e.Quiet {
			lines = append(lines, Line{Entry: e, Clock: c.since(e.At)})
		}
	}
	for len(control) > 0 && len(protected) > 0 && alike(control[0], protected[0]) {
		e := control[0]
		if p := protected[0]; p.At.Before(e.At) {
			e.At = p.At
		}
		e.Arm = Both
		add(e)
		control, protected = control[1:], protected[1:]
	}
	for _, e := range control {
		add(e)
	}
	for _, e := range protected {
		add(e)
	}
	return lines
}

func alike(a, b Entry) bool {
	return a.Kind == b.Kind && a.Text == b.Text && a.Detail == b.Detail
}

func sortByTime(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Arm, b.Arm))
	})
}

// Clock writes a moment of the record: T+31:00.
func Clock(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("T%s%02d:%02d", sign, d/time.Minute, d%time.Minute/time.Second)
}

// Minutes writes a length of time of the record: 2:00.
func Minutes(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}
