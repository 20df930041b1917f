package middleware

import (
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending bounds the requests of a session that are followed. Where
	// there are more, the oldest that is settled is forgotten but for its id, or
	// if none is, the oldest counts as settled.
	maxPending = 128
	// maxSettled bounds the settled requests of a session that are remembered
	// by their ids, and the calls.
	maxSettled = 1024
	// maxMetaBytes bounds what is kept of a request's _meta.
	maxMetaBytes = 4 << 10
	// staleReplays is how often a request must have been replayed after its
	// answer, with nothing else on its stream, before it can be stale.
	staleReplays = 2
)

// pendingState is how far a server-to-client request has come.
type pendingState uint8

const (
	delivered pendingState = iota // the application has it
	answered                      // the server has taken the answer, and the call is open
	lost                          // the answer was sent, and nobody knows whether it arrived
	settled                       // answered, cancelled, or its call has finished
	stale                         // the server no longer waits, and that has been said
)

// pending is one server-to-client request that the application has been given.
type pending struct {
	id     rpcID
	method string
	state  pendingState
	call   rpcID   // the client's call that it belongs to, if known
	st     *stream // that it arrived on, nil if not known

	given firstMeta  // as last delivered
	prior *firstMeta // as delivered before that, nil for a first delivery
	nth   uint64     // which delivery of the session's that was, 0: it cannot be taken back

	replied bool      // the client has sent an answer
	at      time.Time // when the server took it
	replays int       // since then, with no progress on st
	turn    uint64    // the last of them
	mark    uint64    // what st.passed was at the last of them
}

// firstMeta is `params._meta` of a request that was delivered.
type firstMeta struct {
	meta json.RawMessage
	lost bool // it was too large to be kept
}

// ledger follows a session's server-to-client requests. A request id is never
// used twice by a server within a session (MCP 2025-11-25 basic, requests), so
// one that comes again is a replay, on whatever stream.
//
// It decides and does nothing: no I/O, no hook, no clock. Nothing is locked
// inside its lock.
type ledger struct {
	// Immutable.
	policy  Pending
	grace   time.Duration
	session string

	// Read without the lock on every event and POST: whether there is anything
	// to follow in what the server sends, in what the client sends, and in what
	// of that the server refuses.
	following, awaiting, seen atomic.Bool

	mu      sync.Mutex // guards everything below
	pending map[string]*pending
	given   uint64 // deliveries so far
	order   []*pending
	settled *lru[string, struct{}] // request ids: replays are suppressed
	failed  *lru[string, []byte]   // calls that were failed, with what is still to be said to them
}

func newLedger(c *Config, session string) *ledger {
	return &ledger{policy: c.Pending, grace: c.StaleGrace, session: session}
}

// ruling is what becomes of a message.
type ruling uint8

const (
	pass     ruling = iota
	suppress        // it does not reach the application
	fail            // in its place, its call is failed
	owe             // as suppress; its call, which is another stream's, is to be failed there
)

// sighting says where and how a server-to-client request has come.
type sighting struct {
	call   rpcID   // the client's one call on the stream
	st     *stream // nil for none
	replay bool    // a reconnect has replayed it
	turn   uint64  // the same for what one response brings, 0 where that is not known
	// moot: it came together with its cancellation or with the answer of its
	// call, so that nobody waits for it.
	moot bool
	// asserted: the replay says that the server still waits.
	asserted bool
	now      time.Time

	given *delivery // is filled in for one that passes
}

