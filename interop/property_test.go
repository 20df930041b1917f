package interop_test

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/revenant-mcp/revenant/middleware"
)

// The property tests drive the middleware between a model client and a model
// server, in virtual time, with whatever rapid draws, and hold what happened
// against the invariants of DESIGN 4.6. One check is one bubble.
//
// A test makes rapid's 100 checks, and again, for runFor. For a night, and for
// one failure again:
//
//	go test ./interop -run Property -rapid.checks=200000 -timeout 12h
//	go test ./interop -run PropertyFaults -rapid.checks=1 -rapid.seed=1234
//
// A failure prints the rule, what rapid drew, and all that happened in order.
// To see a check fail, take away what its comment names and run it.

// TestPropertyHealthy: streams break and clients leave, and no session dies.
func TestPropertyHealthy(t *testing.T) { checkProperties(t, profile{}) }

// TestPropertyDeaths: sessions die, and servers say so.
func TestPropertyDeaths(t *testing.T) { checkProperties(t, profile{deaths: true}) }

// TestPropertyFaults: servers, and what stands before them, also answer what
// says neither.
func TestPropertyFaults(t *testing.T) {
	checkProperties(t, profile{deaths: true, faults: true})
}

// TestPropertyLease: the same, with a lease on liveness.
func TestPropertyLease(t *testing.T) {
	checkProperties(t, profile{deaths: true, faults: true, lease: true})
}

// profile is what may happen in a test.
type profile struct{ deaths, faults, lease, pending bool }

// runFor is how long a test goes on beginning to make its checks once more.
const runFor = 2 * time.Second

func checkProperties(t *testing.T, p profile) {
	// Requests that run at the same time may end in either order, so that a
	// failure need not come again when rapid asks for it. It is reported then
	// as it came first.
	var broken *world
	var again bool
	t.Cleanup(func() {
		if broken != nil && !again {
			t.Logf("%s: %s\n%s", rules[broken.found.rule], broken.found.detail, strings.Join(broken.lines, "\n"))
		}
	})
	for began := time.Now(); ; {
		rapid.Check(t, func(rt *rapid.T) {
			again = false
			if w := checkOnce(t, rt, p); w.found != nil {
				broken, again = w, true
				raise(rt, w)
			}
		})
		if testing.Short() || time.Since(began) > runFor {
			return
		}
	}
}

// checkOnce is one check: a walk through what can happen, and its end.
func checkOnce(t *testing.T, rt *rapid.T, p profile) *world {
	return inBubble(t, func(done func(*world)) {
		p.faults = p.faults && !chance(rt, "no faults", 4)
		m := newMachine(rt, p)
		defer done(m.w)
		defer m.tearDown()
		actions := m.actions()
		actions["initialize"](rt)
		rt.Repeat(actions)
		m.finish()
	})
}

// inBubble runs f in a bubble of its own and returns the rule that it broke.
// f passes its world to done in the end. What else f panics with, rapid's own
// signals among it, goes on to the caller.
func inBubble(t *testing.T, f func(done func(*world))) (w *world) {
	var thrown, stuck any
	var trace []byte
	func() {
		// The runtime panics in the goroutine that opened the bubble if any of
		// its goroutines is left.
		defer func() { stuck = recover() }()
		synctest.Test(t, func(*testing.T) {
			defer func() {
				if thrown = recover(); thrown != nil {
					trace = debug.Stack()
				}
			}()
			f(func(it *world) { w = it })
		})
	}()
	if _, broken := thrown.(*violation); thrown != nil && !broken {
		if _, bug := thrown.(runtime.Error); bug {
			t.Logf("%v\n%s", thrown, trace)
		}
		panic(thrown)
	}
	if stuck != nil {
		w.violate(leftRunning, "%v", stuck)
	}
	return w
}

// raise fails the check for the rule that was broken. rapid tells failures
// apart by the line that they come from, so that each invariant has its own.
func raise(rt *rapid.T, w *world) {
	rt.Logf("what happened (order, time):\n%s", strings.Join(w.lines, "\n"))
	switch text := rules[w.found.rule]; text[:2] {
	case "I1":
		rt.Fatal(text)
	case "I2":
		rt.Fatal(text)
	case "I3":
		rt.Fatal(text)
	case "I4":
		rt.Fatal(text)
	case "I5":
		rt.Fatal(text)
	case "I6":
		rt.Fatal(text)
	case "I7":
		rt.Fatal(text)
	default:
		rt.Fatal(text)
	}
}

// machine is one check: the client, the server, and the middleware between.
type machine struct {
	p    profile
	w    *world
	rt   *middleware.Transport
	base *http.Transport
}

func pick[V any](rt *rapid.T, label string, from ...V) V {
	return rapid.SampledFrom(from).Draw(rt, label)
}

