package journal

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages. Whatever a journal says reaches them as plain strings,
// which html/template escapes for the place where they stand.
var templates = template.Must(template.ParseFS(templateFiles, "templates/*"))

// WriteHTML writes the journal's page: everything in one file, without scripts
// and without anything to load. It is HTML and well-formed XML at the same time.
// The page of a journal that is not valid is an error, and nothing is written.
func (j *Journal) WriteHTML(w io.Writer) error { return j.writeHTML(w, "", "") }

// writeHTML writes the page with links to the page of all runs and to the JSON,
// where they are not "".
func (j *Journal) writeHTML(w io.Writer, up, data string) error {
	if err := j.Validate(); err != nil {
		return err
	}
	return execute(w, "page.tmpl", j.page(up, data))
}

// execute writes all of a template or nothing.
func execute(w io.Writer, name string, view any) error {
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, name, view); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// page is what the page's template shows. All text in it is clean.
type page struct {
	Title, Description string
	Up, Data           string
	Seal               seal
	Reason             string
	Means              string // what the verdict says, "" if the reason says as much
	Incomplete         string
	Facts              []fact
	Clients            []client
	MoreClients        int
	Legend             []legend
	Before, After      *numbers
	Measured           *numbers
	Steps, Rollbacks   []step
	Again              string
	Definition         string
}

type fact struct{ Name, Value string }

// client is the pictures of one client's arms.
type client struct {
	Name string
	Arms []armView
	More int // arms without a picture
}

type armView struct {
	Name, Means string
	Class       string
	Picture     *picture
	// Calm is how it is said that there is no harm: as good news, or, of the
	// control arm, as none.
	Calm, CalmSign string
	Note           string
}

// step is a line of the method, or of the rollbacks.
type step struct {
	N                            int
	At, Done, Name, Status, Sign string
	Class, Output                string
}

func (j *Journal) page(up, data string) *page {
	p := &page{
		Title: line(j.title()), Description: paragraphs(j.Description),
		Up: up, Data: data,
		Seal: sealOf(j.Verdict), Reason: line(j.Reason), Means: meaning(j),
		Facts: j.facts(),
		Again: strings.TrimSpace(clean(j.Again)), Definition: j.definition(),
		Steps: steps(j.Run), Rollbacks: steps(j.Rollback),
		Before: compare(j.Before), After: compare(j.After), Measured: measured(j.Arms),
	}
	switch j.Status {
	case Failed:
		p.Incomplete = "Something that the run needed did not work."
	case Aborted:
		p.Incomplete = "A condition of its own stopped the run before its end."
	case Interrupted:
		p.Incomplete = "The run was interrupted before its end."
	}
	p.Clients, p.MoreClients = j.clients()
	p.Legend = legendOf(p.Clients)
	return p
}

func (j *Journal) facts() []fact {
	started := j.Start.UTC().Format("2 January 2006, 15:04:05 UTC")
	facts := []fact{
		{"Started", started},
		{"Took", length(j.End.Sub(j.Start))},
		{"Experiment's time", fmt.Sprintf("%s, at ×%s", length(j.axis().end), strconv.FormatFloat(j.Scale, 'g', 6, 64))},
		{"Seed", strconv.FormatUint(j.Seed, 10)},
		{"Experiment", line(j.Name)},
	}
	for _, f := range []fact{
		{"Repeat", strconv.Itoa(j.Repeat)},
		{"Program", line(j.Program)},
		{"Platform", line(j.Platform)},
		{"Machine", line(j.Node)},
	} {
		if f.Value != "" && f.Value != "0" {
			facts = append(facts, f)
		}
	}
	return facts
}

// maxClients is how many clients have pictures, maxArms how many arms of each.
const (
	maxClients = 12
	maxArms    = 6
)

// clients draws the pictures, those of a client together, in the order of the
// journal. Where there are more than are drawn, clients whose checks are not met
// come first.
func (j *Journal) clients() (list []client, more int) {
	var names []string
	arms := map[string][]Arm{}
	for _, a := range j.Arms {
		if arms[a.Client] == nil {
			names = append(names, a.Client)
		}
		arms[a.Client] = append(arms[a.Client], a)
	}
	if len(names) > maxClients {
		unmet := map[string]bool{}
		for _, c := range j.After {
			unmet[c.Client] = unmet[c.Client] || !c.Met || c.Problem != ""
		}
		names = first(names, func(n string) bool { return unmet[n] })
		more = len(names) - maxClients
		names = names[:maxClients]
	}
	axis := j.axis()
	for i, name := range names {
		c := client{Name: line(name)}
		drawn := arms[name][:min(len(arms[name]), maxArms)]
		c.More = len(arms[name]) - len(drawn)
		var pictures []*picture
		for k, a := range drawn {
			v := armView{Name: words(a.Name), Class: "arm", Calm: "met", CalmSign: "✓", Note: line(a.Note), Picture: axis.draw(fmt.Sprintf("p%d-%d", i+1, k+1), a, j.Run)}
			switch a.Name {
			case Control:
				v.Means, v.Class = "without the middleware", "arm control"
				v.Calm, v.CalmSign = "unknown", "–"
			case Protected:
				v.Means, v.Class = "with the middleware", "arm protected"
			}
			c.Arms = append(c.Arms, v)
			pictures = append(pictures, v.Picture)
		}
		place(pictures)
		list = append(list, c)
	}
	return list, more
}

