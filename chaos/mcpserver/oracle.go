package mcpserver

import (
	"sync"
	"time"
)

// oracleLimit bounds what the oracle remembers of each kind.
const oracleLimit = 100_000

// Why a session died, or the server stopped to wait for an answer.
type Why string

const (
	// WhyExpired: SessionTTL ran out.
	WhyExpired Why = "expired"
	// WhyDeleted: the client sent DELETE.
	WhyDeleted Why = "deleted"
	// WhyReaped: [Server.Reap], or [Rule.ReapAfterReplay].
	WhyReaped Why = "reaped"
	// WhyRestarted: [Server.Restart].
	WhyRestarted Why = "restarted"
	// WhyBroken: the stream of the server-to-client request broke, and
	// [Config.OnBreak] says that this ends it.
	WhyBroken Why = "broken"
	// WhySession: the session of the server-to-client request died.
	WhySession Why = "session"
	// WhyAsker: who asked gave up. The client cancelled the call, the context
	// of [Server.Ask] ended, or the server did.
	WhyAsker Why = "asker"
)

// Session is one session's life. An id that was adopted has one for each of its
// lives: what was stored before the later one began is the earlier one's.
type Session struct {
	ID      string
	Created time.Time
	Died    time.Time // zero while it lives
	Why     Why       // "" while it lives
	Replica int       // of a [Cluster]: which one made it, from 0
	Adopted bool      // a client brought the id: see [UnknownAdopt]
}

// Event is one message in the event log.
type Event struct {
	Stamp        Stamp // zero for a message without one: an error response
	SessionID    string
	EventID      string // what Last-Event-ID names
	StreamID     string
	At           time.Time
	SessionAlive bool // when the event was stored
}

// Request is one HTTP request to the server's endpoint.
type Request struct {
	N            int // from 1, by arrival
	At           time.Time
	Method       string // of HTTP
	RPC          string // method of a POST's JSON-RPC message; "response" for an answer to the server; "" if neither
	SessionID    string // as sent; for initialize, the session that it made
	LastEventID  string
	SessionAlive bool      // at arrival, before this request refreshed it, for the replica that it came to
	Status       int       // 0 until the answer begins, and if it never does
	Ended        time.Time // zero until the answer is complete or broken off

	Replica    int    // of a [Cluster]: which one it came to, from 0
	Cookie     string // the value of [Config.Cookie]'s cookie, as sent
	Rule       int    // the rule that was applied to it: see [Rule]; 0: none
	AnsweredAs string // another session's id, in whose name it was answered: see [UnknownReplace]
	Replayed   int    // how many events the replay had that it was given
}

// Kind is what a [Record] is about.
type Kind uint8

const (
	SessionCreated Kind = iota + 1
	SessionDied
	EventStored
	RequestArrived
	RequestAnswered // the status is known; a stream goes on from here
	RequestEnded
	AskSent       // a server-to-client request is about to be stored and sent
	AskSentAgain  // a replay is about to send it
	AskAnswered   // an answer to it was taken: its POST is about to get 202
	AskCancelled  // the server waits for it no longer
	AnswerRefused // an answer was not taken: its POST is about to get 400 or more
	AnswerDropped // an answer was not taken, but its POST is about to get a 2xx
	// A replay, maybe of no event, has been written, and nothing after it yet.
	RequestReplayed
)

// Record is one thing that the oracle has recorded.
type Record struct {
	Kind    Kind
	At      time.Time
	Session Session // of SessionCreated and SessionDied
	Event   Event   // of EventStored
	Request Request // of RequestArrived, RequestAnswered, RequestReplayed and RequestEnded
	Ask     Ask     // of all from AskSent on; zero if the answer is to nothing that was asked
	Answer  Answer  // of AskAnswered, AnswerRefused and AnswerDropped
}

// History is what the oracle remembers, oldest first. It is the caller's own.
type History struct {
	Sessions []Session
	Events   []Event
	Requests []Request
	Asks     []Ask
	Answers  []Answer
	// Dropped is how many of them are missing, because the oracle remembers the
	// latest 100,000 of each. A count over an incomplete History is worth nothing.
	Dropped int
}