// request rules on one server-to-client request. err is the
// [*StaleElicitationError] or [*UnknownPendingRequestError] of one that has
// become stale.
func (l *ledger) request(m message, at sighting) (ruling, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	if _, ok := l.settled.get(m.id.key); ok {
		return suppress, nil
	}
	if l.settled == nil {
		l.settled, l.failed = newLRU[string, struct{}](maxSettled), newLRU[string, []byte](maxSettled)
	}
	p := l.pending[m.id.key]
	_, callFailed := l.failed.get(at.call.key)
	switch {
	case p == nil && (at.moot || callFailed):
		l.settled.put(m.id.key, struct{}{})
		return suppress, nil
	case p == nil:
		p = &pending{id: m.id, method: clip(m.method), call: at.call, st: at.st, given: keepMeta(m.meta)}
		l.addLocked(p)
		if l.policy == PendingStrict && at.replay {
			p.replied = true // the application will not
			return l.failLocked(p), &UnknownPendingRequestError{
				SessionID: l.session, RequestID: clip(p.id.raw), Method: p.method, OriginRequestID: p.call.raw,
			}
		}
		l.deliverLocked(p, at.given)
		return pass, nil
	case at.moot:
		l.settleLocked(p)
		return suppress, nil
	case p.state == settled || p.state == stale:
		return suppress, nil
	}

	if l.policy == PendingStrict || p.state == lost {
		if at.asserted && !p.given.lost {
			prior := p.given
			p.state, p.replied, p.given, p.prior = delivered, false, keepMeta(m.meta), &prior
			l.deliverLocked(p, at.given)
			return pass, nil
		}
		if l.policy == PendingStrict {
			return l.staleOnLocked(at.call, p, "it was replayed without an assertion that the server still waits")
		}
		return l.staleOnLocked(at.call, p, "the answer was lost on the way")
	}
	if p.state == answered {
		if passed := p.passed(); passed != p.mark {
			p.mark, p.replays = passed, 0
		}
		if at.turn == 0 || p.turn != at.turn {
			p.turn = at.turn
			p.replays++
		}
		last, asks := l.callLocked(p.call)
		if asks {
			// The server is silent because it waits for somebody else's answer: the
			// one to a later request of the same call.
			p.replays = 0
		}
		if p.replays >= staleReplays && at.now.Sub(last) >= l.grace {
			return l.staleOnLocked(at.call, p, "the server took the answer and asks again, with no progress since")
		}
	}
	return suppress, nil
}

// callLocked returns when the server took the latest answer to a request of a
// call, and whether the application still has one of them to answer.
func (l *ledger) callLocked(call rpcID) (last time.Time, asks bool) {
	for _, p := range l.order {
		if p.call.key != call.key {
			continue
		}
		switch {
		case p.state == delivered:
			asks = true
		case p.state == answered && p.at.After(last):
			last = p.at
		}
	}
	return last, asks
}

// response notes that the server has answered a call of the client's.
func (l *ledger) response(call rpcID) ruling {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	if owed, failed := l.failed.get(call.key); failed {
		if owed == nil {
			return suppress // it has been told already
		}
		l.failed.remove(call.key)
	}
	l.finishLocked(call)
	return pass
}

// cancelled notes that the server has withdrawn a request.
func (l *ledger) cancelled(id rpcID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	if p := l.pending[id.key]; p != nil {
		l.settleLocked(p)
	}
}

// abandoned notes that the client has withdrawn a call of its own.
func (l *ledger) abandoned(call rpcID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	if _, failed := l.failed.get(call.key); failed {
		l.failed.put(call.key, nil) // and nobody waits to be told
	}
	l.finishLocked(call)
}

// deliverLocked notes in d how a delivery is taken back.
func (l *ledger) deliverLocked(p *pending, d *delivery) {
	l.given++
	if d != nil {
		*d = delivery{id: p.id, nth: l.given, prior: p.prior, before: p.nth}
	}
	p.nth = l.given
}

// undeliver takes a delivery back that the client has never read, unless the
// request has been delivered again since, or anything else has become of it.
func (l *ledger) undeliver(d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	p := l.pending[d.id.key]
	switch {
	case p == nil || d.nth == 0 || p.nth != d.nth:
	case d.prior != nil:
		p.state, p.replied, p.given, p.prior, p.nth = lost, true, *d.prior, nil, d.before
	default:
		l.removeLocked(p)
	}
}

// outcome is what became of the client's answer to a server's request.
type outcome uint8

const (
	accepted   outcome = iota
	refused            // by the server, while the session lives
	unanswered         // nobody knows
	deferred           // the client may send it again, with better credentials
)

// reply notes the client's answer to a request. known is false for a request
// that the ledger has not seen. err says that the request has become stale, st
// and call what is to be failed.
func (l *ledger) reply(id rpcID, o outcome, now time.Time) (known bool, st *stream, err *StaleElicitationError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	p := l.pending[id.key]
	if p == nil {
		_, known = l.settled.get(id.key)
		return known, nil, nil
	}
	if o == deferred {
		return true, nil, nil
	}
	p.replied, p.nth = true, 0
	if p.state != delivered && p.state != lost {
		if p.state != answered {
			l.removeLocked(p)
			l.settled.put(p.id.key, struct{}{})
		}
		return true, nil, nil
	}
	switch o {
	case accepted:
		if p.call.key == "" {
			l.settleLocked(p) // nothing will tell when it is over
			break
		}
		p.state, p.at, p.replays, p.mark = answered, now, 0, p.passed()
	case unanswered:
		p.state = lost
	case refused:
		st = p.st
		// There is nothing in whose place the call could be failed.
		_, err = l.staleOnLocked(rpcID{}, p, "the server refused the answer")
	}
	return true, st, err
}

