package journal

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// WriteStory writes what happened, moment by moment, as text for a terminal of 80
// columns: for each kind of client both arms in one list, where what both did at
// the same time stands once, and what the middleware is there to prevent has a "!"
// in front. The steps of the method stand among them.
func (j *Journal) WriteStory(w io.Writer) error {
	out := bufio.NewWriter(w)
	var clients []string
	for _, a := range j.Arms {
		if !slices.Contains(clients, a.Client) {
			clients = append(clients, a.Client)
		}
	}
	for i, client := range clients {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "Client %s\n", line(client))
		for _, e := range j.story(client) {
			e.write(out)
		}
	}
	return out.Flush()
}

// told is one line of a story.
type told struct {
	at, until time.Duration
	arm       string // "both", "step"
	text      string // %s where the count belongs, if there is one
	count     int
	times     int
	harm      bool
}

// same is whether two lines say the same, at about the same time.
func (e told) same(as told, within time.Duration) bool {
	return e.text == as.text && e.count == as.count && e.times == as.times && e.harm == as.harm &&
		(e.at-as.at).Abs() <= within && (e.until-as.until).Abs() <= within
}

const (
	// storyShare is the part of the experiment within which two moments are the
	// same to somebody who reads.
	storyShare = 100
	// storyGap is the part of it that parts what would else be one line.
	storyGap = 15
)

// story is what happened to the clients of one kind.
func (j *Journal) story(client string) []told {
	within := max(j.end()/storyShare, time.Second)
	arms := map[string][]told{}
	for _, a := range j.Arms {
		if a.Client == client {
			for _, e := range tell(a, j.end()/storyGap) {
				if e.until-e.at <= within {
					e.until = e.at
				}
				arms[a.Name] = append(arms[a.Name], e)
			}
		}
	}
	lines := both(arms[Control], arms[Protected], within)
	for _, a := range j.Run {
		if a.Status != StepSkipped {
			lines = append(lines, told{at: a.At, until: a.At, arm: "step", text: a.Name, times: 1})
		}
	}
	// A step comes before what it does.
	slices.SortStableFunc(lines, func(a, b told) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.arm, a.arm))
	})
	return lines
}

// end is how long the experiment's time went on.
func (j *Journal) end() time.Duration {
	end := j.Length
	for _, a := range j.Arms {
		for _, l := range a.Lanes {
			for _, s := range l.Spans {
				end = max(end, s.To)
			}
		}
	}
	return end
}

