package journal

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// maxRows is how many rows a table shows unfolded; maxFolded how many more it
// has at all.
const (
	maxRows   = 60
	maxFolded = 2000
)

// numbers is a table: a row for each client's measure, a column for each arm.
type numbers struct {
	Arms         []string
	Rows, Folded []numberRow
	Left         int // rows in neither
}

type numberRow struct {
	Client, Measure string
	Cells           [][]cell // for each arm; more than one if it was checked more than once
	unmet           bool
}

// cell is a number and, if it was checked, what became of that.
type cell struct {
	Value, Tolerance   string
	Sign, Class, State string
	Problem            string
}

// compare makes the table of checks, nil if there are none.
func compare(checks []Check) *numbers {
	t := newTable()
	for _, c := range checks {
		k := cell{Value: line(c.Value), Tolerance: line(c.Tolerance)}
		switch {
		case c.Problem != "":
			k.Sign, k.Class, k.State, k.Problem = "?", "unknown", "cannot be said", line(c.Problem)
		case c.Met:
			k.Sign, k.Class, k.State = "✓", "met", "as expected"
		default:
			k.Sign, k.Class, k.State = "✕", "unmet", "not as expected"
		}
		t.add(c.Arm, c.Client, c.Measure, k, k.Class != "met")
	}
	return t.numbers()
}

// measured makes the table of all that was measured, nil if nothing was.
func measured(arms []Arm) *numbers {
	t := newTable()
	for _, a := range arms {
		for _, name := range slices.Sorted(maps.Keys(a.Measures)) {
			t.add(a.Name, a.Client, name, cell{Value: strconv.FormatFloat(a.Measures[name], 'g', 10, 64)}, false)
		}
	}
	return t.numbers()
}

type tableKey struct{ client, measure string }

// table collects cells, its rows and columns in the order in which they come.
type table struct {
	arms []string
	keys []tableKey
	rows map[tableKey]map[string][]cell
	bad  map[tableKey]bool
}

func newTable() *table {
	return &table{rows: map[tableKey]map[string][]cell{}, bad: map[tableKey]bool{}}
}

func (t *table) add(arm, client, measure string, c cell, unmet bool) {
	if !slices.Contains(t.arms, arm) {
		t.arms = append(t.arms, arm)
	}
	k := tableKey{client, measure}
	if t.rows[k] == nil {
		t.keys = append(t.keys, k)
		t.rows[k] = map[string][]cell{}
	}
	t.rows[k][arm] = append(t.rows[k][arm], c)
	t.bad[k] = t.bad[k] || unmet
}

func (t *table) numbers() *numbers {
	if len(t.keys) == 0 {
		return nil
	}
	n := &numbers{Arms: each(t.arms, words)}
	// Rows of a client stand together.
	var clients []string
	byClient := map[string][]tableKey{}
	for _, k := range t.keys {
		if byClient[k.client] == nil {
			clients = append(clients, k.client)
		}
		byClient[k.client] = append(byClient[k.client], k)
	}
	for _, c := range clients {
		for _, k := range byClient[c] {
			r := numberRow{Client: line(k.client), Measure: words(k.measure), unmet: t.bad[k]}
			for _, arm := range t.arms {
				r.Cells = append(r.Cells, t.rows[k][arm])
			}
			n.Rows = append(n.Rows, r)
		}
	}
	if len(n.Rows) > maxRows {
		rows := first(n.Rows, func(r numberRow) bool { return r.unmet })
		n.Rows, n.Folded = rows[:maxRows], rows[maxRows:]
		if len(n.Folded) > maxFolded {
			n.Left = len(n.Folded) - maxFolded
			n.Folded = n.Folded[:maxFolded]
		}
	}
	return n
}

// definition is what was run, as indented JSON.
func (j *Journal) definition() string {
	if j.Definition == nil {
		return ""
	}
	var out bytes.Buffer
	if err := json.Indent(&out, j.Definition, "", "  "); err != nil {
		return clean(string(j.Definition))
	}
	return clean(out.String())
}
