package teeth_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// table is which mutant which experiment refutes. It is safe for concurrent use.
type table struct {
	columns []string // the experiments, and unitColumn where that is asked for

	mu    sync.Mutex
	cells map[cell]outcome
}

// cell is one place of a table. The row of the real middleware is "".
type cell struct{ row, column string }

// unitColumn is the middleware's own tests, which no experiment is called as.
const unitColumn = "the middleware's own tests"

// maxColumns fit on a line of 80 characters.
const maxColumns = (80 - maxName) / 2

func newTable(columns []string) *table {
	return &table{columns: columns, cells: make(map[cell]outcome)}
}

func (t *table) set(row, column string, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[cell{row, column}] = o
}

func (t *table) get(row, column string) (outcome, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.cells[cell{row, column}]
	return o, ok
}

// mark is what a table shows of a cell.
func (t *table) mark(row, column string) string {
	o, ok := t.get(row, column)
	switch {
	case !ok:
		return " "
	case o.verdict == deviated:
		return "x"
	case o.verdict == upheld:
		return "·"
	}
	return "?"
}

// refuted counts the rows that a column refutes.
func (t *table) refuted(rows []string, column string) (n int) {
	for _, row := range rows {
		if o, _ := t.get(row, column); o.verdict == deviated {
			n++
		}
	}
	return n
}

// text is the table for people, with these mutants as its rows.
func (t *table) text(rows []string) string {
	var b strings.Builder
	for first := 0; first < len(t.columns); first += maxColumns {
		columns := t.columns[first:min(first+maxColumns, len(t.columns))]
		tens, units := strings.Repeat(" ", maxName), strings.Repeat(" ", maxName)
		for i := range columns {
			n := first + i + 1
			ten := " "
			if n >= 10 {
				ten = fmt.Sprint(n / 10)
			}
			tens += " " + ten
			units += fmt.Sprintf(" %d", n%10)
		}
		for _, line := range []string{tens, units} {
			if line = strings.TrimRight(line, " "); line != "" {
				b.WriteString(line + "\n")
			}
		}
		for _, row := range append([]string{""}, rows...) {
			line := fmt.Sprintf("%-*s", maxName, row)
			if row == "" {
				line = fmt.Sprintf("%-*s", maxName, "(as it is)")
			}
			for _, column := range columns {
				line += " " + t.mark(row, column)
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		b.WriteString("\n")
	}
	b.WriteString("x refuted  · survived  ? nothing was shown\n\n")
	for i, column := range t.columns {
		fmt.Fprintf(&b, "%3d  %-*s refutes %d\n", i+1, maxName+4, column, t.refuted(rows, column))
	}
	return b.String()
}

func TestTable(t *testing.T) {
	columns := slices.Repeat([]string{"e"}, 11)
	for i := range columns {
		columns[i] = fmt.Sprintf("e%d", i+1)
	}
	tab := newTable(columns)
	tab.set("", "e1", outcome{verdict: upheld})
	tab.set("m", "e1", outcome{verdict: deviated})
	tab.set("n", "e1", outcome{verdict: deviated})
	tab.set("m", "e2", outcome{verdict: upheld})
	tab.set("n", "e11", outcome{verdict: "inconclusive"})
	pad := func(text string) string { return fmt.Sprintf("%-*s", maxName, text) }
	want := strings.Join([]string{
		pad("") + "                   1 1",
		pad("") + " 1 2 3 4 5 6 7 8 9 0 1",
		pad("(as it is)") + " ·",
		pad("m") + " x ·",
		pad("n") + " x                   ?",
		"",
		"x refuted  · survived  ? nothing was shown",
		"",
		"  1  " + pad("e1") + "     refutes 2",
		"  2  " + pad("e2") + "     refutes 0",
		"",
	}, "\n")
	if got := tab.text([]string{"m", "n"}); !strings.HasPrefix(got, want) {
		t.Errorf("text() =\n%s\nwant it to begin with\n%s", got, want)
	}
}

// No line is longer than a terminal is wide, however many experiments there are.
func TestTableIsNarrow(t *testing.T) {
	tab := newTable(nil)
	for i := range 3 * maxColumns {
		tab.columns = append(tab.columns, fmt.Sprintf("e%d", i))
		tab.set("m", tab.columns[i], outcome{verdict: deviated})
	}
	text := tab.text([]string{"m"})
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d characters in %q, want at most 80", n, line)
		}
	}
	if got := strings.Count(text, "x"); got != 3*maxColumns+1 {
		t.Errorf("%d marks, want %d and the legend's:\n%s", got, 3*maxColumns, text)
	}
}
