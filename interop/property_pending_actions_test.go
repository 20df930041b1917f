package interop_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// This file is what can happen in TestPropertyPending besides what can happen
// in the other tests.

// pendingActions replaces actions, and adds some.
func (m *machine) pendingActions(actions map[string]func(*rapid.T)) {
	delete(actions, "flood")
	delete(actions, "floods")
	delete(actions, "notes")
	for name, act := range map[string]func(*rapid.T){
		"ask":      m.ask,
		"ask 2":    m.ask,
		"again":    m.again,
		"answer":   m.reply,
		"answer 2": m.reply,
		"recall":   m.recall,
		"forget":   m.forget,
		"result":   m.respond,
		"withdraw": m.withdraw,
	} {
		actions[name] = func(rt *rapid.T) {
			m.w.mu.Lock()
			defer m.w.mu.Unlock()
			act(rt)
		}
	}
	for i := range 5 {
		actions[fmt.Sprintf("asking %d", i)] = m.asking
	}
}

// emitSays has the server send messages as one event.
func (m *machine) emitSays(rt *rapid.T, st *stream, withID bool, says ...*utterance) {
	e := m.w.newSays(st.s, st, rapid.IntRange(0, 191).Draw(rt, "shape"), withID, says...)
	if withID {
		st.log = append(st.log, e)
	}
	m.w.notef("%s of %s has event %d: %s", st.name, st.s.id, e.n, e.about())
	if st.attached != nil {
		st.attached.push(chunked(e.raw, chunks(rt), pick(rt, "pause", 0, 0, 0, 20*time.Millisecond))...)
	}
}

// about says in a word what an event is.
func (e *event) about() string {
	var all []string
	for _, u := range e.says {
		switch u.kind {
		case request:
			all = append(all, "request "+u.id)
		case response:
			all = append(all, "response to call "+u.id)
		case cancellation:
			all = append(all, "cancellation of "+u.id)
		default:
			all = append(all, "note")
		}
	}
	return strings.Join(all, ", ")
}

func (m *machine) newAsk(rt *rapid.T, s *session, st *stream) *ask {
	a := &ask{
		s: s, st: st, id: len(s.asks) + 1, waits: true,
		method: pick(rt, "method", "elicitation/create", "elicitation/create", "sampling/createMessage", "roots/list", "ping"),
	}
	s.asks = append(s.asks, a)
	return a
}

// spelled is a number in one of the ways in which it can be written.
func spelled(rt *rapid.T, id int) string {
	return strconv.Itoa(id) + pick(rt, "spelling", "", "", "", ".0", "e0")
}

func (m *machine) ask(rt *rapid.T) {
	of := m.w.sessions
	if open := m.open(); len(open) > 0 {
		of = open
	}
	m.askOn(rt, one(rt, "stream", born(of)))
}

func (m *machine) askOn(rt *rapid.T, st *stream) {
	if len(st.s.asks) >= 12 {
		return
	}
	sayings := func() *utterance {
		a := m.newAsk(rt, st.s, st)
		return &utterance{kind: request, ask: a, id: strconv.Itoa(a.id)}
	}
	says := []*utterance{sayings()}
	switch rapid.IntRange(0, 9).Draw(rt, "batch") {
	case 7:
		says = append(says, &utterance{})
	case 8:
		says = append([]*utterance{{}}, says...)
	case 9:
		says = append(says, sayings())
	}
	m.emitSays(rt, st, st.attached == nil || !chance(rt, "no id", 8), says...)
}

// again has the server send a request that it waits for anew.
func (m *machine) again(rt *rapid.T) {
	m.askAgain(rt, one(rt, "request", requestsOf(m.open(), (*ask).repeatable)))
}

func (m *machine) askAgain(rt *rapid.T, a *ask) {
	a.tokens++
	st := a.s.streams[0]
	if !a.st.closed && chance(rt, "on its own stream", 3) {
		st = a.st
	}
	m.emitSays(rt, st, true, &utterance{kind: request, ask: a, id: spelled(rt, a.id)})
}

// requestsOf returns the requests of sessions of which one thing is true.
func requestsOf(of []*session, is func(*ask) bool) (out []*ask) {
	for _, s := range of {
		for _, a := range s.asks {
			if is(a) {
				out = append(out, a)
			}
		}
	}
	return out
}

func (a *ask) recallable() bool { return a.st != nil && !a.ping() }
func (a *ask) repeatable() bool { return a.waits && a.recallable() }