// Oracle knows what really happened at a [Server], or at all replicas of a
// [Cluster]. Its methods may be called at any time, also after the server's end.
type Oracle struct {
	// Immutable after New.
	observe func(Record) // may be nil
	settle  func()       // lets the deaths that are due happen

	mu       sync.Mutex
	seq      int            // of the latest stamp
	lives    map[string]int // session id → its number in sessions
	sessions ring[Session]
	events   ring[Event]
	requests ring[Request] // that with the number N stands at N-1
	asks     ring[Ask]     // that with the ID N stands at N-1
	answers  ring[Answer]
	pending  map[int64]struct{} // the IDs of those asks
}

func newOracle(observe func(Record), settle func()) *Oracle {
	return &Oracle{observe: observe, settle: settle, lives: make(map[string]int), pending: make(map[int64]struct{})}
}

// History returns what has happened so far.
func (o *Oracle) History() History {
	o.settle()
	o.mu.Lock()
	defer o.mu.Unlock()
	return History{
		Sessions: o.sessions.snapshot(),
		Events:   o.events.snapshot(),
		Requests: o.requests.snapshot(),
		Asks:     o.asks.snapshot(),
		Answers:  o.answers.snapshot(),
		Dropped: o.sessions.dropped() + o.events.dropped() + o.requests.dropped() +
			o.asks.dropped() + o.answers.dropped(),
	}
}

// DiedAt says when a session died. It reports false for one that lives, be it
// again, and for one that it does not know.
func (o *Oracle) DiedAt(sessionID string) (time.Time, bool) {
	o.settle()
	o.mu.Lock()
	defer o.mu.Unlock()
	n, ok := o.lives[sessionID]
	if !ok {
		return time.Time{}, false
	}
	died := o.sessions.at(n).Died
	return died, !died.IsZero()
}

// tell hands a record to the observer. No lock of this package may be held.
func (o *Oracle) tell(r Record) {
	if o.observe != nil {
		o.observe(r)
	}
}

// The methods below record, and return what is to be told after the caller has
// let go of its own locks.

func (o *Oracle) stamp(session string) Stamp {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seq++
	return Stamp{Session: session, Seq: o.seq}
}

func (o *Oracle) sessionCreated(s Session) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.sessions.oldest(); old != nil && o.lives[old.ID] == o.sessions.dropped() {
		delete(o.lives, old.ID) // It has not been adopted since.
	}
	o.lives[s.ID] = o.sessions.add(s)
	return Record{Kind: SessionCreated, At: s.Created, Session: s}
}

func (o *Oracle) sessionDied(id string, at time.Time, why Why) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &Session{ID: id} // forgotten already
	if n, ok := o.lives[id]; ok {
		s = o.sessions.at(n)
	}
	s.Died, s.Why = at, why
	return Record{Kind: SessionDied, At: at, Session: *s}
}

func (o *Oracle) eventStored(e Event) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events.add(e)
	return Record{Kind: EventStored, At: e.At, Event: e}
}

// requestArrived gives the request its number. Nobody is told yet: what the
// request is about stands in its body.
func (o *Oracle) requestArrived(r Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.N = o.requests.next + 1
	o.requests.add(r)
	return r.N
}

// updateRequest changes what is known of a request. A request that is forgotten
// already stays so, and the record has only its number and what f knows.
func (o *Oracle) updateRequest(n int, kind Kind, at time.Time, f func(*Request)) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.requests.at(n - 1)
	if r == nil {
		r = &Request{N: n}
	}
	f(r)
	return Record{Kind: kind, At: at, Request: *r}
}

// ring keeps the latest oracleLimit values. The zero ring is empty.
type ring[T any] struct {
	buf  []T
	next int // how many were ever added; the number of the next
}

// add returns the number of what it adds, from 0.
func (r *ring[T]) add(v T) int {
	if len(r.buf) < oracleLimit {
		r.buf = append(r.buf, v)
	} else {
		r.buf[r.next%oracleLimit] = v
	}
	r.next++
	return r.next - 1
}

// oldest is what the next add pushes out, or nil.
func (r *ring[T]) oldest() *T {
	if len(r.buf) < oracleLimit {
		return nil
	}
	return &r.buf[r.next%oracleLimit]
}

// at is the value with that number, or nil if it is dropped.
func (r *ring[T]) at(n int) *T {
	if n < r.dropped() || n >= r.next {
		return nil
	}
	return &r.buf[n%oracleLimit]
}

func (r *ring[T]) dropped() int { return r.next - len(r.buf) }

func (r *ring[T]) snapshot() []T {
	var all []T
	for n := r.dropped(); n < r.next; n++ {
		all = append(all, *r.at(n))
	}
	return all
}
