package history

import (
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// The words of the lanes for which journal has none.
const (
	faultState = "fault" // a span: something was broken on purpose
	markTold   = "told"  // the application was told that its session is over
)

// Arm is what the journal shows of the clients of one arm and kind: all Measures
// that have a number, and the lanes of the load balancers and of each client. What
// has a Problem is missing, and in the second result.
func Arm(h *History, arm string, kind client.Kind) (journal.Arm, []Result) {
	ours := h.Only(func(c Client) bool { return c.Arm == arm && c.Kind == kind })
	out := journal.Arm{Name: arm, Client: string(kind), Measures: map[string]float64{}, Lanes: Lanes(ours)}
	var problems []Result
	for _, m := range measures {
		if r := m.Of(ours); r.Problem != "" {
			problems = append(problems, r)
		} else {
			out.Measures[r.Name] = r.Value
		}
	}
	return out, problems
}

// Lanes are the rows of a picture, in the experiment's own time: the faults, if
// there were any, the load balancers, and for each client its standalone stream,
// the streams of its calls, its sessions, the middleware if there is one, and the
// application. Session ids are abbreviated.
func Lanes(h *History) []journal.Lane {
	p := painter{newIndex(h.Redacted())}
	var lanes []journal.Lane
	add := func(l journal.Lane) {
		if len(l.Spans)+len(l.Marks) > 0 {
			lanes = append(lanes, l)
		}
	}
	add(p.faults())
	for i := range p.Balancers {
		add(p.balancer(&p.Balancers[i]))
	}
	for i := range p.Clients {
		c := &p.Clients[i]
		prefix := ""
		if len(p.Clients) > 1 {
			prefix = c.Name + ": "
		}
		add(p.standalone(prefix, i))
		add(p.callStreams(prefix, i))
		add(p.sessions(prefix, c))
		add(p.guard(prefix, c))
		add(p.application(prefix, i))
	}
	return lanes
}

// painter makes lanes of a History whose ids may be shown.
type painter struct{ *index }

func (p painter) span(from, to time.Duration, state, label string) journal.Span {
	return journal.Span{From: p.scaled(from), To: p.scaled(max(from, to)), State: state, Label: label}
}

func (p painter) mark(at time.Duration, kind, label string) journal.Mark {
	return journal.Mark{At: p.scaled(at), Kind: kind, Label: label}
}

// or is a moment that may not have come.
func (p painter) or(at *time.Duration) time.Duration {
	if at == nil {
		return p.End
	}
	return *at
}

func (p painter) faults() journal.Lane {
	l := journal.Lane{Name: "faults", Kind: journal.BalancerLane}
	for _, f := range p.Faults {
		l.Spans = append(l.Spans, p.span(f.At, p.or(f.Undone), faultState, f.Name))
		l.Marks = append(l.Marks, p.mark(f.At, journal.MarkCut, f.Name))
	}
	return l
}

// balancer shows the ways through a load balancer that lasted, which are
// streams, and what it cut or refused.
func (p painter) balancer(b *Balancer) journal.Lane {
	l := journal.Lane{Name: b.Name, Kind: journal.BalancerLane}
	opened := map[uint64]time.Duration{}
	for _, e := range b.Events {
		switch e.Kind {
		case "opened":
			opened[e.Stream] = e.At
			continue
		case "cut":
			l.Marks = append(l.Marks, p.mark(e.At, journal.MarkCut, e.Err))
		case "refused":
			l.Marks = append(l.Marks, p.mark(e.At, journal.MarkRefused, e.Err))
		}
		if from, ok := opened[e.Stream]; ok && (e.Method == "GET" || e.Kind == "cut") {
			l.Spans = append(l.Spans, p.span(from, e.At, journal.StateOpen, e.Method))
		}
		delete(opened, e.Stream)
	}
	for _, from := range opened {
		if p.End-from > p.soon() {
			l.Spans = append(l.Spans, p.span(from, p.End, journal.StateOpen, ""))
		}
	}
	slices.SortStableFunc(l.Spans, func(a, b journal.Span) int { return int(a.From - b.From) })
	return l
}

// streamSpans shows what an exchange was to a stream: open from its headers to
// its end, and closed until the next.
func (p painter) streamSpans(l *journal.Lane, all []conn) {
	for i, k := range all {
		over := k.until(p.End)
		l.Spans = append(l.Spans, p.span(k.headed, over, journal.StateOpen, ""))
		next := p.End
		if i+1 < len(all) {
			next = all[i+1].headed
		}
		if k.Over != nil && next > over && i+1 < len(all) {
			l.Spans = append(l.Spans, p.span(over, next, journal.StateClosed, ""))
		}
	}
}

func (p painter) standalone(prefix string, i int) journal.Lane {
	l := journal.Lane{Name: prefix + "standalone stream", Kind: journal.StreamLane}
	all := p.connsOf(i)
	names := map[string]bool{}
	for _, k := range all {
		names[k.stream] = names[k.stream] || k.cursorless
	}
	p.streamSpans(&l, slices.DeleteFunc(slices.Clone(all), func(k conn) bool {
		return k.Method != "GET" || !k.cursorless && !names[k.stream]
	}))
	for _, k := range all {
		if k.Method == "GET" && !k.cursorless && names[k.stream] {
			l.Marks = append(l.Marks, p.mark(k.At, journal.MarkReconnect, "cursor "+k.Cursor))
		}
	}
	p.asked(&l, i, names)
	p.held(&l, &p.Clients[i], func(stream string) bool { return stream == "" || names[stream] })
	return l
}

// asked marks the reconnects that got no stream, and the replays.
func (p painter) asked(l *journal.Lane, i int, standalone map[string]bool) {
	c := &p.Clients[i]
	for n := range c.Exchanges {
		e := &c.Exchanges[n]
		if e.Layer == client.Edge && e.Method == "GET" && e.Headed != nil && e.Status != 200 {
			l.Marks = append(l.Marks, p.mark(e.At, journal.MarkReconnect, "refused"))
		}
	}
	for _, q := range p.Oracle.Requests {
		at, ok := p.byID[q.Cursor]
		owner, ours := p.owner[q.Session]
		if !ok || q.Replayed == 0 || !standalone[p.Oracle.Events[at].Stream] || !ours || owner != i {
			continue
		}
		m := p.mark(q.At, journal.MarkReplay, "")
		m.Count = q.Replayed
		l.Marks = append(l.Marks, m)
	}
}

// held shows for how long the middleware held events of the lane's streams, by the
// cursor of the reconnect. "" is a stream that no event of the log names.
func (p painter) held(l *journal.Lane, c *Client, ofLane func(stream string) bool) {
	since := map[string]time.Duration{} // by cursor
	for _, d := range c.Guard {
		stream := ""
		if at, ok := p.byID[d.Cursor]; ok {
			stream = p.Oracle.Events[at].Stream
		}
		if !ofLane(stream) {
			continue
		}
		switch d.Kind {
		case "held":
			since[d.Cursor] = d.At
		case "released", "quarantined":
			if from, ok := since[d.Cursor]; ok {
				l.Spans = append(l.Spans, p.span(from, d.At, journal.StateHeld, ""))
			}
			delete(since, d.Cursor)
		}
	}
}

// callStreams shows the streams of calls, all in one row.
func (p painter) callStreams(prefix string, i int) journal.Lane {
	l := journal.Lane{Name: prefix + "streams of calls", Kind: journal.StreamLane}
	all := p.connsOf(i)
	standalone := map[string]bool{}
	for _, k := range all {
		if k.cursorless {
			standalone[k.stream] = true
		}
	}
	byStream := map[string][]conn{}
	var order []string
	for _, k := range all {
		if k.cursorless || standalone[k.stream] || k.RPC == "initialize" || k.stream == "" {
			continue
		}
		if byStream[k.stream] == nil {
			order = append(order, k.stream)
		}
		byStream[k.stream] = append(byStream[k.stream], k)
		if k.Method == "GET" {
			l.Marks = append(l.Marks, p.mark(k.At, journal.MarkReconnect, "cursor "+k.Cursor))
		}
	}
	for _, stream := range order {
		p.streamSpans(&l, byStream[stream])
	}
	p.held(&l, &p.Clients[i], func(stream string) bool { return byStream[stream] != nil })
	return l
}

// sessions shows the life of each session: alive, dead, and fenced from when the
// middleware lets nothing pass any more.
func (p painter) sessions(prefix string, c *Client) journal.Lane {
	l := journal.Lane{Name: prefix + "session", Kind: journal.SessionLane}
	for n, b := range c.Began {
		l.Marks = append(l.Marks, p.mark(b.At, journal.MarkInitialized, b.Session))
		last := p.End
		if n+1 < len(c.Began) {
			last = c.Began[n+1].At
		}
		fenced := p.End
		for _, d := range c.Guard {
			if d.Kind == "session dead" && d.Session == b.Session {
				fenced = min(fenced, d.At)
			}
		}
		for _, life := range p.lives[b.Session] {
			died := p.or(life.Died)
			l.Spans = append(l.Spans, p.span(life.Created, died, journal.StateAlive, b.Session))
			if life.Died == nil {
				continue
			}
			l.Marks = append(l.Marks, p.mark(died, journal.MarkDied, string(life.Why)))
			if to := min(max(last, died), max(fenced, died)); to > died {
				l.Spans = append(l.Spans, p.span(died, to, journal.StateDead, b.Session))
			}
		}
		if fenced < last {
			l.Spans = append(l.Spans, p.span(fenced, last, journal.StateFenced, b.Session))
		}
	}
	for n := range c.Exchanges {
		e := &c.Exchanges[n]
		if e.wire() && e.Headed != nil && e.Status >= 400 && e.RPC != "ping" {
			m := p.mark(*e.Headed, journal.MarkRefused, e.Method+" "+e.RPC)
			m.Harm = e.Method != "GET" && p.deadAt(e.Session, e.At)
			l.Marks = append(l.Marks, m)
		}
	}
	return l
}

// decisions are the marks of what the middleware decides.
var decisions = map[string]string{
	"held": journal.MarkHeld, "probe answered": journal.MarkProbe, "released": journal.MarkReleased,
	"quarantined": journal.MarkQuarantined, "duplicate suppressed": journal.MarkSuppressed,
	"stale": journal.MarkStale, "fenced": journal.MarkFenced,
}

var verdicts = map[string]string{"live": journal.ProbeLive, "dead": journal.ProbeDead, "ambiguous": journal.ProbeAmbiguous}

func (p painter) guard(prefix string, c *Client) journal.Lane {
	l := journal.Lane{Name: prefix + "middleware", Kind: journal.ProbeLane}
	for _, d := range c.Guard {
		kind, ok := decisions[d.Kind]
		if !ok {
			continue
		}
		m := p.mark(d.At, kind, d.Err)
		switch kind {
		case journal.MarkProbe:
			m.Verdict = verdicts[d.Verdict]
		case journal.MarkReleased, journal.MarkQuarantined:
			m.Count = d.Events
		}
		l.Marks = append(l.Marks, m)
	}
	return l
}

func (p painter) application(prefix string, i int) journal.Lane {
	c := &p.Clients[i]
	l := journal.Lane{Name: prefix + "application", Kind: journal.ApplicationLane}
	by := p.bearersOf(i)
	prompted := map[int]int{}
	all := p.handedTo(i)
	slices.SortStableFunc(all, func(a, b handed) int { return int(a.at - b.at) })
	for _, h := range all {
		var m journal.Mark
		switch h.what {
		case handedNotification:
			m = p.mark(h.at, journal.MarkApplied, "")
		case handedPrompt:
			prompted[h.seq]++
			m = p.mark(h.at, journal.MarkPrompted, "")
			m.Harm = prompted[h.seq] > 1
		default:
			continue // Its call has a mark.
		}
		m.Harm = m.Harm || p.harmful(h, by)
		l.Marks = append(l.Marks, m)
	}
	for _, k := range c.Calls {
		switch {
		case k.Ended == nil || k.How == client.Hanging:
			l.Spans = append(l.Spans, p.span(k.At, p.End, "waiting", k.Tool))
		case k.How == client.Result:
			l.Marks = append(l.Marks, p.mark(*k.Ended, journal.MarkCalled, k.Tool))
		default:
			m := p.mark(*k.Ended, journal.MarkFailed, k.Tool+": "+k.Err)
			m.Harm = k.How == client.SessionError
			l.Marks = append(l.Marks, m)
		}
	}
	for _, r := range c.Reports {
		l.Marks = append(l.Marks, p.mark(r.At, markTold, r.Err))
	}
	return l
}
