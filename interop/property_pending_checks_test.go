package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// This file is the check of I3 and of DESIGN 4.5, once all is over: what came
// of each message of the server's, in each body, against the table.

// replayWindow is how long after a reconnect was answered what comes counts as
// replayed, as PendingStrict documents it.
const replayWindow = time.Second

// observation is one body, event by event.
type observation struct {
	tr  *trip
	c   *compared
	cut func(int) int
	// What was held when the verdict came: at least and at most so many bytes
	// of what the server wrote.
	held, mayHold int
	cursorAt      int       // the end of the event that is the client's cursor, 0: not in it
	until         time.Time // to when what comes counts as replayed
}

func (w *world) observe(tr *trip) *observation {
	o := &observation{tr: tr}
	o.c, o.cut = w.compare(tr)
	for _, m := range tr.up.readAt {
		if m.before(tr.at) {
			o.held = m.n
		}
		if !tr.at.before(m.moment) {
			o.mayHold = m.n
		}
	}
	if tr.ex.what == "call" {
		o.held, o.mayHold = 0, 0
	}
	for i, r := range o.c.rows {
		if r.end-r.start > w.cfg.maxEvent { // nobody looks behind it
			o.c.rows = o.c.rows[:i]
			o.held, o.mayHold = min(o.held, r.start), min(o.mayHold, r.start)
			break
		}
	}
	if tr.reconnect {
		o.until = tr.up.openedAt.Add(replayWindow)
	}
	for _, r := range o.c.rows {
		if r.hasID && r.id == tr.ex.cursor && r.id != "" {
			o.cursorAt = r.end
		}
	}
	return o
}

// when returns in which moments a segment may have come to the ledger. seen is
// false for one that has not come.
func (o *observation) when(r *placed) (lo, hi moment, came certainty) {
	end := r.end
	if strings.HasSuffix(string(o.tr.ex.queued[r.start:r.end]), "\r\n") {
		end-- // the LF says nothing new
	}
	at := slices.IndexFunc(o.tr.up.readAt, func(m reached) bool { return m.n >= end })
	if at < 0 {
		return lo, hi, surelyNot
	}
	if lo = o.tr.up.readAt[at].moment; lo.before(o.tr.at) {
		lo = o.tr.at
	}
	hi, came = o.tr.endAt, perhaps
	if o.heldFor(r) == surely {
		return lo, lo, surely
	}
	if r.gone {
		return lo, hi, surely
	}
	if r.until >= 0 {
		n := o.cut(r.until)
		if i := slices.IndexFunc(o.tr.gotAt, func(m reached) bool { return m.n >= n }); i >= 0 {
			hi, came = o.tr.gotAt[i].moment, surely
		}
	}
	return lo, hi, came
}

// heldFor reports whether a segment was among the held events.
func (o *observation) heldFor(r *placed) certainty {
	return certain(r.end <= o.held, r.start < o.mayHold)
}

// replayed reports whether a segment, which came to the ledger in these moments,
// counts as replayed.
func (o *observation) replayed(r *placed, lo, hi moment) certainty {
	held := o.heldFor(r)
	return certain(held == surely || hi.at.Before(o.until), held != surelyNot || lo.at.Before(o.until))
}

// observations are all bodies of a session that the middleware has handed on.
func (w *world) observations(s *session) (all []*observation) {
	for _, tr := range w.trips {
		if tr.s == s && tr.sse && tr.own == nil && tr.ex != nil && tr.up != nil && tr.st != nil {
			all = append(all, w.observe(tr))
		}
	}
	return all
}

