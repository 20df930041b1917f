package demo

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Recording is what was seen of one arm, by everyone who saw something.
type Recording struct {
	// Server is what the oracle knows: the truth.
	Server mcpserver.History
	// Balancer is what the load balancer did.
	Balancer []lb.Event
	// Guard is what the middleware decided, nil in the control arm.
	Guard []middleware.Event

	// What the application saw, each oldest first.
	Sessions []Session
	Applied  []Applied
	Prompts  []Prompt
	Calls    []Call
}

// Session is one session as the application had it.
type Session struct {
	ID    string
	Began time.Time // before initialize was sent
	// Ended is when the client told the application that the session is over,
	// zero if it did not, and Err is what it said.
	Ended time.Time
	Err   error
	// Reason is what the middleware says of it at that moment.
	Reason error
}

// Applied is one event that was handed to the application.
type Applied struct {
	Stamp mcpserver.Stamp // zero: the server's stamp was missing
	At    time.Time
}

// Prompt is one question that was put to the person before the application.
type Prompt struct {
	Stamp mcpserver.Stamp // of the server's request; zero: it was missing
	At    time.Time
}

// Call is one tool call of the application.
type Call struct {
	Tool      string
	SessionID string
	Start     time.Time
	End       time.Time // zero if it was open when the application left
	Err       error
	Reason    error // what the middleware says of the session after it
}

// died is when a session died, zero if it lives, and why.
func (r *Recording) died(sessionID string) (time.Time, mcpserver.Why) {
	for _, s := range r.Server.Sessions {
		if s.ID == sessionID {
			return s.Died, s.Why
		}
	}
	return time.Time{}, ""
}

// cut is when the load balancer cut the standalone stream of a session that was
// idle, the first time, or zero.
func (r *Recording) cut(s Session) time.Time {
	for _, e := range r.cuts(s) {
		if e.Method == http.MethodGet {
			return e.At
		}
	}
	return time.Time{}
}

// cuts is the cuts of idle streams since a session began.
func (r *Recording) cuts(s Session) []lb.Event {
	var cuts []lb.Event
	for _, e := range r.Balancer {
		if e.Kind == lb.Cut && errors.Is(e.Err, lb.ErrIdle) && !e.At.Before(s.Began) {
			cuts = append(cuts, e)
		}
	}
	return cuts
}

// reconnect is the first GET of a session that resumes its stream.
func (r *Recording) reconnect(s Session) (mcpserver.Request, bool) {
	if all := r.reconnects(s); len(all) > 0 {
		return all[0], true
	}
	return mcpserver.Request{}, false
}

// reconnects is the GETs of a session that resume a stream.
func (r *Recording) reconnects(s Session) []mcpserver.Request {
	var all []mcpserver.Request
	for _, q := range r.Server.Requests {
		if q.Method == http.MethodGet && q.SessionID == s.ID && q.LastEventID != "" {
			all = append(all, q)
		}
	}
	return all
}

// missed is the events of a session that were logged between two moments.
func (r *Recording) missed(s Session, from, to time.Time) []mcpserver.Event {
	var missed []mcpserver.Event
	for _, e := range r.Server.Events {
		if e.SessionID == s.ID && !e.At.Before(from) && e.At.Before(to) {
			missed = append(missed, e)
		}
	}
	return missed
}

// applied is the stamps of a session's events that were handed on, in order.
func (r *Recording) applied(sessionID string) []mcpserver.Stamp {
	var stamps []mcpserver.Stamp
	for _, a := range r.Applied {
		if a.Stamp.Session == sessionID {
			stamps = append(stamps, a.Stamp)
		}
	}
	return stamps
}

// guard is the first thing of one kind that the middleware did to a session,
// after a moment.
func (r *Recording) guard(kind middleware.Kind, sessionID string, after time.Time) (middleware.Event, bool) {
	for _, e := range r.Guard {
		if e.Kind == kind && e.SessionID == sessionID && !e.Time.Before(after) {
			return e, true
		}
	}
	return middleware.Event{}, false
}

