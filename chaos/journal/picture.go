package journal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The measures of a picture, in pixels. Across it everything is a percentage of
// the width, so that text keeps its size on every screen; width is the narrowest
// that a picture gets, for which marks and labels must not overlap.
const (
	width       = 520.0
	glyphWidth  = 17.0 // of a mark, with the room around it
	digitWidth  = 7.0  // of a character in a mark's count
	letterWidth = 6.3  // of one in a label
	axisHeight  = 18
	labelHeight = 15 // of the rows of labels below the axis
	nameHeight  = 18 // of a lane's name
	trackHeight = 16 // of a lane's spans
	shareHeight = 34 // of the spans of many lanes
	markHeight  = 19 // of a row of marks
	laneGap     = 9
)

// The most that is drawn one by one.
const (
	maxLanes  = 14
	maxAlone  = 3   // lanes of a kind that stay as they are where there are too many
	maxSpans  = 160 // of a lane
	maxSteps  = 30  // lines for the method's steps
	maxDeaths = 6   // lines for deaths of sessions
	maxEvents = 250 // rows in the list beside the picture
	maxName   = 60  // characters of a name
	maxLabel  = 200 // characters of what there is to say
)

// picture is an arm's, as the template draws it. All X and W are percentages.
type picture struct {
	ID, Title, Desc string
	Height          int
	Ticks           []tick
	Steps, Deaths   []upright
	Lanes           []row
	Notes           []string
	Events          []event
	MoreEvents      int
	Harm            int
}

type tick struct{ X, Text, Anchor string }

// upright is a line through all lanes. Text is empty where there is no room.
type upright struct {
	X, Text, Anchor, Title string
	DX, Y                  int

	row int // of labels, from 0
}

// row is a lane. All Y in it count from Top.
type row struct {
	Name   string
	Absent bool // in this arm; the row is there for the arm beside it
	Top    int
	NameY  int
	BaseY  int // of the line where a lane has no spans, 0 for none
	Bars   []bar
	Marks  []glyph

	key    string // of the row of another arm that stands beside it
	height int
}

// bar is a span, or the share of many lanes that were in a state for some time.
type bar struct {
	X, W, Class, Title, Text, TextX string
	Y, H, TextY                     int
	Hatch                           bool
}

// glyph is a mark, or several that fall together.
type glyph struct {
	X, Shape, Class, Title, Count string
	Y, DX                         int
	Harm                          bool
}

// event is one line of the list that says what the picture shows.
type event struct {
	At, Lane, What, Label string
	Harm                  bool
}

// axis is the time that a picture shows: from T+0 until end.
type axis struct{ end time.Duration }

// axis is as long as the journal says, or as what there is to show.
func (j *Journal) axis() axis {
	end := j.Length
	if end == 0 {
		for _, a := range j.Run {
			end = max(end, a.At, a.Done)
		}
		for _, a := range j.Arms {
			for _, l := range a.Lanes {
				for _, s := range l.Spans {
					end = max(end, s.To)
				}
				for _, m := range l.Marks {
					end = max(end, m.At)
				}
			}
		}
	}
	return axis{max(end, time.Millisecond)}
}

// at is where a moment stands, from 0 to 1. What is before or after the picture
// stands at its edge.
func (x axis) at(d time.Duration) float64 {
	return float64(min(max(d, 0), x.end)) / float64(x.end)
}

func (x axis) px(d time.Duration) float64 { return x.at(d) * width }

// percent writes a share of the width.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 2, 64) + "%" }

