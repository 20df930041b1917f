package interop_test

import (
	"bytes"
	"fmt"
	"strings"
)

// This file compares what a client was handed with what the server wrote, event
// by event, where the middleware may keep messages back.

// segment is one event of a stream, or what stands between events.
type segment struct {
	start, end int
	event      bool
	sseEvent
	retry string
	says  []said
	batch bool
}

// segments takes a stream apart, without the torn rest of it.
func segments(b []byte) (out []segment) {
	at := 0
	if bytes.HasPrefix(b, []byte("\uFEFF")) {
		out, at = append(out, segment{end: 3}), 3
	}
	cur := segment{start: at}
	var lines []string
	for at < len(b) {
		j := bytes.IndexAny(b[at:], "\r\n")
		if j < 0 {
			break
		}
		line, next := string(b[at:at+j]), at+j+1
		if b[at+j] == '\r' && next < len(b) && b[next] == '\n' {
			next++
		}
		at = next
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" || !cur.event && name == "":
			cur.end = at
			cur.data = strings.Join(lines, "\n")
			cur.says, cur.batch, _ = readAll(cur.data)
			out = append(out, cur)
			cur, lines = segment{start: at}, nil
			continue
		case name == "data":
			lines = append(lines, value)
		case name == "id":
			cur.id, cur.hasID = value, true
		case name == "retry":
			cur.retry = value
		}
		cur.event = cur.event || name != ""
	}
	return out
}

// fate is what has become of a message.
type fate int

const (
	unseen fate = iota // the client has not come that far
	handedOn
	keptBack
	failedCall // an error for its call stands in its place
)

func (f fate) String() string {
	return [...]string{"not reached", "handed on", "kept back", "failed"}[f]
}

// placed is what a client was handed in place of one segment.
type placed struct {
	*segment
	fates   []fate
	failure said // of the one with failedCall
	until   int  // of what the client got, where it ends
	gone    bool // nothing is left of it
}

// compared is one body beside what the server wrote.
type compared struct {
	rows  []placed
	used  int   // of what the server wrote
	tail  *said // an error behind everything
	wrong string
}

// ends reports whether a call was failed in this body.
func (c *compared) ends() bool {
	if c.tail != nil {
		return true
	}
	for _, r := range c.rows {
		for _, f := range r.fates {
			if f == failedCall {
				return true
			}
		}
	}
	return false
}

// mayKeep reports whether a message may be kept back.
func (m said) mayKeep() bool { return m.kind == request || m.kind == response }

func compare(wrote, got []byte) *compared {
	c := &compared{}
	all := segments(wrote)
	g := 0
	for i := range all {
		seg := &all[i]
		raw, rest := wrote[seg.start:seg.end], got[g:]
		row := placed{segment: seg, fates: make([]fate, len(seg.says))}
		set := func(f fate) {
			for k := range row.fates {
				row.fates[k] = f
			}
		}
		switch {
		case len(rest) == 0 || c.tail != nil:
			row.until = -1
			c.rows = append(c.rows, row)
			continue
		case bytes.HasPrefix(rest, raw):
			g += len(raw)
			set(handedOn)
		case bytes.HasSuffix(raw, []byte("\r\n")) && bytes.Equal(rest, raw[:len(raw)-1]):
			g = len(got)
			set(handedOn)
		case bytes.HasSuffix(raw, []byte("\r\n")) && bytes.HasPrefix(rest, raw[:len(raw)-1]) && c.isTail(rest[len(raw)-1:], &g):
			g = len(got)
			set(handedOn)
		case seg.event && row.instead(raw, rest, &g):
		case c.isTail(rest, &g):
			row.until = -1
			c.rows = append(c.rows, row)
			continue
		default:
			c.wrong = fmt.Sprintf("in place of %q: %q", raw, rest[:min(len(rest), 400)])
			return c
		}
		row.until = g
		c.used = seg.end
		c.rows = append(c.rows, row)
	}
	rest := got[g:]
	if (len(all) == 0 || c.used == all[len(all)-1].end) && bytes.HasPrefix(wrote[c.used:], rest) {
		return c // a comment that was not finished
	}
	if len(rest) > 0 && !c.isTail(rest, &g) {
		c.wrong = fmt.Sprintf("behind everything: %q", rest[:min(len(rest), 400)])
	}
	return c
}

