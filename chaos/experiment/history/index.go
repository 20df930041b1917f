package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// index is a History made fit for looking things up. It is nobody's but one
// count's.
type index struct {
	*History
	lives map[string][]Session // of each id, by their beginning
	bySeq map[int]int          // events, by the number of their stamp
	byID  map[string]int       // events, by what a cursor names: one server's ids are unique
	asks  map[int]int          // asks, by the number of their stamp
	owner map[string]int       // clients, by the sessions that they began
}

func newIndex(h *History) *index {
	x := &index{
		History: h, lives: map[string][]Session{}, bySeq: map[int]int{}, byID: map[string]int{},
		asks: map[int]int{}, owner: map[string]int{},
	}
	for _, s := range h.Oracle.Sessions {
		x.lives[s.ID] = append(x.lives[s.ID], s)
	}
	for _, lives := range x.lives {
		slices.SortStableFunc(lives, func(a, b Session) int { return cmp.Compare(a.Created, b.Created) })
	}
	for i, e := range h.Oracle.Events {
		if e.Stamp.Seq > 0 {
			x.bySeq[e.Stamp.Seq] = i
		}
		x.byID[e.ID] = i
	}
	for i, a := range h.Oracle.Asks {
		x.asks[a.Stamp.Seq] = i
	}
	for i, c := range h.Clients {
		for _, b := range c.Began {
			x.owner[b.Session] = i
		}
	}
	return x
}

// life is the one that a session had at a moment, or had last before it.
func (x *index) life(session string, at time.Duration) (Session, bool) {
	var found Session
	ok := false
	for _, s := range x.lives[session] {
		if s.Created <= at {
			found, ok = s, true
		}
	}
	return found, ok
}

// aliveAt is whether a session lived at a moment. A session that two replicas
// have, each a life of its own, lives as long as one of them.
func (x *index) aliveAt(session string, at time.Duration) bool {
	return slices.ContainsFunc(x.lives[session], func(s Session) bool {
		return s.Created <= at && (s.Died == nil || at < *s.Died)
	})
}

// hasDied is whether a session has died, be it that it lives again.
func (x *index) hasDied(session string) bool {
	return slices.ContainsFunc(x.lives[session], func(s Session) bool { return s.Died != nil })
}

// deadAt is whether a session had lived, and did not any more, at a moment.
func (x *index) deadAt(session string, at time.Duration) bool {
	_, lived := x.life(session, at)
	return lived && !x.aliveAt(session, at)
}

// event is what the oracle has stored of a message with a stamp.
func (x *index) event(seq int) (Event, bool) {
	i, ok := x.bySeq[seq]
	if !ok {
		return Event{}, false
	}
	return x.Oracle.Events[i], true
}

// handed is a message of the server's that was handed to an application.
type handed struct {
	at     time.Duration
	seq    int
	what   handedKind
	client int
}

type handedKind uint8

const (
	handedNotification handedKind = iota
	handedPrompt
	handedResult
)

// handedTo is all that an application was handed, in no order.
func (x *index) handedTo(i int) []handed {
	var all []handed
	c := &x.Clients[i]
	for _, a := range c.Applied {
		all = append(all, handed{a.At, a.Stamp.Seq, handedNotification, i})
	}
	for _, p := range c.Prompts {
		all = append(all, handed{p.At, p.Stamp.Seq, handedPrompt, i})
	}
	for _, k := range c.Calls {
		if k.Ended != nil && k.Stamp.Seq > 0 {
			all = append(all, handed{*k.Ended, k.Stamp.Seq, handedResult, i})
		}
	}
	return all
}

// bearers is what has brought each event to a client, by the event's id.
type bearers map[string][]bearer

type bearer struct {
	at       time.Duration // when the event was read
	exchange *Exchange
}

// bearersOf is what has brought its events to a client.
func (x *index) bearersOf(i int) bearers {
	found := bearers{}
	c := &x.Clients[i]
	for n := range c.Exchanges {
		for _, d := range c.Exchanges[n].Delivered {
			found[d.ID] = append(found[d.ID], bearer{d.At, &c.Exchanges[n]})
		}
	}
	return found
}

// of is what has brought an event that was handed on at a moment: the latest by
// then.
func (b bearers) of(e Event, at time.Duration) (found bearer, ok bool) {
	for _, one := range b[e.ID] {
		if one.at <= at && (!ok || one.at >= found.at) {
			found, ok = one, true
		}
	}
	return found, ok
}

// replays is whether the exchange set out after the event was stored, which only
// a reconnect can have done.
func (b bearer) replays(e Event) bool {
	return b.exchange.At >= e.At
}

// harmful is whether what was handed on is a dead session's event, by the rule in
// the package comment.
func (x *index) harmful(h handed, by bearers) bool {
	e, ok := x.event(h.seq)
	if !ok {
		return false
	}
	life, ok := x.life(e.Session, e.At)
	if !ok || life.Died == nil || h.at < *life.Died {
		return false
	}
	if e.At >= *life.Died {
		return true
	}
	b, ok := by.of(e, h.at)
	return ok && b.replays(e)
}

// wire is whether the exchange was seen below the middleware.
func (x *Exchange) wire() bool { return x.Layer == client.Wire }

// until is when an exchange was over, or the end of the run.
func (x *Exchange) until(end time.Duration) time.Duration {
	if x.Over != nil {
		return *x.Over
	}
	return end
}
