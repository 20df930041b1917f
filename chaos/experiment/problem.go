package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a definition.
type Problem struct {
	_ struct{}

	// File is what was read, Line and Column where in it, from 1, the column in
	// characters. All are zero in a definition that was not read from text.
	File         string
	Line, Column int
	// Path is the key, such as "method[2].fault.kind", "" for the definition as a
	// whole.
	Path string
	// Message says what is wrong and what would be right.
	Message string
	// Suggestion is the nearest word that would be right, "" for none.
	Suggestion string

	source string // the line
	width  int    // of what is wrong in it, in characters
}

// Error is the problem on one line, with its place, path and suggestion.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:", p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
		}
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + " ")
	}
	b.WriteString(p.Message)
	if p.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %s?", p.Suggestion)
	}
	return b.String()
}

// Source returns the line with the problem, numbered, and a caret below the place;
// "" for a problem without one. Both lines end with a newline.
func (p *Problem) Source() string {
	if p.Line == 0 {
		return ""
	}
	number := strconv.Itoa(p.Line)
	source, column := window(p.source, p.Column)
	// The caret's line keeps the tabs, so that it is as wide as the source's.
	before := []rune(source)[:column-1]
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	rest := utf8.RuneCountInString(source) - len(before)
	mark := "^" + strings.Repeat("~", max(0, min(p.width, rest)-1))
	return fmt.Sprintf("  %s | %s\n  %s | %s%s\n", number, source, strings.Repeat(" ", len(number)), string(before), mark)
}

// window cuts a line that is too long to be shown, so that the column is in what
// remains.
func window(line string, column int) (string, int) {
	const most = 100
	r := []rune(line)
	for i, c := range r {
		if c < ' ' && c != '\t' || c == utf8.RuneError {
			r[i] = '·'
		}
	}
	column = max(1, min(column, len(r)+1))
	from := 0
	if column > most {
		from = column - most/2
	}
	to := min(len(r), from+most)
	return string(r[from:to]), column - from
}

// Problems is everything that is wrong with a definition, in the order of the
// file. [errors.As] finds it in what [Load], [Parse] and [Definition.Validate]
// return.
type Problems []*Problem

// maxProblems is how many are reported of one definition.
const maxProblems = 50

// Error has one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Text is all problems with their lines of source, for people. It ends with a
// newline.
func (p Problems) Text() string {
	var b strings.Builder
	for _, one := range p {
		b.WriteString(one.Error() + "\n" + one.Source())
	}
	return b.String()
}

// sorted puts the problems into the order of the file, and no more of them than
// are worth reading.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(p) > maxProblems {
		rest := len(p) - maxProblems
		p = append(p[:maxProblems:maxProblems], &Problem{
			File: p[0].File, Message: fmt.Sprintf("has %d more problems like these", rest),
		})
	}
	return p
}

// err is nil for none.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p.sorted()
}

// nearest returns the word that a misspelled one was probably meant to be, or "".
func nearest(word string, words []string) string {
	best, least := "", len([]rune(word))/3+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), w); d < least || d == least && best == "" && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of characters to insert, remove, replace, or swap with
// their neighbour. Words that are too long are far from everything.
func distance(a, b string) int {
	const longest = 64
	x, y := []rune(a), []rune(b)
	if len(x) > longest || len(y) > longest {
		return longest
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			changed := 1
			if x[i-1] == y[j-1] {
				changed = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+changed)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
