package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// printer writes outcomes for people, in 80 columns, and remembers its first
// error.
type printer struct {
	out   io.Writer
	color bool
	names int // how wide the column of names is
	err   error
}

func (p *printer) print(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.out, text)
	}
}

// verdict is a verdict, as wide as the longest and in its color.
func (p *printer) verdict(v string) string {
	text := fmt.Sprintf("%-12s", v)
	if !p.color {
		return text
	}
	code := "33"
	switch journal.Verdict(v) {
	case journal.Upheld:
		code = "32"
	case journal.Deviated:
		code = "31"
	case "skipped":
		code = "2"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line writes a verdict, a name, and what there is to say.
func (p *printer) line(verdict, name, text string) {
	first := fmt.Sprintf("%-12s  %-*s  ", verdict, p.names, plain(name))
	lines := wrapped(first, "    ", text)
	p.print(p.verdict(verdict) + lines[len(fmt.Sprintf("%-12s", verdict)):])
}

// ran writes what became of a run: one line, and of one that is not upheld why,
// and the checks that were not met.
func (p *printer) ran(o *outcome, r ran) {
	text := took(r.End.Sub(r.Start))
	if r.Repeat > 0 {
		text += fmt.Sprintf(", run %d", r.Repeat)
		if o.repeat >= r.Repeat {
			text += fmt.Sprintf(" of %d", o.repeat)
		}
	}
	p.line(string(r.Verdict), o.name, text)
	if r.Verdict == journal.Upheld {
		return
	}
	p.print(wrapped("    ", "    ", r.Reason))
	p.checks("    ", unmet(r.Journal))
}

// summary writes the counts of all, and where to read on. again is a command.
func (p *printer) summary(all outcomes, where []string, again string) {
	var counts []string
	for i := len(verdicts) - 1; i >= 0; i-- {
		if n := len(all.having(verdicts[i].verdict)); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, verdicts[i].verdict))
		}
	}
	if n := len(all) - len(all.judged()); n > 0 {
		counts = append(counts, fmt.Sprintf("%d skipped", n))
	}
	text := strings.Join(counts, ", ")
	if n := len(all.journals()); n > 1 {
		text += fmt.Sprintf("; %d runs, %s", n, took(all.took()))
	}
	p.print("\n" + wrapped("", "    ", text))
	for _, w := range where {
		p.print(wrapped("report:  ", "         ", w))
	}
	if again != "" {
		p.print(wrapped("again:   ", "         ", again))
	}
}

// checked is a check, and when it was made.
type checked struct {
	journal.Check
	before bool
}

// checksOf are all checks of a run: those from before the method, and those at the
// end.
func checksOf(j *journal.Journal) []checked {
	var all []checked
	for _, c := range j.Before {
		all = append(all, checked{c, true})
	}
	for _, c := range j.After {
		all = append(all, checked{c, false})
	}
	return all
}

// met is whether a check was met, so that there is nothing to say of it.
func (c checked) met() bool { return c.Met && c.Problem == "" }

// unmet are the checks that were not met.
func unmet(j *journal.Journal) []checked {
	var all []checked
	for _, c := range checksOf(j) {
		if !c.met() {
			all = append(all, c)
		}
	}
	return all
}

// checks writes a table without a heading: the arm, the client, what was measured,
// and what that is and ought to be.
func (p *printer) checks(indent string, all []checked) {
	const widest = 40
	arms, clients, measures := 0, 0, 0
	for _, c := range all {
		arms, clients = max(arms, utf8.RuneCountInString(c.Arm)), max(clients, utf8.RuneCountInString(c.Client))
		measures = max(measures, min(widest, utf8.RuneCountInString(c.Measure)))
	}
	for _, c := range all {
		first := fmt.Sprintf("%s%-*s  %-*s  %-*s  ", indent, arms, plain(c.Arm), clients, plain(c.Client), measures, plain(c.Measure))
		p.print(wrapped(first, indent+"    ", c.words()))
	}
}

// words says what was measured and, if it is something else, what that ought to
// be.
func (c checked) words() string {
	text := c.Value
	switch {
	case c.Problem != "" && text == "":
		text = "not known"
	case text == "":
		text = "nothing"
	}
	if c.Tolerance != "" && c.Tolerance != text {
		text += ", want " + c.Tolerance
	}
	if c.before {
		text += ", before the method"
	}
	if c.Problem != "" {
		// What follows the first line is for whoever mends a checker.
		first, _, _ := strings.Cut(c.Problem, "\n")
		text += "; it cannot be said: " + first
	}
	return text
}

// table writes all checks of a run, each with what came of it.
func (p *printer) table(j *journal.Journal) {
	all := checksOf(j)
	for _, before := range []bool{true, false} {
		part := slices.DeleteFunc(slices.Clone(all), func(c checked) bool { return c.before != before })
		if len(part) == 0 {
			continue
		}
		p.print(map[bool]string{true: "\n  Before the method\n", false: "\n  At the end\n"}[before])
		for i, c := range part {
			part[i].Arm = map[bool]string{true: "met      ", false: "not met  "}[c.met()] + c.Arm
			part[i].before = false // the heading says it
		}
		p.checks("    ", part)
	}
}

// whole writes all that there is to say of a run.
func (p *printer) whole(r ran) {
	title := r.Name
	if r.Title != "" {
		title += ": " + r.Title
	}
	p.print(wrapped("", "  ", title))
	run := ""
	if r.Repeat > 0 {
		run = fmt.Sprintf("run %d, ", r.Repeat)
	}
	p.print(wrapped("  ", "    ", fmt.Sprintf("%s, %s%s after %s, seed %d, %s",
		r.Verdict, run, r.Status, took(r.End.Sub(r.Start)), r.Seed, r.Start.UTC().Format("2006-01-02 15:04:05 UTC"))))
	p.print(wrapped("  ", "  ", r.Reason))
	p.table(r.Journal)
	if r.Again != "" {
		p.print("\n" + wrapped("  again:  ", "          ", r.Again))
	}
}

// story writes what happened in a run.
func (p *printer) story(r ran) {
	p.print("\n")
	if p.err == nil {
		p.err = r.WriteStory(p.out)
	}
}
