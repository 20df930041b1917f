package history

import (
	"fmt"
	"strings"
)

// Problem is why nothing can be said.
type Problem struct {
	// Assumption is what does not hold, in a few words, and Detail where.
	Assumption, Detail string
}

// String is the assumption and the detail.
func (p Problem) String() string { return p.Assumption + ": " + p.Detail }

// Problems is the error of a count that cannot be made.
type Problems []Problem

// Error lists the problems.
func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.String()
	}
	return "history: " + strings.Join(texts, "; ")
}

// maxDetails is how many problems of one assumption are told.
const maxDetails = 3

// findings collects what speaks against one assumption.
type findings struct {
	assumption string
	found      Problems
	more       int
}

func (f *findings) add(format string, args ...any) {
	if len(f.found) >= maxDetails {
		f.more++
		return
	}
	f.found = append(f.found, Problem{f.assumption, fmt.Sprintf(format, args...)})
}

func (f *findings) problems() Problems {
	if f.more > 0 {
		f.found = append(f.found, Problem{f.assumption, fmt.Sprintf("and %d more like it", f.more)})
		f.more = 0
	}
	return f.found
}

// count makes a count over a History: it checks the assumptions, and if they
// hold, has f count. What panics has a Problem.
func count[T any](h *History, needs []assumption, f func(*index) (T, Problems)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			var zero T
			value, err = zero, Problems{{"the counter works", fmt.Sprintf("it panics: %v", p)}}
		}
	}()
	x := newIndex(h)
	var problems Problems
	for _, need := range needs {
		found := &findings{assumption: need.says}
		need.check(x, found)
		problems = append(problems, found.problems()...)
	}
	if len(problems) == 0 {
		value, problems = f(x)
	}
	if len(problems) > 0 {
		var zero T
		return zero, problems
	}
	return value, nil
}