// prompted returns the requests that the application has been asked and has not
// answered, or all that it has been asked.
func (s *session) prompted(all bool) (out []*ask) {
	for _, a := range s.asks {
		if n := len(a.prompts); n > len(a.answers) || n > 0 && all {
			out = append(out, a)
		}
	}
	return out
}

// reply has the client answer requests.
func (m *machine) reply(rt *rapid.T) {
	var can []*ask
	all := chance(rt, "also what is answered", 8)
	for _, s := range m.open() {
		can = append(can, s.prompted(all)...)
	}
	m.replyTo(rt, one(rt, "request", can))
}

func (m *machine) replyTo(rt *rapid.T, asks ...*ask) {
	a := asks[0]
	tr := &trip{what: "answer", s: a.s}
	tr.answers = asks
	if more := slices.DeleteFunc(a.s.prompted(false), func(o *ask) bool { return slices.Contains(asks, o) }); len(more) > 0 && chance(rt, "a batch", 4) {
		tr.answers = append(tr.answers, more[0])
	}
	var texts []string
	for _, a := range tr.answers {
		a.answers = append(a.answers, tr)
		id := spelled(rt, a.id)
		texts = append(texts, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`)
	}
	if tr.mixed = chance(rt, "with something else", 10); tr.mixed {
		texts = append(texts, `{"jsonrpc":"2.0","method":"notifications/progress"}`)
	}
	tr.text = texts[0]
	if len(texts) > 1 {
		tr.text = "[" + strings.Join(texts, ",") + "]"
	}
	m.post(rt, tr)
}

// post sends an answer or a withdrawal, and draws what becomes of it.
func (m *machine) post(rt *rapid.T, tr *trip) {
	tr.once = rapid.Bool().Draw(rt, "read once")
	tr.call.delay = pick(rt, "answer's delay", 0, 0, 0, 10*time.Millisecond, 3*time.Second)
	tr.call.status = pick(rt, "taken", 202, 202, 202, 202, 200, 400, 422, 405, 401, 403, 503, 429, 409)
	if tr.call.status == 200 {
		tr.call.status = http.StatusNoContent
	}
	tr.lost = pick(rt, "lost", arrives, arrives, arrives, arrives, lostBefore, lostAfter)
	m.send(tr)
	m.w.notef("trip %d: %s", tr.n, tr.text)
}

// withdraw has the client give up a call that has not been answered.
func (m *machine) withdraw(rt *rapid.T) {
	m.withdrawOne(rt, one(rt, "call", withdrawable(m.open())))
}

// withdrawable returns the withdrawals of calls that the client still waits for.
func withdrawable(of []*session) (can []*trip) {
	for _, s := range of {
		for _, c := range s.calls {
			if c.st != nil && c.st.born && c.withdrawn == nil && c.answered+len(c.failed) == 0 {
				can = append(can, &trip{what: "answer", s: s, says: says{withdraws: c}})
			}
		}
	}
	return can
}

func (m *machine) withdrawOne(rt *rapid.T, tr *trip) {
	tr.text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + tr.withdraws.id + `}}`
	tr.withdraws.withdrawn = tr
	m.post(rt, tr)
}

// recall has the server withdraw a request, on its own stream or another.
func (m *machine) recall(rt *rapid.T) {
	m.recallOne(rt, one(rt, "request", requestsOf(m.open(), (*ask).recallable)))
}

func (m *machine) recallOne(rt *rapid.T, a *ask) {
	st := a.st
	if st.closed || chance(rt, "on the standalone stream", 4) {
		st = a.s.streams[0]
	}
	if !st.born {
		return
	}
	a.waits = false
	id := spelled(rt, a.id)
	m.emitSays(rt, st, true, &utterance{kind: cancellation, ask: a, id: id})
}

// forget has the server give a request up and say nothing.
func (m *machine) forget(rt *rapid.T) {
	a := one(rt, "request", requestsOf(m.open(), func(a *ask) bool { return a.waits }))
	a.waits = false
	m.w.notef("the server no longer waits for request %d of %s", a.id, a.s.id)
}

// respond answers the calls that a stream belongs to, and ends the stream with
// the last.
func (m *machine) respond(rt *rapid.T) {
	var can []*stream
	for _, st := range born(m.w.sessions) {
		if len(st.calls) > 0 {
			can = append(can, st)
		}
	}
	m.respondOn(rt, one(rt, "stream", can))
}

func (m *machine) respondOn(rt *rapid.T, st *stream) {
	for i, c := range st.calls {
		if c.closed {
			continue
		}
		c.closed = true
		for _, a := range st.s.asks {
			a.waits = a.waits && a.st != st
		}
		m.emitSays(rt, st, true, &utterance{kind: response, call: c, id: c.id})
		if st.closed = i == len(st.calls)-1; st.closed && st.attached != nil {
			st.attached.push(piece{end: endsClean})
		}
		return
	}
}

// asking is what DESIGN 4.5 is about, in one step: a server asks on a session's
// streams, the client answers or not, and the streams are cut and resumed, once
// or several times, while either side may change its mind.
func (m *machine) asking(rt *rapid.T) {
	var s *session
	m.locked(func(w *world) {
		s = one(rt, "session", m.open())
		if st := s.streams[0]; st.reader == nil || st.reader.finished {
			m.send(&trip{what: "get", s: s, st: st, cursor: st.cursor})
		}
		if len(s.streams) < 3 {
			tr := &trip{what: "call", s: s}
			m.stream(rt, tr)
			m.send(tr)
		}
	})
	m.locked(func(w *world) {
		for _, st := range born([]*session{s}) {
			if len(st.calls) > 0 || chance(rt, "a request", 3) {
				m.askOn(rt, st)
			}
		}
	})
	m.advance(pick(rt, "then", 0, time.Millisecond, 100*time.Millisecond))
	m.deeds(rt, s)
	again := pick(rt, "cuts", 1, 2, 3, 4)
	for i := range again {
		m.locked(func(w *world) {
			for _, st := range s.streams {
				if st.attached == nil {
					continue
				}
				st.attached.push(piece{end: pick(rt, "how", endsClean, breaks)})
			}
		})
		m.deeds(rt, s)
		m.locked(func(w *world) {
			for _, st := range resumable([]*session{s}) {
				tr := &trip{what: "get", s: s, st: st, cursor: st.cursor}
				if chance(rt, "strangely", 4) {
					m.resume(rt, st)
					continue
				}
				tr.plan = []getAnswer{{chunks: chunks(rt)}}
				if chance(rt, "is slow", 8) {
					tr.lag = 3 * time.Second
				}
				if chance(rt, "has enough", 5) {
					tr.limit, tr.buffer = rapid.IntRange(1, 240).Draw(rt, "closes after"), 7
				}
				m.send(tr)
			}
		})
		wait := []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, m.w.cfg.staleGrace + time.Second}
		m.advance(pick(rt, "meanwhile", wait...))
		if i+1 < again {
			m.deeds(rt, s)
		}
	}
}

// deeds is what the client and the server do in between.
func (m *machine) deeds(rt *rapid.T, s *session) {
	for range rapid.IntRange(0, 2).Draw(rt, "deeds") {
		m.locked(func(w *world) { m.deed(rt, s) })
	}
}

func (m *machine) deed(rt *rapid.T, s *session) {
	streams := born([]*session{s})
	switch pick(rt, "deed", "answer", "answer", "answer", "answer", "note", "note", "leave", "recall", "respond", "withdraw", "ask", "again", "die") {
	case "answer":
		if can := s.prompted(false); len(can) > 0 {
			m.replyTo(rt, one(rt, "request", can))
		}
	case "leave":
		for _, tr := range m.w.unfinished() {
			if tr.s == s && tr.body != nil && tr.st != nil {
				m.w.shut(tr)
			}
		}
	case "note":
		if len(streams) > 0 {
			m.emitOn(rt, one(rt, "stream", streams), 1)
		}
	case "recall":
		if can := requestsOf([]*session{s}, (*ask).recallable); len(can) > 0 {
			m.recallOne(rt, one(rt, "request", can))
		}
	case "respond":
		if can := slices.DeleteFunc(streams, func(st *stream) bool { return len(st.calls) == 0 }); len(can) > 0 {
			m.respondOn(rt, one(rt, "stream", can))
		}
	case "withdraw":
		if can := withdrawable([]*session{s}); len(can) > 0 {
			m.withdrawOne(rt, one(rt, "call", can))
		}
	case "ask":
		if len(streams) > 0 {
			m.askOn(rt, one(rt, "stream", streams))
		}
	case "again":
		if can := requestsOf([]*session{s}, (*ask).repeatable); len(can) > 0 {
			a := one(rt, "request", can)
			for range rapid.IntRange(1, 2).Draw(rt, "times") {
				m.askAgain(rt, a)
			}
		}
	case "die":
		if s.alive && chance(rt, "dies", 5) {
			m.killOff(rt, s)
		}
	}
}
