package server

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// overview is what the first page shows.
type overview struct {
	Started string
	Kinds   []kindView
	Runs    []runView
	// More is whether there may be older runs.
	More bool
}

// kindView is a table of resources.
type kindView struct {
	Title, None string
	Experiments bool
	Resources   []resourceView
}

type resourceView struct {
	control.Resource
	State   badge
	Verdict badge
	Updated string
	// Run is the id of the latest run if there can be a page for it.
	Run string
	// Others are the addresses of the replicas after the first.
	Others []string
}

// badge is a word with a sign and a colour, which says the same.
type badge struct{ Class, Sign, Word string }

func viewKind(kind control.Kind, list []control.Resource) kindView {
	v := kindView{Title: "Servers", None: "There is no server yet."}
	switch kind {
	case control.LoadBalancers:
		v.Title, v.None = "Load balancers", "There is no load balancer yet."
	case control.Experiments:
		v.Title, v.None, v.Experiments = "Experiments", "There is no experiment yet.", true
	}
	for _, r := range list {
		view := resourceView{Resource: r, State: stateBadge(r.Status.State), Updated: moment(r.Updated)}
		if v.Experiments && r.Status.State == control.Running {
			view.State.Word = "ready" // it serves nothing
		}
		if r.Status.Verdict != "" {
			view.Verdict = verdictBadge(journal.Verdict(r.Status.Verdict))
		}
		if control.ValidID(r.Status.LastRun) {
			view.Run = r.Status.LastRun
		}
		if len(r.Status.Addrs) > 1 {
			view.Others = r.Status.Addrs[1:]
		}
		v.Resources = append(v.Resources, view)
	}
	return v
}

func stateBadge(state control.State) badge {
	switch state {
	case control.Running:
		return badge{"good", "✓", "running"}
	case control.Failed:
		return badge{"bad", "✕", "failed"}
	}
	return badge{"off", "?", string(state)}
}

func verdictBadge(verdict journal.Verdict) badge {
	switch verdict {
	case journal.Upheld:
		return badge{"good", "✓", "upheld"}
	case journal.Deviated:
		return badge{"bad", "✕", "deviated"}
	case journal.Inconclusive:
		return badge{"unsure", "?", "inconclusive"}
	case journal.AbortedVerdict:
		return badge{"off", "■", "aborted"}
	}
	return badge{"off", "–", string(verdict)}
}

// runBadge is the verdict of a run, or how far it is.
func runBadge(run control.Run) badge {
	switch {
	case run.State == control.Queued:
		return badge{"off", "…", "queued"}
	case run.State == control.Active:
		return badge{"busy", "▶", "running"}
	case run.Verdict != "":
		return verdictBadge(run.Verdict)
	case run.State == control.Interrupted:
		return badge{"off", "■", "interrupted"}
	}
	return badge{"off", "–", string(run.State)}
}

// runView is what is shown of a run.
type runView struct {
	control.Run
	Badge  badge
	Means  string
	Active bool
	// Linked is whether there can be a page for it.
	Linked   bool
	Began    string
	Took     string
	Facts    []fact
	Journals []journalLink
	// Now is the latest news of a run that is not over, and Steps those in which
	// something began, at most maxSteps, the latest ones.
	Now     string
	Steps   []stepView
	Dropped int
}

type fact struct{ Name, Value string }

// journalLink is the way to one repeat's report.
type journalLink struct {
	N            int
	Report, JSON string
}

type stepView struct {
	Repeat             int
	Clock, Phase, Step string
}

const (
	maxSteps = 200
	// maxLinks is how many reports are linked.
	maxLinks = 100
)

func viewRun(run control.Run) runView {
	v := runView{Run: run, Badge: runBadge(run), Active: !run.State.Final(), Linked: control.ValidID(run.ID), Began: moment(run.Created)}
	v.Means = meaning(run)
	if run.Started != nil {
		end := time.Now()
		if run.Ended != nil {
			end = *run.Ended
		}
		v.Took = length(end.Sub(*run.Started))
	}
	v.Facts = facts(run)
	for n := 1; v.Linked && n <= min(run.Journals, maxLinks); n++ {
		path := "/v1/runs/" + url.PathEscape(run.ID) + "/journals/" + strconv.Itoa(n)
		v.Journals = append(v.Journals, journalLink{N: n, Report: path + "/report", JSON: path})
	}
	return v
}

// meaning explains a badge, where the run's own reason does not in numbers.
func meaning(run control.Run) string {
	switch {
	case run.State == control.Queued:
		return "It waits for a run before it."
	case run.State == control.Active:
		return "It is not over; this page follows it."
	}
	if run.Reason != "" && (run.Verdict == journal.Upheld || run.Verdict == journal.Deviated) {
		return ""
	}
	switch run.Verdict {
	case journal.Upheld:
		return "The control arm failed as the hypothesis says, and the protected arm held."
	case journal.Deviated:
		return "The protected arm did not hold."
	case journal.Inconclusive:
		return "Nothing was shown, neither for nor against. That is not a pass."
	case journal.AbortedVerdict:
		return "The run was stopped before there was anything to judge."
	}
	return "The run ended before there was anything to judge."
}

func facts(run control.Run) []fact {
	all := []fact{
		{"Asked for", instant(run.Created)},
		{"Experiment’s generation", strconv.FormatInt(run.Generation, 10)},
	}
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	if run.Started != nil {
		add("Started", instant(*run.Started))
	}
	if run.Ended != nil {
		add("Ended", instant(*run.Ended))
	}
	add("Arms", strings.Join(run.Request.Arms, ", "))
	var clients []string
	for _, c := range run.Request.Clients {
		clients = append(clients, string(c))
	}
	add("Clients", strings.Join(clients, ", "))
	if n := run.Request.Seed; n != 0 {
		add("Seed", strconv.FormatUint(n, 10))
	}
	if n := run.Request.Repeat; n > 1 {
		add("Repeats", strconv.Itoa(n))
	}
	if n := run.Request.Scale; n != 0 {
		add("Scale", "×"+strconv.FormatFloat(n, 'g', 6, 64))
	}
	return all
}

// add takes news of a run into its view.
func (v *runView) add(e control.RunEvent) {
	v.Now = e.Phase
	if e.Phase != "" && e.Clock != 0 {
		v.Now += ", T+" + clock(e.Clock)
	}
	if e.Repeat > 0 && v.Request.Repeat > 1 {
		v.Now = fmt.Sprintf("repeat %d of %d: %s", e.Repeat, v.Request.Repeat, v.Now)
	}
	if e.Step == "" {
		return
	}
	if len(v.Steps) == maxSteps {
		v.Steps = v.Steps[1:]
		v.Dropped++
	}
	v.Steps = append(v.Steps, stepView{Repeat: e.Repeat, Clock: clock(e.Clock), Phase: e.Phase, Step: e.Step})
}

// clock is a time of the experiment, in seconds.
func clock(seconds float64) string {
	total := int64(seconds)
	if h := total / 3600; h > 0 {
		return fmt.Sprintf("%d:%02d:%02d", h, total/60%60, total%60)
	}
	return fmt.Sprintf("%02d:%02d", total/60, total%60)
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}

// moment is an instant in a table, which says elsewhere that it is in UTC.
func moment(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006, 15:04")
}

func length(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	d = d.Round(time.Second)
	h, m, sec := d/time.Hour, d/time.Minute%60, d/time.Second%60
	switch {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, sec)
	}
	return fmt.Sprintf("%d s", sec)
}

// clean is text without characters that would change how the text around it is
// read.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) {
			return '\ufffd'
		}
		return r
	}, text)
}

// capital is text that begins a line.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