// checkPending holds all that happened against the table. mu is held.
//
// Kept by: ledger and reconcile, whole.
func (w *world) checkPending(counted uint64) {
	if n := len(w.staled); uint64(n) != counted {
		w.violate(wrongFate, "the hook has seen %d that were stale, Stats has %d", n, counted)
	}
	for _, s := range w.sessions {
		all := w.observations(s)
		for _, o := range all {
			if o.c.wrong != "" {
				w.violate(bytesDiffer, "trip %d: %s", o.tr.n, o.c.wrong)
				return
			}
		}
		if w.cfg.policy == middleware.PendingOff {
			w.checkOff(all)
			continue
		}
		failing := make(map[*call][]*ask) // those that must have done so
		mayFail := make(map[int]bool)     // requests
		for _, a := range s.asks {
			if a.ping() {
				continue
			}
			ends, why, ok := walk(w.inputsOf(a, all), w.cfg.policy, w.cfg.staleGrace)
			if ok && ends == nil {
				w.violate(wrongFate, "request %d of %s: %s", a.id, s.id, why)
			}
			must := ok && len(ends) > 0
			mayFail[a.id] = !ok
			for _, e := range ends {
				must = must && e.fails
				mayFail[a.id] = mayFail[a.id] || e.fails
			}
			if must {
				failing[ends[0].call] = append(failing[ends[0].call], a)
			}
		}
		for _, c := range s.calls {
			w.checkCall(s, c, all, failing[c], mayFail)
		}
	}
}

// checkOff: everything passes, as often as it comes.
func (w *world) checkOff(all []*observation) {
	for _, o := range all {
		for _, r := range o.c.rows {
			for _, f := range r.fates {
				if f == keptBack || f == failedCall {
					w.violate(wrongFate, "trip %d: a message of event %q is %v", o.tr.n, r.id, f)
				}
			}
		}
	}
}

// inputsOf is all that matters to one request. mu is held.
func (w *world) inputsOf(a *ask, all []*observation) (inputs []*input) {
	s := a.s
	loose := slices.ContainsFunc(s.streams, func(st *stream) bool { return st.overlaps })
	siblings := slices.ContainsFunc(s.asks, func(other *ask) bool {
		return other != a && !other.ping() && other.st.theCall() != nil && other.st.theCall() == a.st.theCall()
	})
	watched := slices.ContainsFunc(a.answers, func(tr *trip) bool { return receptionOf(tr) == taken })
	add := func(in input) {
		if in.kind == progress && !watched {
			return
		}
		if in.kind == callOver && (in.call == nil || in.call != a.st.theCall()) {
			return
		}
		in.loose, in.siblings = loose, siblings
		for _, had := range inputs { // once is enough
			if in.kind == progress && *had == in {
				return
			}
		}
		inputs = append(inputs, &in)
	}
	for _, o := range all {
		w.inputsIn(a, o, add)
	}
	for _, tr := range w.trips {
		if tr.s != s || tr.what != "answer" {
			continue
		}
		out := receptionOf(tr)
		if slices.Contains(tr.answers, a) && out != nothing {
			add(input{kind: answerReturns, lo: tr.at, hi: tr.at, sure: true, reception: out, what: fmt.Sprintf("answer by trip %d", tr.n)})
		}
		for _, other := range tr.answers {
			if c := other.st.theCall(); other != a && out == refused && c != nil {
				add(input{kind: callOver, call: c, ended: wasFailed, lo: tr.at, hi: tr.at})
			}
		}
		if tr.withdraws != nil && out == taken {
			add(input{kind: callOver, call: tr.withdraws, ended: wasWithdrawn, lo: tr.at, hi: tr.at, sure: tr.call.delay+tr.slow == 0})
		}
	}
	for _, c := range s.calls {
		for _, f := range c.failed {
			if f.number == a.id {
				continue
			}
			in := input{kind: callOver, call: c, ended: wasFailed, sure: true, hi: f.at}
			for _, o := range all {
				for i := range o.c.rows {
					if r := &o.c.rows[i]; slices.Contains(r.fates, failedCall) && r.failure.id == c.id {
						in.lo, in.hi, _ = o.when(r)
						in.trip = o.tr.n + 1
					}
				}
			}
			if in.trip == 0 { // told at the end, and noted when the answer was refused
				in.lo = moment{}
				for _, tr := range w.trips {
					if tr.s == s && receptionOf(tr) == refused && !f.at.before(tr.at) && slices.Contains(tr.answers, s.askOf(f.number)) {
						in.lo = tr.at
					}
				}
				add(in)
			}
		}
	}
	return inputs
}

