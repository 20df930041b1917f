package mcpserver

import (
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"
)

// asks holds the server-to-client requests for which somebody waits, be it that
// no answer can come any more.
type asks struct {
	oracle *Oracle

	mu        sync.Mutex
	bySession map[string]map[int64]*ask
}

// ask is one of them. What brings it to an end claims it first: there is one
// outcome.
type ask struct {
	// Immutable.
	Ask
	inner string // the inner session whose stream it is on
	token string // of the first sending, or ""
	// settled is closed by who has claimed the ask.
	settled chan struct{}
	// gone is closed by asks.release: nobody can reach the call any more.
	gone chan struct{}

	// Written before settled is closed, not after.
	reply json.RawMessage // the client's message; nil if it was cancelled
	why   Why             // of the cancellation; "" if it was answered

	// Guarded by asks.mu.
	claimed  bool
	released bool
}

func newAsks(oracle *Oracle) *asks {
	return &asks{oracle: oracle, bySession: make(map[string]map[int64]*ask)}
}

// begin makes an ask that is pending, until finish. It has not been sent.
func (x *asks) begin(a Ask, inner string, withToken bool) *ask {
	a.At = time.Now()
	asked, sent := x.oracle.asked(a)
	p := &ask{Ask: asked, inner: inner, settled: make(chan struct{}), gone: make(chan struct{})}
	if withToken {
		p.token = rand.Text()
	}
	x.mu.Lock()
	if x.bySession[a.SessionID] == nil {
		x.bySession[a.SessionID] = make(map[int64]*ask)
	}
	x.bySession[a.SessionID][p.ID] = p
	x.mu.Unlock()
	x.oracle.tell(sent)
	return p
}

// finish is for who began it, and waits no longer.
func (x *asks) finish(p *ask) {
	x.cancel(p.SessionID, WhyAsker, func(q *ask) bool { return q == p })
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.bySession[p.SessionID], p.ID)
	if len(x.bySession[p.SessionID]) == 0 {
		delete(x.bySession, p.SessionID)
	}
}

// pending is the ask with that id if it is pending, or nil.
func (x *asks) pending(session string, id int64) *ask {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.bySession[session][id]; p != nil && !p.claimed {
		return p
	}
	return nil
}

// claim takes the asks that are still pending of those that match. The caller
// settles every one of them.
func (x *asks) claim(session string, match func(*ask) bool) []*ask {
	x.mu.Lock()
	defer x.mu.Unlock()
	var claimed []*ask
	for _, p := range x.bySession[session] {
		if !p.claimed && match(p) {
			p.claimed = true
			claimed = append(claimed, p)
		}
	}
	return claimed
}

// answer settles an ask with the client's message. It reports false if the ask
// is not pending any more.
func (x *asks) answer(p *ask, reply json.RawMessage, answer Answer) bool {
	if len(x.claim(p.SessionID, func(q *ask) bool { return q == p })) == 0 {
		return false
	}
	x.oracle.tell(x.oracle.answered(p.ID, answer))
	p.reply = reply
	close(p.settled)
	return true
}

// cancel settles the asks of a session that match: the server waits for them no
// longer.
func (x *asks) cancel(session string, why Why, match func(*ask) bool) {
	for _, p := range x.claim(session, match) {
		x.oracle.tell(x.oracle.askCancelled(p.ID, time.Now(), why))
		p.why = why
		close(p.settled)
	}
}

// release lets go of what asks on an inner session, whatever it waits for:
// nothing that it says can reach a client any more.
func (x *asks) release(inner string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.bySession[sessionOf(inner)] {
		if p.inner == inner && !p.released {
			p.released = true
			close(p.gone)
		}
	}
}

func all(*ask) bool { return true }

func on(inner string) func(*ask) bool { return func(p *ask) bool { return p.inner == inner } }