func newMachine(rt *rapid.T, p profile) *machine {
	l := limits{
		timeout:  pick(rt, "ProbeTimeout", time.Second, 200*time.Millisecond, 5*time.Second),
		rounds:   pick(rt, "AmbiguousRounds", 3, 1, 2),
		maxHeld:  pick(rt, "MaxHeldBytes", 4096, 256, 1000, 64<<10),
		maxEvent: pick(rt, "MaxEventBytes", 16<<10, 1024, 4096),
	}
	l.budget = l.timeout * time.Duration(pick(rt, "budget", 3, 1))
	if p.lease {
		l.lease = pick(rt, "LivenessLease", 2*time.Second, 50*time.Millisecond, 20*time.Second)
	}
	if p.pending {
		l.pending = true
		l.policy = pick(rt, "Pending", middleware.PendingReconcile, middleware.PendingReconcile,
			middleware.PendingReconcile, middleware.PendingStrict, middleware.PendingOff)
		l.staleGrace = pick(rt, "StaleGrace", time.Minute, 2*time.Second)
	}
	how := pick(rt, "Terminal", middleware.TerminalResponse, middleware.TerminalError)
	m := &machine{p: p, w: newWorld(l)}
	m.base = &http.Transport{DialContext: m.w.net.DialContext}
	var err error
	m.rt, err = middleware.New(middleware.Config{
		Base:         &wire{w: m.w, base: m.base},
		ProbeTimeout: l.timeout, ProbeBudget: l.budget, AmbiguousRounds: l.rounds,
		MaxHeldBytes: l.maxHeld, MaxEventBytes: l.maxEvent, LivenessLease: l.lease,
		Terminal: how, Pending: l.policy, StaleGrace: l.staleGrace,
		Observe: func(e middleware.Event) {
			m.w.mu.Lock()
			defer m.w.mu.Unlock()
			m.w.observed(e)
			m.w.notef("    middleware: %v of %s, %v, status %d, %d events, attempt %d: %v",
				e.Kind, e.SessionID, e.Verdict, e.StatusCode, e.Events, e.Attempt, e.Err)
		},
	})
	if err != nil {
		panic(err)
	}
	return m
}

// settle lets everything happen that happens without time going by, and
// panics with the rule that was broken, if any.
func (m *machine) settle() {
	synctest.Wait()
	m.w.checkOpen()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.epoch++
	if m.w.found != nil {
		panic(m.w.found)
	}
}

func (m *machine) advance(d time.Duration) {
	time.Sleep(d)
	m.settle()
}

// send starts a trip. Several that are started in a row run at the same time.
// mu is held.
func (m *machine) send(tr *trip) {
	w := m.w
	tr.n, tr.gets = len(w.trips), tr.plan
	if m.p.pending {
		m.name(tr)
	}
	if tr.buffer == 0 {
		tr.buffer = 512
	}
	w.trips = append(w.trips, tr)
	if st := tr.st; st != nil {
		if st.reader != nil && !st.reader.finished {
			st.overlaps = true
		}
		if tr.what == "get" {
			// DESIGN 4.2; a session's standalone stream is its first.
			tr.reconnect = tr.cursor != "" || tr.s.streams[0].opened
			tr.applied = st.cursor
			tr.mayBare = tr.cursor == "" && (!tr.reconnect || st.cursor == "" || st.overlaps)
		}
		st.reader = tr
	}
	w.start(m.rt, tr)
}

// locked runs f with mu held, and settles.
func (m *machine) locked(f func(w *world)) {
	func() {
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		f(m.w)
	}()
	m.settle()
}

// finish lets everything come to its end, has the client come back for what it
// lacks, and checks what can only be checked then.
func (m *machine) finish() {
	m.locked(func(w *world) {
		w.notef("the end begins")
		for _, s := range w.sessions {
			s.probes, s.notes = nil, nil
		}
		for _, tr := range w.trips {
			tr.gets = nil
		}
	})
	m.advance(2*m.w.cfg.budget + m.w.cfg.lease + 4*time.Second)
	m.locked(func(w *world) {
		for _, s := range w.sessions {
			w.checkNotesOf(s)
		}
	})
	m.endTrips()
	for _, s := range m.w.sessions {
		m.comeBack(s)
		for range 2 {
			m.comeBackLater(s)
		}
		for range 2 {
			m.insist(s)
		}
		m.locked(func(w *world) {
			for _, st := range s.streams {
				w.checkStream(st, false)
			}
			w.checkDead(s)
		})
	}
	sessions := m.rt.Sessions()
	m.locked(func(w *world) {
		if m.p.pending {
			w.checkPending(m.rt.Stats().Stale)
		}
		w.checkBodies()
		for _, info := range sessions {
			if info.InFlight != 0 {
				w.violate(leftInFlight, "%d of %s", info.InFlight, info.SessionID)
			}
		}
	})
}