// unsaid notes that the client has not read how its call failed.
func (l *ledger) unsaid(call rpcID, block []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.countLocked()
	if owed, failed := l.failed.get(call.key); failed && owed == nil {
		l.failed.put(call.key, block)
	}
}

// owed returns what is still to be said to a call that has failed, once.
func (l *ledger) owed(call rpcID) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	block, ok := l.failed.get(call.key)
	if ok && block != nil {
		l.failed.put(call.key, nil)
	}
	return block
}

// recall reports whether a request has come before, so that this is a replay,
// and whether it matters if that asserts its liveness; then first is what it is
// to be compared with. call is the one that it belongs to, if that is known.
func (l *ledger) recall(id rpcID) (known, asks bool, call rpcID, first json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pending[id.key]
	if p == nil {
		_, known = l.settled.get(id.key)
		return known, false, rpcID{}, nil
	}
	return true, p.state == lost || l.policy == PendingStrict && p.state < settled, p.call, p.given.meta
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, p := range l.order {
		if p.state < settled {
			n++
		}
	}
	return n
}

// staleOnLocked makes a request stale that has come on the stream of a call,
// which is the one to fail in its place if it is that request's.
func (l *ledger) staleOnLocked(call rpcID, p *pending, reason string) (ruling, *StaleElicitationError) {
	err := &StaleElicitationError{
		SessionID: l.session, RequestID: clip(p.id.raw), Method: p.method,
		OriginRequestID: p.call.raw, Reason: reason,
	}
	r := l.failLocked(p)
	if r == fail && call.key != p.call.key {
		l.failed.put(p.call.key, failure(p.call, err))
		r = owe
	}
	return r, err
}

// failLocked makes a request stale and fails its call, which settles whatever
// else that call has asked.
func (l *ledger) failLocked(p *pending) ruling {
	l.settleLocked(p)
	p.state = stale
	if p.call.raw == "" {
		return suppress
	}
	if _, ok := l.failed.get(p.call.key); ok {
		return suppress
	}
	l.failed.put(p.call.key, nil)
	l.finishLocked(p.call)
	return fail
}

func (l *ledger) finishLocked(call rpcID) {
	for i := len(l.order) - 1; i >= 0; i-- { // from the end: settling may remove
		if p := l.order[i]; p.call.key == call.key {
			l.settleLocked(p)
		}
	}
}

// settleLocked ends a request. One that the client still has to answer is kept,
// since a server may refuse that answer.
func (l *ledger) settleLocked(p *pending) {
	if p.state != stale {
		p.state = settled
	}
	p.given, p.prior, p.st, p.nth = firstMeta{}, nil, nil, 0
	if p.replied {
		l.removeLocked(p)
		l.settled.put(p.id.key, struct{}{})
	}
}

func (l *ledger) addLocked(p *pending) {
	if len(l.order) == maxPending {
		oldest := l.order[max(0, slices.IndexFunc(l.order, func(p *pending) bool { return p.state >= settled }))]
		l.removeLocked(oldest)
		l.settled.put(oldest.id.key, struct{}{})
	}
	if l.pending == nil {
		l.pending = make(map[string]*pending)
	}
	l.pending[p.id.key] = p
	l.order = append(l.order, p)
}

func (l *ledger) removeLocked(p *pending) {
	if l.pending[p.id.key] != p {
		return
	}
	delete(l.pending, p.id.key)
	l.order = slices.DeleteFunc(l.order, func(other *pending) bool { return other == p })
	if len(l.order) == 0 {
		l.pending, l.order = nil, nil
	}
}

// countLocked publishes what is asked for on every event and POST.
func (l *ledger) countLocked() {
	pending := slices.ContainsFunc(l.order, func(p *pending) bool { return p.state < settled })
	l.following.Store(pending || l.failed.len() > 0)
	l.awaiting.Store(pending)
	l.seen.Store(true)
}

func keepMeta(meta json.RawMessage) firstMeta {
	if len(meta) > maxMetaBytes {
		return firstMeta{lost: true}
	}
	return firstMeta{meta: slices.Clone(meta)}
}

func (p *pending) passed() uint64 {
	if p.st == nil {
		return 0
	}
	return p.st.passed.Load()
}
