package journal

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// lane is a row of the picture: one lane, or several that are drawn together.
type lane struct {
	name  string
	of    int // how many lanes
	spans []Span
	marks []Mark
}

// together draws lanes of a kind together where there are too many, and says so.
func together(lanes []Lane) (rows []lane, notes []string) {
	if len(lanes) <= maxLanes {
		return each(lanes, func(l Lane) lane { return lane{l.Name, 1, l.Spans, l.Marks} }), nil
	}
	var kinds []string
	byKind := map[string][]Lane{}
	for _, l := range lanes {
		// What a lane of no kind is cannot be known, but all of them are that.
		if byKind[l.Kind] == nil {
			kinds = append(kinds, l.Kind)
		}
		byKind[l.Kind] = append(byKind[l.Kind], l)
	}
	joined := 0
	join := func(what string, list []Lane) {
		r := lane{name: fmt.Sprintf("%s (%s)", what, grouped(len(list))), of: len(list)}
		for _, l := range list {
			r.spans, r.marks = append(r.spans, l.Spans...), append(r.marks, l.Marks...)
		}
		rows = append(rows, r)
		joined += len(list)
	}
	for i, kind := range kinds {
		list := byKind[kind]
		switch {
		case len(rows) >= maxLanes-1 && i < len(kinds)-1:
			var rest []Lane
			for _, k := range kinds[i:] {
				rest = append(rest, byKind[k]...)
			}
			join("Other lanes", rest)
			return rows, []string{joinedNote(joined, len(lanes))}
		case len(list) <= maxAlone && len(rows)+len(list) < maxLanes:
			for _, l := range list {
				rows = append(rows, lane{l.Name, 1, l.Spans, l.Marks})
			}
		default:
			join(manyOf(kind), list)
		}
	}
	return rows, []string{joinedNote(joined, len(lanes))}
}

func joinedNote(joined, all int) string {
	return fmt.Sprintf("%s of %s lanes are drawn together, by kind: the height of a colour is the share of them in that state.", grouped(joined), grouped(all))
}

func manyOf(kind string) string {
	switch kind {
	case BalancerLane:
		return "Load balancers"
	case StreamLane:
		return "Streams"
	case SessionLane:
		return "Sessions"
	case ProbeLane:
		return "Probes"
	case ApplicationLane:
		return "Applications"
	case "":
		return "Lanes"
	}
	return "Lanes: " + short(words(kind), maxName/2)
}

// shareBuckets is how many pieces of time the shares of states are counted for.
const shareBuckets = 130

// shares draws how many of a row's lanes were in which state, as a pile of bars
// for each piece of time.
func (x axis) shares(l lane, top int) []bar {
	order := shareOrder
	piles := make([][]float64, shareBuckets)
	for i := range piles {
		piles[i] = make([]float64, len(order))
	}
	for _, s := range l.spans {
		state := slices.Index(order, stateClass(s.State))
		from, to := x.at(s.From)*shareBuckets, x.at(s.To)*shareBuckets
		for b := int(from); b < shareBuckets && float64(b) < to; b++ {
			piles[b][state] += min(to, float64(b+1)) - max(from, float64(b))
		}
	}
	heights := make([][]int, shareBuckets)
	for i, pile := range piles {
		// Spans of one lane may overlap; the pile is no higher than its track.
		sum := 0.0
		for _, part := range pile {
			sum += part
		}
		whole := max(float64(l.of), sum)
		heights[i] = make([]int, len(order))
		below, exact := 0, 0.0
		for k, part := range pile {
			exact += part / whole * shareHeight
			heights[i][k] = int(exact+0.5) - below
			below += heights[i][k]
		}
	}
	var bars []bar
	for first := 0; first < shareBuckets; {
		next := first + 1
		for next < shareBuckets && slices.Equal(heights[next], heights[first]) {
			next++
		}
		from, to := float64(first)/shareBuckets, float64(next)/shareBuckets
		y := top + shareHeight
		for k, h := range heights[first] {
			if h == 0 {
				continue
			}
			y -= h
			bars = append(bars, bar{
				X: percent(from), W: percent(to - from), Y: y, H: h, Class: order[k] + " share", Hatch: states[order[k]].hatch,
				Title: fmt.Sprintf("%s: %s, %d %%, %s to %s", short(l.name, maxName), stateWord(order[k]), (h*100+shareHeight/2)/shareHeight,
					clock(time.Duration(from*float64(x.end))), clock(time.Duration(to*float64(x.end)))),
			})
		}
		first = next
	}
	return bars
}

// cluster is marks of one look that are drawn as one.
type cluster struct {
	shape string
	harm  bool
	px    float64
	first time.Duration
	last  time.Duration
	count int
	marks []Mark // some of them, for the title
}

// half is half the width of its picture: a ring is wider.
func (c *cluster) half() float64 {
	if c.harm {
		return glyphWidth/2 + 2
	}
	return glyphWidth / 2
}

// room is how far right of its place the cluster reaches.
func (c *cluster) room() float64 {
	return c.half() + 1 + digitWidth*float64(len([]rune(c.badge())))
}

func (c *cluster) badge() string {
	if c.count < 2 {
		return ""
	}
	return "×" + compact(c.count)
}

func (c *cluster) class() string {
	if c.harm {
		return "harm"
	}
	return shapes[c.shape].by
}

// maxTitle is how many marks a cluster's title tells one by one.
const maxTitle = 6

func (c *cluster) title() string {
	text := ""
	for i, m := range c.marks {
		if i > 0 {
			text += "; "
		}
		text += clock(m.At) + " " + m.what()
		if m.Label != "" {
			text += ", " + short(m.Label, maxLabel)
		}
	}
	if c.count > len(c.marks) && len(c.marks) == maxTitle {
		text += fmt.Sprintf("; in all ×%s, %s to %s", grouped(c.count), clock(c.first), clock(c.last))
	}
	if c.harm {
		text += " (harm)"
	}
	return text
}

// clusters finds the marks that fall together: of one look, and so near to each
// other that their pictures would touch.
func (x axis) clusters(marks []Mark) []*cluster {
	type look struct {
		shape string
		harm  bool
	}
	sorted := slices.SortedStableFunc(slices.Values(marks), func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	open := map[look]*cluster{}
	var all []*cluster
	for _, m := range sorted {
		k := look{m.shape(), m.Harm}
		px := x.px(m.At)
		c := open[k]
		if c == nil || px-c.px >= c.room()+c.half() {
			c = &cluster{shape: k.shape, harm: k.harm, px: px, first: m.At}
			open[k] = c
			all = append(all, c)
		}
		c.last = m.At
		c.count += m.times()
		if len(c.marks) < maxTitle {
			c.marks = append(c.marks, m)
		}
	}
	return all
}
