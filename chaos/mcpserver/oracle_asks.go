package mcpserver

import (
	"slices"
	"time"
)

// Ask is one server-to-client request. It is pending while both Answered and
// Cancelled are zero.
type Ask struct {
	SessionID string
	// ID is its JSON-RPC id, from 1. No two of one server share it; those of
	// two servers do.
	ID     int64
	Method string
	// CallID is the JSON-RPC id of the client's call whose stream it is on, as
	// the client spelled it. "" on the standalone stream.
	CallID string
	// Stamp is the one that the request carries.
	Stamp Stamp
	At    time.Time
	// SentAgain counts the replays that the request was part of.
	SentAgain int
	Answered  time.Time // zero unless an answer was taken
	Cancelled time.Time // zero unless the server stopped to wait
	Why       Why       // of Cancelled; "" without it
}

// Answer is one POST of a client that answers a server-to-client request.
type Answer struct {
	At        time.Time
	Request   int    // the N of the HTTP request
	SessionID string // as sent
	ID        string // the JSON-RPC id, as the client spelled it
	Status    int    // what the POST gets
	// Taken is whether the request was pending, and is not any more.
	Taken bool
}

// Pending lists the session's requests for whose answer the server waits, in
// the order of their ids. It is the caller's own. A dead session has none.
func (o *Oracle) Pending(sessionID string) []Ask {
	o.settle()
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, ok := o.lives[sessionID]; ok && !o.sessions.at(n).Died.IsZero() {
		return nil // They are about to be cancelled, if they are not yet.
	}
	var found []Ask
	for id := range o.pending {
		if a := o.askLocked(id); a != nil && a.SessionID == sessionID {
			found = append(found, *a)
		}
	}
	slices.SortFunc(found, func(a, b Ask) int { return int(a.ID - b.ID) })
	return found
}

func (o *Oracle) askLocked(id int64) *Ask { return o.asks.at(int(id) - 1) }

// asked gives the request its id.
func (o *Oracle) asked(a Ask) (Ask, Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.asks.oldest(); old != nil {
		delete(o.pending, old.ID)
	}
	a.ID = int64(o.asks.next) + 1
	o.asks.add(a)
	o.pending[a.ID] = struct{}{}
	return a, Record{Kind: AskSent, At: a.At, Ask: a}
}

func (o *Oracle) askSentAgain(id int64, at time.Time) Record {
	return o.updateAsk(id, AskSentAgain, at, func(a *Ask) { a.SentAgain++ })
}

func (o *Oracle) askCancelled(id int64, at time.Time, why Why) Record {
	return o.updateAsk(id, AskCancelled, at, func(a *Ask) { a.Cancelled, a.Why = at, why })
}

// updateAsk changes what is known of an ask. One that is forgotten already
// stays so, and the record has only its id and what f knows.
func (o *Oracle) updateAsk(id int64, kind Kind, at time.Time, f func(*Ask)) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.askLocked(id)
	if a == nil {
		a = &Ask{ID: id}
	}
	f(a)
	if !a.Answered.IsZero() || !a.Cancelled.IsZero() {
		delete(o.pending, id)
	}
	return Record{Kind: kind, At: at, Ask: *a}
}

// answered records an answer. id is that of the request, or 0 if the answer
// names none that this server could have made.
func (o *Oracle) answered(id int64, answer Answer) Record {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers.add(answer)
	r := Record{At: answer.At, Answer: answer}
	switch {
	case answer.Taken:
		r.Kind = AskAnswered
	case answer.Status >= 400:
		r.Kind = AnswerRefused
	default:
		r.Kind = AnswerDropped
	}
	a := o.askLocked(id)
	if a == nil || a.SessionID != answer.SessionID {
		return r
	}
	if answer.Taken {
		a.Answered = answer.At
		delete(o.pending, id)
	}
	r.Ask = *a
	return r
}