// first puts what matters first and keeps the order otherwise.
func first[T any](list []T, matters func(T) bool) []T {
	var front, back []T
	for _, t := range list {
		if matters(t) {
			front = append(front, t)
		} else {
			back = append(back, t)
		}
	}
	return append(front, back...)
}

func steps(list []Activity) []step {
	var steps []step
	for i, a := range list {
		s := step{N: i + 1, At: clock(a.At), Done: clock(a.Done), Name: line(a.Name), Output: line(a.Output)}
		switch a.Status {
		case StepSucceeded:
			s.Sign, s.Status, s.Class = "✓", "succeeded", "met"
		case StepFailed:
			s.Sign, s.Status, s.Class = "✕", "failed", "unmet"
		default:
			s.Sign, s.Status, s.Class, s.Done = "–", "skipped", "unknown", "–"
		}
		steps = append(steps, s)
	}
	return steps
}

// legend is a part of the legend.
type legend struct {
	Title string
	Items []legendItem
}

// legendItem explains a state or a shape; the other one is "".
type legendItem struct {
	State, Shape, Class, Word, Means string
	Hatch                            bool
}

// legendOf explains what the pictures show, and nothing else.
func legendOf(clients []client) []legend {
	used, harm := map[string]bool{}, false
	for _, c := range clients {
		for _, a := range c.Arms {
			for _, l := range a.Picture.Lanes {
				for _, b := range l.Bars {
					used["s-"+strings.TrimSuffix(b.Class, " share")] = true
				}
				for _, g := range l.Marks {
					used[g.Shape] = true
					harm = harm || g.Harm
				}
			}
		}
	}
	parts := []legend{{Title: "States"}, {Title: "What happened"}, {Title: "What the middleware did"}}
	for _, s := range legendStates {
		if used["s-"+s] {
			parts[0].Items = append(parts[0].Items, legendItem{State: s, Word: states[s].word, Means: states[s].means, Hatch: states[s].hatch})
		}
	}
	for _, s := range legendShapes {
		if !used[s] {
			continue
		}
		k, at := shapes[s], 1
		if k.by == byMiddleware {
			at = 2
		}
		parts[at].Items = append(parts[at].Items, legendItem{Shape: s, Class: k.by, Word: k.word, Means: k.means})
	}
	if harm {
		parts[1].Items = append(parts[1].Items, legendItem{Shape: MarkApplied, Class: "harm", Word: "harm",
			Means: "in a ring: what the middleware is there to prevent"})
	}
	var some []legend
	for _, p := range parts {
		if len(p.Items) > 0 {
			some = append(some, p)
		}
	}
	return some
}

// writeIndex writes the page of many runs, in their order.
func writeIndex(w io.Writer, runs []*Journal, folders []string) error {
	return execute(w, "index.tmpl", indexOf(runs, folders))
}

// index is what the page of many runs shows.
type index struct {
	Seal  seal
	Count []verdictCount
	Runs  []indexRow
	Facts []fact
}

type verdictCount struct {
	Seal seal
	N    int
}

type indexRow struct {
	Href, Title, Name, Reason, Took, Seed string
	Seal                                  seal
}

func indexOf(runs []*Journal, folders []string) *index {
	x := &index{}
	verdicts := map[Verdict]int{}
	var start, end time.Time
	for i, j := range runs {
		verdicts[j.Verdict]++
		if start.IsZero() || j.Start.Before(start) {
			start = j.Start
		}
		if j.End.After(end) {
			end = j.End
		}
		r := indexRow{
			Href: folders[i] + "/" + FilePage, Title: line(j.title()), Name: line(j.Name),
			Reason: line(j.Reason), Took: length(j.End.Sub(j.Start)), Seed: strconv.FormatUint(j.Seed, 10), Seal: sealOf(j.Verdict),
		}
		if j.Repeat > 1 {
			r.Name += fmt.Sprintf(", repeat %d", j.Repeat)
		}
		x.Runs = append(x.Runs, r)
	}
	// The worst of them is the whole's. Without runs nothing was shown.
	x.Seal = sealOf(Inconclusive)
	for _, v := range []Verdict{Upheld, Inconclusive, AbortedVerdict, Deviated} {
		if n := verdicts[v]; n > 0 {
			x.Seal = sealOf(v)
			x.Count = append(x.Count, verdictCount{sealOf(v), n})
		}
	}
	x.Facts = []fact{{"Runs", grouped(len(runs))}}
	if len(runs) > 0 {
		x.Facts = append(x.Facts, fact{"Started", start.UTC().Format("2 January 2006, 15:04:05 UTC")}, fact{"Took", length(end.Sub(start))})
	}
	return x
}