// instead takes what stands in place of an event of which messages were kept
// back: it has the same id.
func (r *placed) instead(raw, rest []byte, g *int) bool {
	keepable := false
	for _, m := range r.says {
		keepable = keepable || m.mayKeep()
	}
	if !keepable {
		return false
	}
	other := segments(rest)
	// The LF of a CR LF may be left of an event that has ended with its CR.
	lf := func(n int) {
		if bytes.HasSuffix(raw, []byte("\r\n")) && n < len(rest) && rest[n] == '\n' {
			n++
		}
		*g += n
	}
	if len(other) > 0 && other[0].event && other[0].hasID == r.hasID && other[0].id == r.id && other[0].retry == r.retry &&
		r.match(&other[0]) {
		lf(other[0].end)
		return true
	}
	if r.hasID || r.retry != "" {
		return false
	}
	for i := range r.fates {
		if !r.says[i].mayKeep() {
			return false
		}
		r.fates[i] = keptBack
	}
	r.gone = true
	lf(0)
	return true
}

// match reports whether other is what may be left of an event, and notes the
// fates of its messages.
func (r *placed) match(other *segment) bool {
	if other.data != "" && (len(other.says) == 0 || other.batch != r.batch) {
		return false
	}
	fates := make([]fate, len(r.says))
	k := 0
	kept := false
	for i, m := range r.says {
		fates[i] = keptBack
		if k == len(other.says) {
			if kept = true; !m.mayKeep() {
				return false
			}
			continue
		}
		switch o := other.says[k]; {
		case o.raw == m.raw:
			fates[i] = handedOn
			k++
		case o.kind == failed && m.kind == request && o.fail.number == m.number:
			fates[i], r.failure = failedCall, o
			k++
		case !m.mayKeep():
			return false
		default:
			kept = true
		}
	}
	if k < len(other.says) || !kept && other.data == r.data {
		return false
	}
	r.fates = fates
	return true
}

// isTail takes an error that stands behind everything, in an event of its own.
func (c *compared) isTail(rest []byte, g *int) bool {
	other := segments(rest)
	if len(other) == 1 && other[0].end == len(rest) && !other[0].hasID && len(other[0].says) == 1 && other[0].says[0].kind == failed {
		c.tail = &other[0].says[0]
		*g += len(rest)
		return true
	}
	return false
}

// compare compares a trip's body with what the server wrote. cut returns where
// what is at n of the comparison stands in the body: what came with the answer
// of a probe is cut out. mu is held.
func (w *world) compare(tr *trip) (c *compared, cut func(n int) int) {
	got := bytes.Clone(tr.got)
	if tr.gaveUp() || terminal(tr.readErr) || !tr.over {
		got = got[:whole(got)]
	}
	var at, size []int
	for _, n := range tr.appliedIn {
		if ev := w.events[n]; ev.st == nil {
			if i := bytes.Index(got, ev.bare); i >= 0 {
				got = append(got[:i], got[i+len(ev.bare):]...)
				at, size = append(at, i), append(size, len(ev.bare))
			}
		}
	}
	cut = func(n int) int {
		for i := len(at) - 1; i >= 0; i-- {
			if n > at[i] {
				n += size[i]
			}
		}
		return n
	}
	return compare(tr.ex.queued, got), cut
}

// checkPendingBody is checkBody where messages may be kept back. mu is held.
//
// Kept by: rewrite, body.replaceLocked, body.settle (the end after a failure).
func (w *world) checkPendingBody(tr *trip) {
	c, _ := w.compare(tr)
	if c.wrong != "" {
		w.violate(bytesDiffer, "trip %d: %s", tr.n, c.wrong)
		return
	}
	if tr.gaveUp() {
		return
	}
	if w.checkRefused(tr, tr.readErr); terminal(tr.readErr) {
		return
	}
	if c.ends() && tr.failedAt != (moment{}) {
		if tr.readErr.Error() != "EOF" {
			w.violate(wrongEnd, "trip %d ends with %v after its call was failed", tr.n, tr.readErr)
		}
		return
	}
	ex := tr.ex
	torn, want := tornOf(ex.sent) != nil, whole(ex.sent)
	if behind := skipped(ex.sent, c.used); behind < want {
		w.violate(eventsLost, "trip %d has read %d of %d bytes, end %v: %v", tr.n, behind, want, ex.end, tr.readErr)
	}
	if clean := tr.readErr.Error() == "EOF"; clean == (torn || ex.end == breaks) {
		w.violate(wrongEnd, "trip %d ends with %v, the server: %v, torn %v", tr.n, tr.readErr, ex.end, torn)
	}
}

// skipped adds to n what may have been kept back without a trace.
func skipped(wrote []byte, n int) int {
	for _, seg := range segments(wrote) {
		if seg.start < n {
			continue
		}
		if seg.hasID || seg.retry != "" || len(seg.says) == 0 {
			break
		}
		for _, m := range seg.says {
			if !m.mayKeep() {
				return n
			}
		}
		n = seg.end
	}
	return n
}