// ticks stand at round times, at least 60 pixels apart.
func (x axis) ticks() []tick {
	steps := []time.Duration{time.Millisecond}
	for _, unit := range []struct {
		of     time.Duration
		counts []time.Duration
	}{
		{time.Millisecond, []time.Duration{2, 5, 10, 20, 50, 100, 200, 500}},
		{time.Second, []time.Duration{1, 2, 5, 10, 15, 30}},
		{time.Minute, []time.Duration{1, 2, 5, 10, 15, 30}},
		{time.Hour, []time.Duration{1, 2, 3, 6, 12}},
		{24 * time.Hour, []time.Duration{1, 2, 7, 30, 90, 365, 3650}},
	} {
		for _, n := range unit.counts {
			steps = append(steps, n*unit.of)
		}
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if float64(s)/float64(x.end)*width >= 60 {
			step = s
			break
		}
	}
	var ticks []tick
	for at := time.Duration(0); at <= x.end; at += step {
		t := tick{X: percent(x.at(at)), Text: length(at), Anchor: "middle"}
		if at == 0 {
			t.Text, t.Anchor = "T+0", "start"
		} else if x.px(at) > width-24 {
			t.Anchor = "end"
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// draw makes the picture of an arm, with its rows from top to bottom. What it
// does not know is how far down each of them stands: see place.
func (x axis) draw(id string, a Arm, steps []Activity) *picture {
	lanes, notes := together(a.Lanes)
	p := &picture{ID: id, Ticks: x.ticks(), Notes: notes, Steps: x.steps(steps), Deaths: x.deaths(a.Lanes)}
	marks, glyphs := 0, 0
	seen := map[string]int{}
	for _, l := range lanes {
		r := x.row(l)
		seen[r.Name]++
		r.key = fmt.Sprint(seen[r.Name], r.Name)
		for _, m := range l.marks {
			marks += m.times()
			if m.Harm {
				p.Harm += m.times()
			}
		}
		glyphs += len(r.Marks)
		p.Lanes = append(p.Lanes, r)
	}
	if marks > glyphs {
		p.Notes = append(p.Notes, fmt.Sprintf(
			"Marks that fall together are drawn as one with a count: %s in %s.", plural(marks, "mark", "marks"), plural(glyphs, "place", "places")))
	}
	p.Events, p.MoreEvents = events(a.Lanes)
	p.Title = fmt.Sprintf("%s arm, client %s", words(a.Name), line(a.Client))
	p.Desc = fmt.Sprintf("Timeline from T+0 to %s with %s and %s. The same follows as a list.",
		clock(x.end), plural(len(a.Lanes), "lane", "lanes"), plural(marks, "mark", "marks"))
	return p
}

// place stacks the rows of pictures that stand side by side, so that what they
// have in common is at the same height. A row that only one of them has is empty
// in the others.
func place(pictures []*picture) {
	var keys []string
	heights := map[string]int{}
	labels := 0 // rows of labels of deaths
	for _, p := range pictures {
		at := 0
		for _, r := range p.Lanes {
			if k := slices.Index(keys, r.key); k >= 0 {
				at = k + 1
			} else {
				keys = slices.Insert(keys, at, r.key)
				at++
			}
			heights[r.key] = max(heights[r.key], r.height)
		}
		for _, d := range p.Deaths {
			labels = max(labels, d.row+1)
		}
	}
	names := map[string]string{}
	have := make([]map[string]row, len(pictures))
	for i, p := range pictures {
		have[i] = map[string]row{}
		for _, r := range p.Lanes {
			names[r.key], have[i][r.key] = r.Name, r
		}
	}
	for i, p := range pictures {
		y := axisHeight
		for k := range p.Steps {
			p.Steps[k].Y = y + 11
		}
		if len(p.Steps) > 0 {
			y += labelHeight
		}
		for k, d := range p.Deaths {
			p.Deaths[k].Y = y + d.row*labelHeight + 11
		}
		y += labels*labelHeight + 4
		p.Lanes = make([]row, len(keys))
		for k, key := range keys {
			r, ok := have[i][key]
			if !ok {
				r = row{Name: names[key], NameY: 13, Absent: true, key: key}
			}
			r.Top = y
			y += heights[key]
			p.Lanes[k] = r
		}
		p.Height = y
	}
}

// steps are the lines of the method, with the numbers of its table.
func (x axis) steps(steps []Activity) []upright {
	var lines []upright
	free := -1.0
	for i, s := range steps {
		if s.Status == StepSkipped || s.At < 0 || s.At > x.end || len(lines) == maxSteps {
			continue
		}
		u := upright{X: percent(x.at(s.At)), Anchor: "middle", Title: fmt.Sprintf("step %d, %s: %s", i+1, clock(s.At), line(s.Name))}
		if px := x.px(s.At); px >= free {
			u.Text, free = strconv.Itoa(i+1), px+20
		}
		lines = append(lines, u)
	}
	return lines
}

// deaths are the lines of the moments at which sessions died. Where there are
// many, none is drawn: the session lanes have them.
func (x axis) deaths(lanes []Lane) []upright {
	var died []time.Duration
	for _, l := range lanes {
		for _, m := range l.Marks {
			if m.Kind == MarkDied {
				died = append(died, m.At)
			}
		}
		for _, s := range l.Spans {
			if s.State == StateDead {
				died = append(died, s.From)
			}
		}
	}
	slices.Sort(died)
	var lines []upright
	var free [2]float64 // where each row of labels is free from
	last := -width
	for _, at := range died {
		px := x.px(at)
		if at < 0 || at > x.end || px-last < 4 {
			continue // the span of a mark that is drawn, mostly
		}
		last = px
		u := upright{X: percent(x.at(at)), Anchor: "start", DX: 4, Title: "session dies " + clock(at)}
		room := letterWidth*float64(len(u.Title)) + 8
		left := px
		if px+room > width {
			u.Anchor, u.DX, left = "end", -4, px-room
		}
		for i := range free {
			if left >= free[i] {
				u.Text, u.row, free[i] = u.Title, i, left+room
				break
			}
		}
		lines = append(lines, u)
	}
	if len(lines) > maxDeaths {
		return nil
	}
	return lines
}

// row draws a lane.
func (x axis) row(l lane) row {
	r := row{Name: short(l.name, maxName), NameY: 13}
	y := nameHeight
	if len(l.spans) > 0 {
		track := trackHeight
		if r.Bars = x.bars(l, y); r.Bars == nil {
			track = shareHeight
			r.Bars = x.shares(l, y)
		}
		y += track + 3
	}
	var rows int
	r.Marks, rows = x.glyphs(l, y)
	if len(l.spans) == 0 {
		r.BaseY = y + markHeight/2
		rows = max(rows, 1)
	}
	r.height = y + rows*markHeight + laneGap
	return r
}

// bars draws spans one by one; those of one state between which there is not a
// pixel as one. It returns nil if there are too many, or many lanes.
func (x axis) bars(l lane, y int) []bar {
	if l.of > 1 {
		return nil
	}
	spans := slices.SortedStableFunc(slices.Values(l.spans), func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var merged []Span
	counts := []int{}
	for _, s := range spans {
		if n := len(merged); n > 0 {
			last := &merged[n-1]
			if last.State == s.State && (last.Label == s.Label || x.px(s.To)-x.px(s.From) < 1) && x.px(s.From)-x.px(last.To) < 1 {
				last.To = max(last.To, s.To)
				counts[n-1]++
				continue
			}
		}
		merged, counts = append(merged, s), append(counts, 1)
	}
	if len(merged) > maxSpans {
		return nil
	}
	bars := make([]bar, len(merged))
	for i, s := range merged {
		from, to := x.at(s.From), x.at(s.To)
		b := bar{X: percent(from), W: percent(max(to-from, 2/width)), Y: y, H: trackHeight, TextY: y + 12}
		b.Class, b.Hatch = stateClass(s.State), states[stateClass(s.State)].hatch
		text := words(s.State)
		if label := short(s.Label, maxLabel); label != "" {
			text += ", " + label
		}
		b.Title = fmt.Sprintf("%s: %s, %s to %s (%s)", short(l.name, maxName), text, clock(s.From), clock(s.To), length(s.To-s.From))
		if counts[i] > 1 {
			b.Title += fmt.Sprintf(", %d spans drawn together", counts[i])
		}
		for _, t := range []string{text, words(s.State)} {
			if (to-from)*width > letterWidth*float64(len([]rune(t)))+8 {
				b.Text, b.TextX = t, percent((from+to)/2)
				break
			}
		}
		bars[i] = b
	}
	return bars
}

// glyphs draws marks, rows below each other where they would overlap, and
// returns how many rows that takes.
func (x axis) glyphs(l lane, top int) ([]glyph, int) {
	groups := x.clusters(l.marks)
	var free []float64 // where each row is free from
	drawn := make([]glyph, 0, len(groups))
	for _, g := range groups {
		left := g.px - g.half()
		n := slices.IndexFunc(free, func(f float64) bool { return f <= left })
		if n < 0 {
			n = len(free)
			free = append(free, 0)
		}
		free[n] = g.px + g.room()
		drawn = append(drawn, glyph{
			X: percent(x.at(g.first)), Y: top + n*markHeight + markHeight/2,
			Shape: g.shape, Class: g.class(), Harm: g.harm, Count: g.badge(), DX: int(g.half()), Title: short(l.name, maxName) + ": " + g.title(),
		})
	}
	return drawn, len(free)
}

// events lists what happened in an arm, in the order in which it did, and how
// many are left out.
func events(lanes []Lane) (list []event, more int) {
	type at struct {
		lane string
		mark Mark
	}
	var all []at
	for _, l := range lanes {
		for _, m := range l.Marks {
			all = append(all, at{l.Name, m})
		}
	}
	slices.SortStableFunc(all, func(a, b at) int { return cmp.Compare(a.mark.At, b.mark.At) })
	if len(all) > maxEvents {
		more = len(all) - maxEvents
		all = all[:maxEvents]
	}
	for _, a := range all {
		list = append(list, event{clock(a.mark.At), short(a.lane, maxName), a.mark.what(), short(a.mark.Label, maxLabel), a.mark.Harm})
	}
	return list, more
}

// what is a mark in words, without its label.
func (m Mark) what() string {
	text := short(words(m.Kind), maxName)
	if m.Verdict != "" {
		text += ": " + line(m.Verdict)
	}
	if m.times() > 1 {
		text += fmt.Sprintf(" ×%s", grouped(m.times()))
	}
	return text
}