// comeBack has the client resume each stream of a session, so that it gets
// all that there is.
func (m *machine) comeBack(s *session) {
	for _, st := range s.streams {
		resumes, healthy := false, false
		m.locked(func(w *world) {
			healthy = s.alive && !s.faulty && !s.ended && s.fencedTick == 0
			if resumes = st.cursor != "" || st.opened && st == s.streams[0]; resumes {
				m.send(&trip{what: "get", s: s, st: st, cursor: st.cursor})
			}
		})
		if !resumes {
			continue
		}
		m.advance(grace) // an empty replay is watched for a while
		if !healthy {
			m.advance(2 * m.w.cfg.budget)
		}
		m.endTrips()
		again := false
		m.locked(func(w *world) { again = w.cutShort(st) })
		if again && healthy {
			m.readOn(st)
		}
		m.locked(func(w *world) { w.checkStream(st, healthy) })
	}
}

// comeBackLater is for a session that is lost for good and has not been found
// out: its replays were empty, soon after it had been alive.
func (m *machine) comeBackLater(s *session) {
	later := false
	m.locked(func(w *world) { later = s.plain && s.fencedTick == 0 })
	if later {
		m.advance(maxSpin + time.Second)
		m.comeBack(s)
	}
}

// insist is a client that does not take no for an answer.
func (m *machine) insist(s *session) {
	m.locked(func(w *world) {
		if s.fencedTick == 0 {
			return
		}
		for _, st := range s.streams {
			if st.cursor != "" {
				m.send(&trip{what: "get", s: s, st: st, cursor: st.cursor})
			}
		}
		m.send(&trip{what: "call", s: s})
		m.send(&trip{what: "get", s: s, st: s.streams[0]})
		m.send(&trip{what: "delete", s: s})
	})
	m.endTrips()
}

// endTrips has the client give up all that it has under way.
func (m *machine) endTrips() {
	m.locked(func(w *world) {
		for _, tr := range w.unfinished() {
			if tr.body != nil {
				w.shut(tr)
			}
			w.giveUp(tr)
		}
	})
	m.advance(grace)
	m.locked(func(w *world) {
		if left := w.unfinished(); len(left) > 0 {
			w.violate(leftRunning, "trip %d goes on after its end", left[0].n)
		}
	})
}

// unfinished returns the trips whose goroutine has not ended. mu is held.
func (w *world) unfinished() (out []*trip) {
	for _, tr := range w.trips {
		if !tr.finished {
			out = append(out, tr)
		}
	}
	return out
}

// tearDown ends the client's and the server's part of the world. What is left
// in the bubble then is the middleware's.
func (m *machine) tearDown() {
	m.w.mu.Lock()
	for _, tr := range m.w.unfinished() {
		m.w.giveUp(tr)
	}
	m.w.mu.Unlock()
	// The drain of a probe's answer, which is the probe's own request.
	time.Sleep(grace)
	m.base.CloseIdleConnections()
	m.w.srv.Close()
	<-m.w.served
	synctest.Wait()
}

// newEvent makes an event that differs from others in all that a server is free
// to choose. mu is held.
func (w *world) newEvent(s *session, st *stream, shape, size int, withID bool, result string) *event {
	e := &event{n: len(w.events) + 1, s: s, st: st, shape: shape}
	w.events[e.n] = e
	switch {
	case st == nil:
		e.id = fmt.Sprintf("probe-%d", e.n)
	case withID:
		e.id = s.idOf(st, e.n)
	}
	head, key := `"method":"notifications/message",`, "params"
	if result != "" {
		head, key = `"id":`+result+`,`, "result"
	}
	e.frame(`{"jsonrpc":"2.0",`, head, fmt.Sprintf(`%q:{"n":%d,"pad":%q}}`, key, e.n, strings.Repeat("x", size)))
	return e
}

// frame puts data on the wire, which comes in pieces between which a line may
// end.
func (e *event) frame(data ...string) {
	shape := e.shape
	bit := func(n int) int {
		v := shape % n
		shape /= n
		return v
	}
	eol := []string{"\n", "\r\n", "\r"}[bit(3)]
	if e.st == nil && eol == "\r\n" {
		eol = "\r" // how the last LF of a note is handed on depends on the chunks
	}
	several, idLast, between, within, retry, tight := bit(2) == 1, bit(2) == 1, bit(2) == 1, bit(2) == 1, bit(2) == 1, bit(2) == 1
	colon := ": "
	if tight {
		colon = ":"
	}
	var lines, idLines []string
	if !several {
		data = []string{strings.Join(data, "")}
	}
	e.retry = ""
	if retry {
		e.retry = "3000"
	}
	if e.id != "" {
		idLines = append(idLines, "id"+colon+e.id)
	}
	if retry {
		idLines = append(idLines, "retry"+colon+e.retry)
	}
	for i, d := range data {
		lines = append(lines, "data"+colon+d)
		if i == 0 && within {
			lines = append(lines, ": a comment", "event"+colon+"message", "unknown")
		}
	}
	pre := ""
	if between {
		pre = ": keepalive" + eol + eol
	}
	e.bare = []byte(strings.Join(lines, eol) + eol + eol)
	if idLast {
		lines = append(lines, idLines...)
	} else {
		lines = append(idLines, lines...)
	}
	e.raw = []byte(pre + strings.Join(lines, eol) + eol + eol)
}
