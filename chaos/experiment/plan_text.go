package experiment

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// columns is how wide a plan is.
const columns = 80

// WriteText writes the plan for people, in 80 columns and without colors.
func (p *Plan) WriteText(w io.Writer) error {
	t := &page{}
	t.line("%s: %s", p.Name, p.Title)
	t.line("")
	for i, paragraph := range strings.Split(p.Description, "\n\n") {
		if i > 0 {
			t.line("")
		}
		t.wrap("  ", "  ", paragraph)
	}

	t.heading("Topology, one for each kind of client in each arm")
	t.picture(p.Path)
	for _, hop := range p.Path {
		if len(hop.Settings) > 0 {
			t.item(hop.What, strings.Join(hop.Settings, ", "))
		}
		for i, r := range hop.Rules {
			t.item(fmt.Sprintf("rule %d", i+1), strings.Join(r, ", "))
		}
	}

	t.heading("Arms")
	for i := 0; i < len(p.Arms); i += 2 { // the control arm's, and the same protected
		a := p.Arms[i]
		t.item(string(a.Client), strings.Join(append([]string{fmt.Sprintf("%d in each arm", a.Count)}, a.Settings...), ", "))
	}
	guard := "with the middleware"
	if g := p.Arms[1].Guard; len(g) > 0 {
		guard += ": " + strings.Join(g, ", ")
	}
	t.item(Control, "without the middleware")
	t.item(Protected, guard)

	t.heading("Timeline")
	t.row("record", "real", "")
	for _, s := range p.Timeline {
		at := "T+" + s.At.String()
		if s.Times > 1 {
			at += " to " + s.Until.String()
		}
		what := s.What
		if s.Name != "" {
			what = s.Name + "; " + what
		}
		t.row(at, s.Real.String(), what)
	}
	t.row("T+"+p.Length.String(), p.Takes.String(), "the end: the hypothesis is checked, all faults are undone")

	t.hypothesis(p)
	if len(p.Rollbacks) > 0 {
		t.heading("Rollbacks, whatever happens")
		for _, r := range p.Rollbacks {
			t.wrap("  ", "    ", r)
		}
	}
	t.heading("Aborted and rolled back")
	t.wrap("  ", "    ", "after "+p.TimeLimit.String())
	for _, c := range p.Abort {
		t.wrap("  ", "    ", fmt.Sprintf("%s arm: %s", c.Arm, c.Words))
	}

	t.heading("This machine")
	scale := strconv.FormatFloat(p.TimeScale, 'f', -1, 64)
	takes := fmt.Sprintf("%v, %s times faster than the record", p.Takes, scale)
	if p.TimeScale == 1 {
		takes = p.Takes.String() + ", as long as the record"
	}
	if p.Repeats > 1 {
		takes += fmt.Sprintf(", and that %d times", p.Repeats)
	}
	t.item("takes", takes)
	t.item("seed", strconv.FormatUint(p.Seed, 10))
	t.needs(p)
	for _, n := range p.Notes {
		t.item("note", n)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// hypothesis has what the arms are expected to measure.
func (t *page) hypothesis(p *Plan) {
	t.heading("Hypothesis")
	if p.Hypothesis != "" {
		t.wrap("  ", "  ", p.Hypothesis)
	}
	arm := "none yet"
	for _, c := range p.Claims {
		if c.Arm != arm {
			arm = c.Arm
			t.line("  %s", map[string]string{
				"": "Before the method, both arms:", Control: "The control arm, at the end:", Protected: "The protected arm, at the end:",
			}[arm])
		}
		text := c.Words
		if c.Client != "" {
			text = string(c.Client) + ": " + text
		}
		t.wrap("    ", "      ", text)
	}
	if p.NoTeeth != "" {
		t.wrap("  ", "  ", "The control arm need not fail: "+p.NoTeeth)
	}
}

func (t *page) needs(p *Plan) {
	if len(p.Needs) == 0 {
		t.item("needs", "nothing but this program and loopback")
	}
	for _, n := range p.Needs {
		if n.Available {
			t.item("needs", n.What+": there")
		} else {
			t.item("needs", n.What+": NOT THERE: "+n.Missing)
		}
	}
}

// String is the time for people: "600ms", "25.8s", "2m30s".
func (m Millis) String() string {
	d := time.Duration(m)
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	return Duration(d).String()
}

// page is text under way.
type page struct{ b strings.Builder }

func (t *page) line(format string, args ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

func (t *page) heading(text string) {
	t.line("")
	t.line("%s", text)
}

// item is a word and what there is to say of it.
func (t *page) item(word, text string) {
	const width = 15
	t.wrap(fmt.Sprintf("  %-*s", width, word), strings.Repeat(" ", width+2), text)
}

// row is a line of the timeline.
func (t *page) row(at, real, text string) {
	const width = 22
	t.wrap(fmt.Sprintf("  %-*s %6s  ", width, at, real), strings.Repeat(" ", width+11), text)
}

// wrap writes a text, its first line behind one indent and the others behind
// another. A word that is too long for a line is broken.
func (t *page) wrap(first, rest, text string) {
	line, fresh := first, true
	for _, word := range strings.Fields(text) {
		for {
			room := columns - utf8.RuneCountInString(line)
			if !fresh {
				room--
			}
			length := utf8.RuneCountInString(word)
			if length <= room {
				break
			}
			if !fresh {
				t.line("%s", line)
				line, fresh = rest, true
				continue
			}
			r := []rune(word)
			t.line("%s", line+string(r[:max(1, room)]))
			line, word = rest, string(r[max(1, room):])
		}
		if !fresh {
			line += " "
		}
		line, fresh = line+word, false
	}
	t.line("%s", line)
}

// picture draws the path: boxes, and links as the lines between them.
func (t *page) picture(hops []Hop) {
	var top, middle, bottom strings.Builder
	joint := ""
	for i, hop := range hops {
		if hop.What == "link" || hop.What == "network" {
			joint += "(" + hop.Name + ")──"
			continue
		}
		left, right := "├", "├"
		if i == 0 {
			left = "│"
		}
		if i == len(hops)-1 {
			right = "│"
		}
		if joint != "" {
			left = "┤"
		}
		gap := strings.Repeat(" ", utf8.RuneCountInString(joint))
		line := strings.Repeat("─", utf8.RuneCountInString(hop.Name)+2)
		top.WriteString(gap + "┌" + line + "┐")
		middle.WriteString(joint + left + " " + hop.Name + " " + right)
		bottom.WriteString(gap + "└" + line + "┘")
		joint = "──"
	}
	for _, line := range []*strings.Builder{&top, &middle, &bottom} {
		t.line("  %s", line.String())
	}
}