// inputsIn is what matters to a request in one body, in its order.
func (w *world) inputsIn(a *ask, o *observation, add func(input)) {
	tr, trip := o.tr, o.tr.n+1
	what := func(r *placed) string { return fmt.Sprintf("event %q of trip %d", r.id, tr.n) }
	mine := tr.ex.st.theCall()
	mootBy := func(r *placed) bool {
		return slices.ContainsFunc(r.says, func(m said) bool {
			return m.kind == cancellation && m.number == a.id || m.kind == response && mine != nil && m.id == mine.id
		})
	}
	var moot, mayMoot, fresh, mayFresh bool
	for i := range o.c.rows {
		r := &o.c.rows[i]
		held := o.heldFor(r)
		lo, hi, _ := o.when(r)
		moot = moot || held == surely && mootBy(r)
		mayMoot = mayMoot || o.replayed(r, lo, hi) != surelyNot && mootBy(r)
		if held == surelyNot || len(r.says) == 0 {
			continue
		}
		old := o.cursorAt > 0 && r.end <= o.cursorAt
		switch {
		case w.onlyAsks(r, a), old && o.cursorAt <= o.held:
		case held == surely && o.cursorAt <= o.held && !old && !w.anyAsk(r):
			fresh = true
		default:
			mayFresh = true
		}
	}
	if fresh {
		add(input{kind: progress, st: tr.ex.st, trip: trip, lo: tr.at, hi: tr.at, sure: true})
	}
	if mayFresh {
		add(input{kind: progress, st: tr.ex.st, lo: tr.at, hi: tr.endAt})
	}
	sighted := false
	for i := range o.c.rows {
		r := &o.c.rows[i]
		lo, hi, came := o.when(r)
		if came == surelyNot {
			continue
		}
		held, replayed := o.heldFor(r), o.replayed(r, lo, hi)
		if held != surely && len(r.says) > 0 && !w.onlyAsks(r, a) {
			in := input{kind: progress, st: tr.ex.st, lo: lo, hi: hi}
			if came == surely && !w.anyAsk(r) && !sighted && held == surelyNot && r.end > o.cursorAt {
				in.trip, in.sure = trip, true
			}
			add(in)
		}
		for k, m := range r.says {
			switch {
			case m.kind == request && m.number == a.id:
				sighted = true
				add(input{
					kind: sighting, trip: trip, lo: lo, hi: hi, sure: came == surely, what: what(r),
					fate: r.fates[k], st: tr.ex.st, call: mine, token: m.token, replayed: replayed,
					moot: certain(held == surely && moot, replayed != surelyNot && mayMoot),
				})
			case m.kind == request:
				// It may be its call that is failed, and this one is of it, too.
				other := a.s.askOf(m.number)
				elsewhere := r.fates[k] == keptBack && other.st != tr.ex.st
				if r.fates[k] == failedCall || r.fates[k] == unseen || elsewhere {
					add(input{
						kind: callOver, trip: trip, lo: lo, hi: hi, ended: wasFailed, call: a.s.failedBy(r, other),
						sure: came == surely && r.fates[k] == failedCall,
					})
				}
			case m.kind == cancellation && m.number == a.id:
				add(input{kind: withdrawal, trip: trip, lo: lo, hi: hi, sure: came == surely && r.fates[k] == handedOn})
			case m.kind == response && r.fates[k] != keptBack:
				add(input{
					kind: callOver, trip: trip, lo: lo, hi: hi, call: a.s.callOf(m.id),
					sure: came == surely && r.fates[k] == handedOn,
				})
			}
		}
	}
	if sighted {
		add(input{kind: bodyEnds, trip: trip, lo: tr.ends(), hi: tr.endAt, sure: true})
	}
}

// failedBy is the call that a request's failure ends.
func (s *session) failedBy(r *placed, a *ask) *call {
	if r.failure.id != "" {
		return s.callOf(r.failure.id)
	}
	return a.st.theCall()
}

// onlyAsks reports whether an event says nothing but a's request.
func (w *world) onlyAsks(r *placed, a *ask) bool {
	return !slices.ContainsFunc(r.says, func(m said) bool { return m.kind != request || m.number != a.id })
}

// anyAsk reports whether an event has a request in it and nothing else, which
// says something new only if it has not come before.
func (w *world) anyAsk(r *placed) bool {
	return !slices.ContainsFunc(r.says, func(m said) bool { return m.kind != request })
}

// checkCall is what a call must have come to. mu is held.
func (w *world) checkCall(s *session, c *call, all []*observation, failing []*ask, mayFail map[int]bool) {
	for _, f := range c.failed {
		a := s.askOf(f.number)
		switch {
		case a == nil || f.method != a.method || f.reason != "stale" && f.reason != "unknown":
			w.violate(wronglyFailed, "call %s of %s, for request %s, %q, %q", c.id, s.id, f.request, f.method, f.reason)
		case !mayFail[a.id]:
			w.violate(wronglyFailed, "call %s of %s, for request %d, which is not stale", c.id, s.id, a.id)
		case f.reason == "unknown" && w.cfg.policy != middleware.PendingStrict:
			w.violate(wronglyFailed, "call %s of %s, as unknown", c.id, s.id)
		case !slices.ContainsFunc(w.staled, func(e middleware.Event) bool {
			return e.SessionID == s.id && e.OriginRequestID == c.id
		}):
			w.violate(wronglyFailed, "call %s of %s, and the hook was not told", c.id, s.id)
		}
		if c.answered > 0 {
			w.violate(answeredTwice, "call %s of %s", c.id, s.id)
		}
	}
	for _, o := range all {
		for i := range o.c.rows {
			r := &o.c.rows[i]
			for k, m := range r.says {
				if m.kind == response && m.id == c.id && r.fates[k] == keptBack && len(c.failed) == 0 && c.withdrawn == nil {
					w.violate(wrongFate, "the answer to call %s of %s was kept back in trip %d", c.id, s.id, o.tr.n)
				}
			}
		}
	}
	told := len(c.failed) + c.answered
	reads := c.st != nil && c.st.cursor != "" && !c.st.overlaps
	if len(failing) > 0 && told == 0 && reads && c.withdrawn == nil && s.alive && !s.faulty && !s.ended && s.fencedTick == 0 {
		w.violate(neverFailed, "call %s of %s, of request %d", c.id, s.id, failing[0].id)
	}
}

// checkDue is a call that is failed while the client reads its stream: it is
// told at once. mu is held, and nothing moves.
//
// Kept by: Transport.replied and body.release and reconcile (settle, settleAll).
func (w *world) checkDue() {
	w.due = slices.DeleteFunc(w.due, func(c *call) bool {
		st := c.st
		if st == nil || st.overlaps || len(c.failed)+c.answered > 0 || c.withdrawn != nil {
			return true
		}
		tr := st.reader
		if tr == nil || !tr.sse || tr.own != nil || !tr.reading || tr.over || tr.gaveUp() || tr.s.fencedTick != 0 {
			return tr != nil && tr.over
		}
		w.violate(neverFailed, "call %s of %s, which trip %d waits for", c.id, tr.s.id, tr.n)
		return true
	})
}

// ends is the first moment in which a body may have ended.
func (tr *trip) ends() moment {
	if n := len(tr.gotAt); n > 0 {
		return tr.gotAt[n-1].moment
	}
	return tr.at
}

// cutShort reports whether the last that was read of a stream ended where its
// call was failed. mu is held.
func (w *world) cutShort(st *stream) bool {
	return w.cfg.pending && st.reader != nil && st.reader.ex != nil && st.reader.sse && st.reader.own == nil &&
		func() bool { c, _ := w.compare(st.reader); return c.ends() }()
}

// readOn resumes a stream whose call was failed.
func (m *machine) readOn(st *stream) {
	for range 3 {
		again := false
		m.locked(func(w *world) {
			if again = w.cutShort(st); again {
				m.send(&trip{what: "get", s: st.s, st: st, cursor: st.cursor})
			}
		})
		if !again {
			return
		}
		m.advance(grace)
		m.endTrips()
	}
}