// tell puts an arm's marks into words. Marks that follow each other closely and
// say the same are one line.
func tell(a Arm, gap time.Duration) []told {
	var all []told
	for _, l := range a.Lanes {
		who := ""
		if name, _, ok := strings.Cut(l.Name, ": "); ok {
			who = " (" + name + ")"
		}
		for i, m := range l.Marks {
			if m.Kind == MarkReleased {
				if m.Count -= keptBack(l.Marks[i+1:], m.At); m.Count <= 0 {
					continue
				}
			}
			if text := storyOf(l, m); text != "" {
				all = append(all, told{at: m.At, until: m.At, arm: a.Name, text: text + who, count: max(1, m.Count), times: 1, harm: m.Harm})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y told) int { return cmp.Compare(x.at, y.at) })
	var out []told
	for _, e := range all {
		if n := len(out); n > 0 && out[n-1].text == e.text && out[n-1].harm == e.harm && e.at-out[n-1].until <= gap {
			last := &out[n-1]
			last.until = e.at
			if strings.Contains(e.text, "%s") {
				last.count += e.count
			} else {
				last.times++
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

// keptBack counts what was not handed on of what was released at that moment.
func keptBack(after []Mark, at time.Duration) (n int) {
	for _, m := range after {
		if m.At-at > time.Second {
			break
		}
		if m.Kind == MarkSuppressed || m.Kind == MarkStale {
			n++
		}
	}
	return n
}

// both merges two arms' lines: those that they have in common, in the same order
// and at about the same time, stand once.
func both(control, protected []told, within time.Duration) []told {
	// common[i][k] is how many lines control[i:] and protected[k:] can share.
	common := make([][]int, len(control)+1)
	for i := range common {
		common[i] = make([]int, len(protected)+1)
	}
	for i := len(control) - 1; i >= 0; i-- {
		for k := len(protected) - 1; k >= 0; k-- {
			common[i][k] = max(common[i+1][k], common[i][k+1])
			if control[i].same(protected[k], within) {
				common[i][k] = max(common[i][k], 1+common[i+1][k+1])
			}
		}
	}
	var out []told
	i, k := 0, 0
	for i < len(control) && k < len(protected) {
		switch {
		case control[i].same(protected[k], within) && common[i][k] == 1+common[i+1][k+1]:
			e := control[i]
			took := e.until - e.at
			e.arm, e.at = "both", min(e.at, protected[k].at)
			e.until = e.at + took
			out = append(out, e)
			i, k = i+1, k+1
		case common[i+1][k] >= common[i][k+1]:
			out = append(out, control[i])
			i++
		default:
			out = append(out, protected[k])
			k++
		}
	}
	return append(append(out, control[i:]...), protected[k:]...)
}

// storyOf is a mark in words, with a %s for a count of things; "" for what says
// nothing that another mark does not say better.
func storyOf(l Lane, m Mark) string {
	label := strings.ReplaceAll(line(m.Label), "%", "%%")
	with := func(text string) string {
		if label == "" {
			return text
		}
		return text + ": " + label
	}
	switch m.Kind {
	case MarkCut:
		if l.Name == "faults" {
			return "" // The step says so.
		}
		return "a stream is cut: " + strings.TrimPrefix(label, "lb: ")
	case MarkReconnect:
		if label == "refused" {
			return "the client asks for its stream again, and gets none"
		}
		return "the client comes back for its stream, " + label
	case MarkReplay:
		return "the server replays %s"
	case MarkProbe:
		switch m.Verdict {
		case ProbeLive:
			return "the middleware probes the session: it lives"
		case ProbeDead:
			return "the middleware probes the session: it is dead"
		}
		return "the middleware probes the session: nobody can tell"
	case MarkHeld:
		return "the middleware holds what is replayed"
	case MarkReleased:
		return "the middleware releases %s"
	case MarkQuarantined:
		return "the middleware quarantines %s"
	case MarkSuppressed:
		return "the middleware keeps back what the application had already"
	case MarkStale:
		return "the middleware fails a call: nobody waits for the answer"
	case MarkFenced:
		return "the middleware refuses a request of the dead session"
	case MarkApplied:
		if m.Harm {
			return "the application acts on %s of a dead session"
		}
		return "the application is given %s"
	case MarkPrompted:
		if m.Harm {
			return "the person is prompted again"
		}
		return "the person is prompted"
	case MarkCalled:
		return with("a call is answered")
	case MarkFailed:
		tool, _, _ := strings.Cut(label, ":")
		return "a call fails: " + tool
	case MarkRefused:
		return with("the server refuses a request")
	case MarkInitialized:
		return "a session begins"
	case MarkDied:
		return with("the session dies")
	case "told":
		return "the application is told that its session is over"
	}
	return with(words(m.Kind))
}

const (
	storyWidth = 79
	// storyIndent is the columns before the text: the moment, the sign, the arm.
	storyIndent = 10 + 2 + 10
)

func (e told) write(w io.Writer) {
	text := e.text
	if strings.Contains(text, "%s") {
		events := fmt.Sprintf("%s events", grouped(e.count))
		if e.count == 1 {
			events = "an event"
		}
		text = strings.Replace(text, "%s", events, 1)
	}
	text = strings.ReplaceAll(text, "%%", "%")
	switch {
	case e.times > 1 && e.until > e.at:
		text += fmt.Sprintf(", %s times until %s", grouped(e.times), clock(e.until))
	case e.times > 1:
		text += fmt.Sprintf(", %s times", grouped(e.times))
	case e.until > e.at:
		text += ", until " + clock(e.until)
	}
	sign := " "
	if e.harm {
		sign = "!"
	}
	head := fmt.Sprintf("%-10s%s %-10s", clock(e.at), sign, e.arm)
	for _, part := range wrapped(text, storyWidth-storyIndent) {
		fmt.Fprintln(w, strings.TrimRight(head+part, " "))
		head = strings.Repeat(" ", storyIndent)
	}
}

// wrapped breaks a text into lines of so many columns, between words if it can.
func wrapped(text string, width int) []string {
	var lines []string
	now := ""
	for _, word := range strings.Fields(text) {
		if now != "" && len([]rune(now))+1+len([]rune(word)) > width {
			lines, now = append(lines, now), ""
		}
		if now != "" {
			now += " "
		}
		now += word
	}
	return append(lines, now)
}
