package demo

import (
	"bytes"
	"errors"
	"slices"
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
	s.Begin(SessionRecord, "go-sdk v1.8.0", 100, 600*time.Millisecond)
	s.Doing("something")
	s.Line(longest)
	s.Abort()
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
		s.Begin(SessionRecord, "go-sdk v1.8.0", 100, 600*time.Millisecond)
		<-drawn // the head
		<-drawn // the progress line
		s.Line(longest)
		s.Abort()
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
	s.Begin(SessionRecord, "go-sdk", 100, time.Second)
	s.Line(longest)
	s.Abort()
	if !errors.Is(s.Err(), errBroken) {
		t.Errorf("Err() = %v, want %v", s.Err(), errBroken)
	}
}

// nothing is what came of records in which nothing happened.
func nothing(outcome Outcome, reasons ...string) []*Findings {
	session, elicitation := finding(SessionRecord, outcome, false, reasons...), finding(ElicitationRecord, outcome, false, reasons...)
	parts := []PartReport{{Part: 1, NoticedAt: Nowhere}}
	session.detail = &SessionReport{Arms: Arms{Control: ArmReport{Parts: parts}, Protected: ArmReport{Parts: parts}}}
	return []*Findings{session, elicitation}
}

func TestScreenSaysWhyARecordIsNotUpheld(t *testing.T) {
	for i, want := range []string{"not at all         not at all\n", "open               open\n"} {
		f := nothing(Inconclusive, "the control arm does not show the failure: "+strings.Repeat("long ", 30))[i]
		var out bytes.Buffer
		s := NewScreen(&out, false, false)
		s.Begin(f.Record, "go-sdk", 100, time.Second)
		s.End(f)
		r := newReport(Config{}, 0)
		r.add(f)
		s.Finish(r)
		text := out.String()
		checkWidth(t, text)
		for _, want := range []string{"Verdict: inconclusive\n  the control arm does not show the failure: long", want, "control    nothing\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		if strings.Contains(text, "middleware.New") || strings.Contains(text, f.detail.meaning()[:40]) {
			t.Errorf("recommends the middleware after\n%s", text)
		}
	}
}

// Each record is told with its own words, what both share once.
func TestScreenOfTwoRecords(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, false, false)
	r := newReport(Config{}, 0)
	for _, f := range slices.Backward(nothing(Upheld)) {
		s.Begin(f.Record, "go-sdk v1.8.0", 100, 600*time.Millisecond)
		s.Line(longest)
		s.End(f)
		r.add(f)
	}
	s.Finish(r)
	text := out.String()
	checkWidth(t, text)
	for _, test := range []struct {
		text  string
		count int
	}{
		{"go-sdk v1.8.0, unmodified", 1},
		{ElicitationRecord.title + "\n\n", 1},
		{"\n" + SessionRecord.title + "\n\n", 1},
		{"whole 25s.", 1},
		{"whole 4s.", 1},
		{SessionRecord.headings[1], 1},
		{"\n\nT+31:00", 1}, // a record without parts has no heading
		{"The two arms side by side", 2},
		{"Verdict: upheld", 2},
		{"middleware.New(", 1},
	} {
		n := strings.Count(text, test.text)
		if wrapped := strings.Replace(test.text, " ", "\n", 1); wrapped != test.text {
			n += strings.Count(text, wrapped)
		}
		if n != test.count {
			t.Errorf("%q is %d times, not %d, in\n%s", test.text, n, test.count, text)
		}
	}
}

func TestScreenShowsTheElicitation(t *testing.T) {
	told := "calling: stale"
	f := finding(ElicitationRecord, Upheld, false)
	f.detail = &ElicitationReport{Arms: ElicitationArms{
		Control: ElicitationArm{Reconnects: 5, Prompts: 6, AnswersDropped: 4, Call: CallReport{AfterMS: 4200, AfterRecordMS: 420_000}},
		Protected: ElicitationArm{
			Reconnects: 2, Prompts: 1, AnswersDropped: 3,
			Call:     CallReport{Ended: true, AfterMS: 1510, AfterRecordMS: 151_000, Error: &told, ErrorCode: -32001},
			CallAnew: &CallAnewReport{Answered: true, Prompts: 1},
		},
	}}
	var out bytes.Buffer
	NewScreen(&out, false, false).End(f)
	checkWidth(t, out.String())
	for _, want := range []string{
		"Reconnects of the call's stream          5                  2\n",
		"Prompts for one request                  6                  1\n",
		"  answers for which nobody waited        4                  3\n",
		"The call                                 open               failed: -32001\n",
		"  so long after it began                 7:00 min (4.20 s)  2:31 min (1.51 s)\n",
		"The call, made anew                      -                  answered, 1 prompt\n",
		"control    nothing\n",
		"protected  calling: stale\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	for _, test := range []struct{ got, want string }{
		{CallReport{Ended: true}.words(), "answered"},
		{CallReport{Ended: true, Error: &told}.words(), "failed"},
		{(&CallAnewReport{Answered: true, Prompts: 2}).words(), "answered, 2 prompts"},
		{(&CallAnewReport{Prompts: 1}).words(), "failed"},
	} {
		if test.got != test.want {
			t.Errorf("a call is %q, want %q", test.got, test.want)
		}
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