// session is the application's n-th session, from 0.
func (r *Recording) session(n int) (Session, bool) {
	if n < 0 || n >= len(r.Sessions) {
		return Session{}, false
	}
	return r.Sessions[n], true
}

// eventID is the event id under which a message was logged.
func (r *Recording) eventID(stamp mcpserver.Stamp) string {
	for _, e := range r.Server.Events {
		if e.Stamp == stamp {
			return e.EventID
		}
	}
	return "?"
}

// eventIDs names some events: "event 2", "events 2 and 3", "events 2 to 4".
func (r *Recording) eventIDs(stamps []mcpserver.Stamp) string {
	if len(stamps) == 0 {
		return "no event"
	}
	first, last := r.eventID(stamps[0]), r.eventID(stamps[len(stamps)-1])
	switch len(stamps) {
	case 1:
		return "event " + first
	case 2:
		return "events " + first + " and " + last
	}
	return "events " + first + " to " + last
}

// recorder makes a Recording. Its methods may be called from any goroutine.
type recorder struct {
	oracle *mcpserver.Oracle // set before anything is recorded

	mu      sync.Mutex
	rec     Recording     // Server is not kept: the oracle has it
	changed chan struct{} // closed, and replaced, by each change
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

// add records something by changing the Recording.
func (r *recorder) add(change func(*Recording)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.rec)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) server(mcpserver.Record) { r.add(func(*Recording) {}) }
func (r *recorder) balancer(e lb.Event) {
	r.add(func(rec *Recording) { rec.Balancer = append(rec.Balancer, e) })
}
func (r *recorder) guard(e middleware.Event) {
	r.add(func(rec *Recording) { rec.Guard = append(rec.Guard, e) })
}
func (r *recorder) began(s Session) {
	r.add(func(rec *Recording) { rec.Sessions = append(rec.Sessions, s) })
}
func (r *recorder) applied(a Applied) {
	r.add(func(rec *Recording) { rec.Applied = append(rec.Applied, a) })
}
func (r *recorder) prompted(p Prompt) {
	r.add(func(rec *Recording) { rec.Prompts = append(rec.Prompts, p) })
}

// calling records a call that begins, and returns its number, from 0.
func (r *recorder) calling(c Call) (n int) {
	r.add(func(rec *Recording) {
		n = len(rec.Calls)
		rec.Calls = append(rec.Calls, c)
	})
	return n
}
func (r *recorder) called(n int, end time.Time, err, reason error) {
	r.add(func(rec *Recording) {
		c := &rec.Calls[n]
		c.End, c.Err, c.Reason = end, err, reason
	})
}
func (r *recorder) ended(id string, e Session) {
	r.add(func(rec *Recording) {
		for i := range rec.Sessions {
			if s := &rec.Sessions[i]; s.ID == id {
				s.Ended, s.Err, s.Reason = e.Ended, e.Err, e.Reason
			}
		}
	})
}

// recording is what was recorded so far, and a channel that is closed when
// there is more. It is the caller's own.
func (r *recorder) recording() (*Recording, <-chan struct{}) {
	r.mu.Lock()
	rec, changed := r.rec, r.changed
	rec.Balancer = slices.Clone(rec.Balancer)
	rec.Guard = slices.Clone(rec.Guard)
	rec.Sessions = slices.Clone(rec.Sessions)
	rec.Applied = slices.Clone(rec.Applied)
	rec.Prompts = slices.Clone(rec.Prompts)
	rec.Calls = slices.Clone(rec.Calls)
	r.mu.Unlock()
	// Asked without the lock: the oracle may tell the recorder something.
	rec.Server = r.oracle.History()
	return &rec, changed
}

// until waits until cond is true of what was recorded, and returns it. It gives
// up with its context.
func (r *recorder) until(ctx context.Context, cond func(*Recording) bool) (*Recording, error) {
	for {
		rec, changed := r.recording()
		if cond(rec) {
			return rec, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return rec, context.Cause(ctx)
		}
	}
}
