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

// Call is one tool call of the application.
type Call struct {
	SessionID  string
	Start, End time.Time
	Err        error
	Reason     error // what the middleware says of the session after it
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

// cut is when the load balancer cut the stream of a session that was idle, the
// first time, or zero.
func (r *Recording) cut(s Session) time.Time {
	for _, e := range r.Balancer {
		if e.Kind == lb.Cut && e.Method == http.MethodGet && errors.Is(e.Err, lb.ErrIdle) && !e.At.Before(s.Began) {
			return e.At
		}
	}
	return time.Time{}
}

// reconnect is the first GET of a session that resumes its stream.
func (r *Recording) reconnect(s Session) (mcpserver.Request, bool) {
	for _, q := range r.Server.Requests {
		if q.Method == http.MethodGet && q.SessionID == s.ID && q.LastEventID != "" {
			return q, true
		}
	}
	return mcpserver.Request{}, false
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
func (r *recorder) called(c Call) { r.add(func(rec *Recording) { rec.Calls = append(rec.Calls, c) }) }
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
