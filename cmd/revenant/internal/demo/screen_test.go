package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLinesOfBothArms(t *testing.T) {
	c := clock{start: time.Unix(0, 0), minute: time.Minute}
	entry := func(arm string, minute float64, text string) Entry {
		return Entry{At: c.at(minute), Arm: arm, Kind: text, Text: text}
	}
	quiet := entry(Control, 1, "q")
	quiet.Quiet = true
	for _, test := range []struct {
		name               string
		control, protected []Entry
		want               string
	}{
		{"nothing", nil, nil, ""},
		{"the same", []Entry{entry(Control, 2, "a"), entry(Control, 3, "b")}, []Entry{entry(Protected, 1, "a"), entry(Protected, 4, "b")},
			"T+01:00 both a, T+03:00 both b"},
		{"the same, then others", []Entry{entry(Control, 1, "a"), entry(Control, 1, "b")}, []Entry{entry(Protected, 1, "a"), entry(Protected, 1.5, "c")},
			"T+01:00 both a, T+01:00 control b, T+01:30 protected c"},
		{"others, then the same", []Entry{entry(Control, 1, "b"), entry(Control, 2, "a")}, []Entry{entry(Protected, 1, "c"), entry(Protected, 2, "a")},
			"T+01:00 control b, T+02:00 control a, T+01:00 protected c, T+02:00 protected a"},
		{"one arm", nil, []Entry{entry(Protected, 1, "a")}, "T+01:00 protected a"},
		{"quiet", []Entry{quiet}, []Entry{quiet}, ""},
	} {
		var got []string
		for _, l := range c.merge(test.control, test.protected) {
			got = append(got, Clock(l.Clock)+" "+l.Arm+" "+l.Text)
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestClocks(t *testing.T) {
	c := clock{start: time.Unix(100, 0), minute: 600 * time.Millisecond}
	if got := Clock(c.since(time.Unix(100, 0).Add(18600*time.Millisecond + 9*time.Millisecond))); got != "T+31:00" {
		t.Errorf("18.609 s are %s, want T+31:00: what is a little late belongs to its second", got)
	}
	if got := Minutes(c.record(1200 * time.Millisecond)); got != "2:00" {
		t.Errorf("1.2 s are %s, want 2:00", got)
	}
	if got := Clock(-90 * time.Second); got != "T-01:30" {
		t.Errorf("Clock() = %s, want T-01:30", got)
	}
}

// longest is a line as long as they come.
var longest = Line{Clock: 31 * time.Minute, Entry: Entry{
	Part: 1, Arm: Protected, Kind: "x", Tone: Harm,
	Text: "the session expires; the stream stays open, no one is told",
}}

func TestScreenWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, false, true)
	s.Begin("go-sdk v1.8.0", 100, 600*time.Millisecond)
	s.Doing("something")
	s.Line(longest)
	s.End()
	text := out.String()
	if strings.ContainsAny(text, "\r\x1b") {
		t.Errorf("control characters in\n%q", text)
	}
	checkWidth(t, text)
	const want = "\nT+31:00  protected  the session expires; the stream stays open, no one is told\n"
	if !strings.HasSuffix(text, want) {
		t.Errorf("%s\nwant at its end %s", text, want)
	}
}

func TestScreenOnATerminal(t *testing.T) {
	for _, color := range []bool{false, true} {
		drawn := make(chan struct{}, 100)
		out := &notifying{wrote: drawn}
		s := NewScreen(out, true, color)
		s.Doing(strings.Repeat("something ", 20))
		s.Begin("go-sdk v1.8.0", 100, 600*time.Millisecond)
		<-drawn // the head
		<-drawn // the progress line
		s.Line(longest)
		s.End()
		if got := strings.Contains(out.String(), "\x1b["); got != color {
			t.Errorf("color %t: %q", color, out.String())
		}
		if !strings.Contains(out.String(), "  something something") {
			t.Errorf("no progress line in %q", out.String())
		}
		if got := screen(out.String()); strings.Contains(got, "something") || !strings.Contains(got, "\nT+31:00  protected  the session expires") {
			t.Errorf("on the screen stays\n%s", got)
		}
		checkWidth(t, screen(out.String()))
	}
}

func TestScreenKeepsTheErrorOfItsWriter(t *testing.T) {
	s := NewScreen(broken{}, false, false)
	s.Begin("go-sdk", 100, time.Second)
	s.Line(longest)
	s.End()
	if !errors.Is(s.Err(), errBroken) {
		t.Errorf("Err() = %v, want %v", s.Err(), errBroken)
	}
}

func TestFinishSaysWhyARunIsNotUpheld(t *testing.T) {
	r := &Report{Verdict: Inconclusive, Reasons: []string{"the control arm does not show the failure: " + strings.Repeat("long ", 30)}}
	r.Arms.Control.Parts = []PartReport{{Part: 1, NoticedAt: Nowhere}}
	r.Arms.Protected.Parts = []PartReport{{Part: 1, NoticedAt: Nowhere}}
	var out bytes.Buffer
	NewScreen(&out, false, false).Finish(r)
	text := out.String()
	checkWidth(t, text)
	for _, want := range []string{"Verdict: inconclusive\n  the control arm does not show the failure: long", "not at all         not at all\n", "control    nothing\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "middleware.New") {
		t.Errorf("recommends the middleware after\n%s", text)
	}
}

func checkWidth(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// screen is what is to be seen of an output after its end.
func screen(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		var shown []rune
		for part := range strings.SplitSeq(line, "\r") {
			for {
				before, rest, found := strings.Cut(part, "\x1b[")
				if !found {
					break
				}
				_, rest, _ = strings.Cut(rest, "m")
				part = before + rest
			}
			r := []rune(part)
			shown = append(r, shown[min(len(r), len(shown)):]...)
		}
		b.WriteString(strings.TrimRight(string(shown), " ") + "\n")
	}
	return b.String()
}

// notifying says of each write that it was made.
type notifying struct {
	buf   bytes.Buffer
	wrote chan<- struct{}
}

func (n *notifying) Write(p []byte) (int, error) {
	defer func() { n.wrote <- struct{}{} }()
	return n.buf.Write(p)
}

func (n *notifying) String() string { return n.buf.String() }

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }
