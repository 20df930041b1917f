package interop_test

import (
	"fmt"
	"net/http"
	"time"

	"pgregory.net/rapid"
)

// This file is what can happen in the property tests.

// actions is what can happen in one step. Names that end in a digit only make
// an action more likely. Each happens with world.mu held, and nothing else
// moves then, but for those that let time go by.
func (m *machine) actions() map[string]func(*rapid.T) {
	still := map[string]func(*rapid.T){
		"call":        m.call,
		"cancel":      m.cancel,
		"close":       m.close,
		"cut":         m.cut,
		"cut 2":       m.cut,
		"emit":        m.emit,
		"emit 2":      m.emit,
		"flood":       m.flood,
		"initialize":  m.initialize,
		"notes":       m.notes,
		"probes":      m.probes,
		"reconnect":   m.reconnect,
		"reconnect 2": m.reconnect,
		"reconnect 3": m.reconnect,
		"result":      m.result,
		"standalone":  m.standalone,
	}
	if m.p.deaths {
		still["delete"] = m.delete
		still["kill"] = m.kill
	}
	if m.p.faults {
		still["floods"] = m.floods
		still["oversize"] = m.oversize
	}
	actions := map[string]func(*rapid.T){
		"":          func(*rapid.T) { m.settle() },
		"advance":   m.pass,
		"advance 2": m.pass,
		"episode":   m.episode,
		"episode 2": m.episode,
		"episode 3": m.episode,
	}
	if m.w.cfg.lease > 0 {
		actions["doubt"] = m.doubt
	}
	for name, act := range still {
		actions[name] = func(rt *rapid.T) {
			m.w.mu.Lock()
			defer m.w.mu.Unlock()
			act(rt)
		}
	}
	if m.p.pending {
		m.pendingActions(actions)
	}
	return actions
}

// one picks one of what there is, or skips the action.
func one[V any](rt *rapid.T, label string, from []V) V {
	if len(from) == 0 {
		rt.Skip("there is none")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(rt, label)]
}

// chance draws whether something happens that does in one of n cases.
func chance(rt *rapid.T, label string, n int) bool {
	return rapid.IntRange(0, n-1).Draw(rt, label) == n-1
}

// open returns the sessions that a client has not been told are over.
func (m *machine) open() (out []*session) {
	for _, s := range m.w.sessions {
		if s.fencedTick == 0 {
			out = append(out, s)
		}
	}
	return out
}

// session picks a session, as a rule one that can still be used.
func (m *machine) session(rt *rapid.T) *session {
	if open := m.open(); len(open) > 0 && !chance(rt, "any session", 8) {
		return one(rt, "session", open)
	}
	return one(rt, "session", m.w.sessions)
}

func (m *machine) pass(rt *rapid.T) {
	c := m.w.cfg
	m.advance(pick(rt, "advance", 10*time.Millisecond, 110*time.Millisecond, time.Second, c.timeout, c.budget,
		2*c.budget+time.Second, 40*time.Second, time.Hour))
}

func (m *machine) initialize(rt *rapid.T) {
	if len(m.open()) >= 3 {
		rt.Skip("enough of them")
	}
	shape := rapid.IntRange(0, 3).Draw(rt, "ids")
	var q questions
	if m.p.pending {
		q.history = pick(rt, "replays", afterCursor, afterCursor, fromCursor, fromStart)
		q.asserts = rapid.Bool().Draw(rt, "asserts")
	}
	gone := pick(rt, "gone", http.StatusNotFound, http.StatusGone)
	conflict := m.p.faults && chance(rt, "409 while attached", 3)
	s := m.w.newSession()
	s.shape, s.gone, s.conflict, s.questions = shape, gone, conflict, q
	tr := &trip{what: "initialize", s: s}
	for _, old := range m.w.sessions {
		if old.fencedTick != 0 {
			tr.stale = old.id // some clients leave it on
		}
	}
	m.send(tr)
}

// client draws how a client reads.
func (m *machine) client(rt *rapid.T, tr *trip) *trip {
	tr.buffer = pick(rt, "buffer", 512, 4096, 64, 7)
	tr.slow = pick(rt, "slow network", 0, 0, 0, 0, 2*time.Millisecond, slowest)
	switch rapid.IntRange(0, 7).Draw(rt, "reader") {
	case 6:
		tr.limit = rapid.IntRange(1, 600).Draw(rt, "closes after")
	case 7:
		tr.lag = pick(rt, "lag", 3*time.Second, 50*time.Millisecond)
	}
	return tr
}

// chunks draws how a server cuts what it writes.
func chunks(rt *rapid.T) []int {
	return pick(rt, "chunks", nil, []int{1, 2, 1000}, []int{100}, []int{60, 7}, []int{5, 300}, []int{3})
}

// getPlan draws how a server answers the attempts of one GET.
func (m *machine) getPlan(rt *rapid.T) []getAnswer {
	c := m.w.cfg
	delays := []time.Duration{0, 0, 0, 10 * time.Millisecond, c.budget / 4}
	if m.p.faults {
		delays = append(delays, c.budget-50*time.Millisecond, c.budget+time.Millisecond)
	}
	a := getAnswer{
		delay: pick(rt, "GET's delay", delays...), chunks: chunks(rt),
		pause: pick(rt, "pause", 0, 0, time.Millisecond, 40*time.Millisecond),
		end:   pick(rt, "end", stays, stays, endsClean, breaks),
	}
	if a.end != stays && rapid.Bool().Draw(rt, "inside an event") {
		a.torn = rapid.IntRange(-12, 40).Draw(rt, "torn")
	}
	if !m.p.faults || !chance(rt, "odd answers", 3) {
		return []getAnswer{a}
	}
	var plan []getAnswer
	for range rapid.IntRange(1, 2).Draw(rt, "odd answers first") {
		odd := getAnswer{
			status: pick(rt, "status", 503, 409, 429, 200, 401, 404, 410, 0),
			delay:  pick(rt, "odd GET's delay", delays...),
		}
		if odd.status == 429 || odd.status == 503 {
			odd.retryAfter = pick(rt, "Retry-After", 0, 1, 2, 100)
		}
		odd.hang = odd.status == 0
		plan = append(plan, odd)
	}
	return append(plan, a)
}

// standalone opens the standalone stream, also again and without a cursor.
func (m *machine) standalone(rt *rapid.T) {
	s := m.session(rt)
	st := s.streams[0]
	if st.reader != nil && !st.reader.finished && !chance(rt, "though it is open", 4) {
		return
	}
	m.send(m.client(rt, &trip{what: "get", s: s, st: st, plan: m.getPlan(rt)}))
}

// resumable returns the streams of which the client has a cursor and no body.
func resumable(of []*session) (out []*stream) {
	for _, s := range of {
		for _, st := range s.streams {
			if st.cursor != "" && st.reader.finished {
				out = append(out, st)
			}
		}
	}
	return out
}

// reconnect resumes streams, several of them at once.
func (m *machine) reconnect(rt *rapid.T) {
	can := resumable(m.open())
	if len(can) == 0 || chance(rt, "of any session", 8) {
		can = resumable(m.w.sessions)
	}
	if len(can) == 0 {
		rt.Skip("nothing to resume")
	}
	first := rapid.IntRange(0, len(can)-1).Draw(rt, "stream")
	for i := range min(len(can), rapid.IntRange(1, 3).Draw(rt, "streams at once")) {
		m.resume(rt, can[(first+i)%len(can)])
	}
}

// resume resumes one stream.
func (m *machine) resume(rt *rapid.T, st *stream) {
	tr := m.client(rt, &trip{what: "get", s: st.s, st: st, cursor: st.cursor, plan: m.getPlan(rt)})
	if st == st.s.streams[0] && chance(rt, "loses its cursor", 4) {
		tr.cursor = ""
	}
	m.send(tr)
}

func (m *machine) call(rt *rapid.T) {
	s := m.session(rt)
	tr := m.client(rt, &trip{what: "call", s: s})
	kinds := []string{"sse", "sse", "json", "202"}
	if m.p.faults {
		kinds = append(kinds, "503", "401", "200", "hang")
	}
	if m.p.faults && m.p.deaths {
		kinds = append(kinds, "404", "410")
	}
	tr.call.delay = pick(rt, "call's delay", 0, 0, 10*time.Millisecond, 3*time.Second)
	switch kind := pick(rt, "answer", kinds...); kind {
	case "sse":
		m.stream(rt, tr)
	case "json":
	case "hang":
		tr.call.hang = true
	default:
		_, _ = fmt.Sscan(kind, &tr.call.status)
	}
	m.send(tr)
}

// stream has a call answered with a stream of its own.
func (m *machine) stream(rt *rapid.T, tr *trip) {
	st := tr.s.newStream()
	tr.st, tr.call.sse = st, true
	st.prime = tr.s.idOf(st, 0)
	tr.call.first = []piece{{data: fmt.Appendf(nil, "%sid: %s\ndata:\n\n", pick(rt, "mark", "", "\uFEFF"), st.prime)}}
}

func (m *machine) delete(rt *rapid.T) {
	m.send(&trip{what: "delete", s: m.session(rt)})
}

// born returns the streams that the server has opened.
func born(of []*session) (out []*stream) {
	for _, s := range of {
		for _, st := range s.streams {
			if st.born && !st.closed {
				out = append(out, st)
			}
		}
	}
	return out
}

// emit has the server produce events, also where nobody is attached, and for a
// session whose record is gone: the log does not know.
func (m *machine) emit(rt *rapid.T) {
	of := m.w.sessions
	if open := m.open(); len(open) > 0 {
		of = open
	}
	m.emitOn(rt, one(rt, "stream", born(of)), rapid.IntRange(1, 4).Draw(rt, "events"))
}

func (m *machine) emitOn(rt *rapid.T, st *stream, n int) {
	var blob []byte
	for range n {
		withID := st.attached == nil || rapid.IntRange(0, 4).Draw(rt, "no id") < 4
		e := m.w.newEvent(st.s, st, rapid.IntRange(0, 191).Draw(rt, "shape"), rapid.IntRange(0, 100).Draw(rt, "size"), withID, "")
		if withID {
			st.log = append(st.log, e)
		}
		blob = append(blob, e.raw...)
	}
	m.w.notef("%s of %s has %d more events, up to %d", st.name, st.s.id, n, len(m.w.events))
	if st.attached != nil && n > 0 {
		st.attached.push(chunked(blob, chunks(rt), pick(rt, "pause", 0, 0, 20*time.Millisecond))...)
	}
}

// result answers the call that a stream belongs to, and ends the stream.
func (m *machine) result(rt *rapid.T) {
	var can []*stream
	for _, st := range born(m.w.sessions) {
		if st != st.s.streams[0] {
			can = append(can, st)
		}
	}
	st := one(rt, "stream", can)
	e := m.w.newEvent(st.s, st, rapid.IntRange(0, 191).Draw(rt, "shape"), 10, true, "7")
	st.log, st.closed = append(st.log, e), true
	m.w.notef("%s of %s has its result, event %d", st.name, st.s.id, e.n)
	if st.attached != nil {
		st.attached.push(piece{data: e.raw}, piece{end: endsClean})
	}
}

// flood produces more than may be held.
func (m *machine) flood(rt *rapid.T) {
	st := one(rt, "stream", born(m.w.sessions))
	size := min(m.w.cfg.maxEvent-300, 2000)
	var blob []byte
	for range min(3*m.w.cfg.maxHeld, 30<<10)/size + 1 {
		e := m.w.newEvent(st.s, st, rapid.IntRange(0, 191).Draw(rt, "shape"), size, true, "")
		st.log = append(st.log, e)
		blob = append(blob, e.raw...)
	}
	m.w.notef("%s of %s has %d bytes more, up to event %d", st.name, st.s.id, len(blob), len(m.w.events))
	if st.attached != nil {
		st.attached.push(chunked(blob, []int{1000}, 0)...)
	}
}

// oversize produces an event that exceeds MaxEventBytes.
func (m *machine) oversize(rt *rapid.T) {
	st := one(rt, "stream", born(m.w.sessions))
	st.s.faulty = true
	e := m.w.newEvent(st.s, st, rapid.IntRange(0, 191).Draw(rt, "shape"), m.w.cfg.maxEvent, true, "")
	st.log = append(st.log, e)
	e.oversize = true
	m.w.notef("%s of %s has the event %d that is too large", st.name, st.s.id, e.n)
	if st.attached != nil {
		st.attached.push(chunked(e.raw, []int{900}, 0)...)
	}
}

// cut ends a stream under its client.
func (m *machine) cut(rt *rapid.T) {
	var open []*exchange
	for _, ex := range m.w.exchanges {
		if ex.st != nil && ex.end == stays && ex.openedTick != 0 {
			open = append(open, ex)
		}
	}
	m.cutOff(rt, one(rt, "stream", open))
}

func (m *machine) cutOff(rt *rapid.T, ex *exchange) {
	how := piece{end: pick(rt, "how", endsClean, breaks)}
	m.w.notef("%s of %s is cut: %v", ex.st.name, ex.s.id, how.end)
	if ex.st.attached == ex && !ex.st.closed && rapid.Bool().Draw(rt, "inside an event") {
		e := m.w.newEvent(ex.s, ex.st, rapid.IntRange(0, 191).Draw(rt, "shape"), 20, true, "")
		ex.st.log = append(ex.st.log, e)
		most := pick(rt, "how far", len(e.raw)-1, 10)
		ex.push(piece{data: e.raw[:rapid.IntRange(1, most).Draw(rt, "at")]})
	}
	ex.push(how)
}

func (m *machine) kill(rt *rapid.T) {
	var alive []*session
	for _, s := range m.w.sessions {
		if s.alive {
			alive = append(alive, s)
		}
	}
	s := one(rt, "session", alive)
	how := pick(rt, "its streams", stays, endsClean, breaks)
	for _, st := range s.streams {
		if st.attached != nil && how != stays {
			st.attached.push(piece{end: how})
		}
	}
	m.killOff(rt, s)
}

func (m *machine) killOff(rt *rapid.T, s *session) {
	m.w.kill(s)
	if rapid.Bool().Draw(rt, "for good") {
		s.plain, s.plainTick = true, m.w.tock()
		s.plainGET, s.plainEnd = !chance(rt, "GETs say so", 3), pick(rt, "replays", stays, endsClean, breaks)
	}
}

// notes queues messages for the next answer to a probe.
func (m *machine) notes(rt *rapid.T) {
	s := m.session(rt)
	for range rapid.IntRange(1, 2).Draw(rt, "notes") {
		e := m.w.newEvent(s, nil, rapid.IntRange(0, 191).Draw(rt, "shape"), 10, true, "")
		s.notes = append(s.notes, e)
	}
}

// probes plans how a session's next probes are answered.
func (m *machine) probes(rt *rapid.T) { m.planProbes(rt, m.session(rt)) }

func (m *machine) planProbes(rt *rapid.T, s *session) {
	c := m.w.cfg
	kinds := []probeKind{honest, honestSSE, honestSSE, honestError}
	delays := []time.Duration{0, 0, 0, 10 * time.Millisecond, c.timeout / 4}
	if m.p.faults {
		kinds = append(kinds, otherError, errorSSE, foreignID, nullID, accepted, oddStatus, oddStatus, oddStatus,
			brokenJSON, brokenSSE, flooding, hanging)
		delays = append(delays, c.timeout-time.Millisecond, c.timeout+time.Millisecond, c.budget)
	}
	if m.p.faults && m.p.deaths {
		kinds = append(kinds, deadStatus, replaced)
	}
	var plan []probeAnswer
	for range rapid.IntRange(1, 4).Draw(rt, "probes") {
		a := probeAnswer{
			kind: pick(rt, "kind", kinds...), delay: pick(rt, "probe's delay", delays...), chunks: chunks(rt),
		}
		switch a.kind {
		case oddStatus:
			a.status = pick(rt, "status", 503, 429, 400, 401, 200, 200)
			if a.status == 429 || a.status == 503 {
				a.retryAfter = pick(rt, "Retry-After", 0, 1, 2, 100)
			}
		case deadStatus:
			a.status = pick(rt, "status", 404, 410)
		case honestSSE, errorSSE:
			a.lingers = rapid.Bool().Draw(rt, "lingers")
		case flooding:
			a.flood = m.someNotes(s, pick(rt, "bytes", c.maxHeld+1, c.maxHeld*9/10, c.maxHeld+100<<10))
		}
		plan = append(plan, a)
	}
	s.probes = plan
	m.w.notef("the probes of %s will be answered: %v", s.id, plan)
}

// floods has a session's probes answered with as many messages as may be held,
// several times over, before one is answered.
func (m *machine) floods(rt *rapid.T) {
	s := m.session(rt)
	s.probes = nil
	for range rapid.IntRange(2, 5).Draw(rt, "floods") {
		s.probes = append(s.probes, probeAnswer{kind: flooding, flood: m.someNotes(s, m.w.cfg.maxHeld*9/10)})
	}
}

// someNotes makes messages of so many bytes, or a little more, for the answer
// to a probe.
func (m *machine) someNotes(s *session, total int) (notes []*event) {
	for size := min(m.w.cfg.maxEvent-300, 1000); total > 0; {
		e := m.w.newEvent(s, nil, 0, min(size, max(0, total-110)), true, "")
		notes = append(notes, e)
		total -= len(e.raw)
	}
	return notes
}

// close closes a body that is being read.
func (m *machine) close(rt *rapid.T) {
	var open []*trip
	for _, tr := range m.w.trips {
		if tr.body != nil && !tr.finished {
			open = append(open, tr)
		}
	}
	m.w.shut(one(rt, "trip", open))
}

// cancel ends a request's context, whatever it is at.
func (m *machine) cancel(rt *rapid.T) {
	m.w.giveUp(one(rt, "trip", m.w.unfinished()))
}

// episode is what all this is about, in one step: a session's streams carry
// events, break, have more events waiting, and are resumed at the same time,
// by a client that may also do something else meanwhile.
func (m *machine) episode(rt *rapid.T) {
	var s *session
	m.locked(func(w *world) {
		s = one(rt, "session", m.open())
		if st := s.streams[0]; st.reader == nil || st.reader.finished {
			m.send(&trip{what: "get", s: s, st: st, cursor: st.cursor})
		}
		if len(s.streams) < 3 && rapid.Bool().Draw(rt, "a call") {
			tr := &trip{what: "call", s: s}
			m.stream(rt, tr)
			m.send(tr)
		}
	})
	m.locked(func(w *world) {
		for _, st := range born([]*session{s}) {
			m.emitOn(rt, st, rapid.IntRange(0, 2).Draw(rt, "events"))
		}
	})
	m.advance(pick(rt, "then", time.Millisecond, 100*time.Millisecond, 2*time.Second))
	m.locked(func(w *world) {
		for _, st := range s.streams {
			if st.attached != nil {
				m.cutOff(rt, st.attached)
			}
		}
	})
	m.locked(func(w *world) {
		for _, st := range born([]*session{s}) {
			m.emitOn(rt, st, rapid.IntRange(0, 2).Draw(rt, "events meanwhile"))
		}
		if rapid.Bool().Draw(rt, "messages for the probe") {
			s.notes = append(s.notes, m.w.newEvent(s, nil, rapid.IntRange(0, 191).Draw(rt, "shape"), 10, true, ""))
		}
		if m.p.deaths && s.alive && chance(rt, "dies", 4) {
			m.killOff(rt, s)
		}
		if rapid.Bool().Draw(rt, "probes are planned") {
			m.planProbes(rt, s)
		}
	})
	m.locked(func(w *world) {
		for _, st := range resumable([]*session{s}) {
			m.resume(rt, st)
		}
	})
	for range rapid.IntRange(0, 3).Draw(rt, "deeds") {
		m.advance(pick(rt, "meanwhile", 0, time.Millisecond, 30*time.Millisecond, m.w.cfg.timeout/2, m.w.cfg.timeout+120*time.Millisecond))
		m.locked(func(w *world) { m.meddle(rt, s) })
	}
	if chance(rt, "patience", 2) {
		m.advance(m.w.cfg.budget)
	}
}

// doubt has a session prove nothing for longer than its lease, also where its
// server answers, and then has it send events.
func (m *machine) doubt(rt *rapid.T) {
	var s *session
	m.locked(func(w *world) { s = one(rt, "session", m.open()) })
	m.advance(m.w.cfg.lease + m.w.cfg.timeout + grace)
	m.locked(func(w *world) {
		for _, status := range []int{http.StatusOK, http.StatusAccepted} {
			tr := &trip{what: "call", s: s}
			tr.call.status = status
			m.send(tr)
		}
	})
	m.locked(func(w *world) {
		for _, st := range s.streams {
			if st.attached != nil && !st.closed {
				m.emitOn(rt, st, 1)
			}
		}
	})
}

// meddle is what a client or a server does while streams are being resumed.
func (m *machine) meddle(rt *rapid.T, s *session) {
	var under []*trip
	for _, tr := range m.w.unfinished() {
		if tr.s == s {
			under = append(under, tr)
		}
	}
	kinds := []string{"nothing", "call", "resume"}
	if len(under) > 0 {
		kinds = append(kinds, "cancel", "cancel all")
	}
	if m.p.deaths {
		kinds = append(kinds, "delete", "kill")
	}
	switch pick(rt, "deed", kinds...) {
	case "call":
		m.send(m.client(rt, &trip{what: "call", s: s}))
	case "resume":
		for _, st := range resumable([]*session{s}) {
			m.resume(rt, st)
		}
	case "cancel":
		m.w.giveUp(one(rt, "trip", under))
	case "cancel all":
		for _, tr := range under {
			m.w.giveUp(tr)
		}
	case "delete":
		m.send(&trip{what: "delete", s: s})
	case "kill":
		if s.alive {
			m.killOff(rt, s)
		}
	}
}
