package middleware

import (
	"context"
	"slices"
	"time"
)

// abortTimeout bounds how long a terminal outcome waits for what a dead
// session still has in flight. A Base that honours its context needs next to
// nothing of it.
const abortTimeout = time.Second

// kill ends a session. In this order: it is fenced, what is in flight is
// cancelled, and that has returned, so that nothing that still holds the old
// id can collide with the initialize to come. Only one reason stands: kill
// returns it, which is not e where another came first. The caller has closed
// the upstream body that told it, and is not itself on the wire: it is the
// flight self, or the round by on behalf of those that have joined it, the
// other being nil. These are left to themselves.
func (t *Transport) kill(s *session, e *SessionResumptionError, self *flight, by *round) *SessionResumptionError {
	s.mu.Lock()
	if s.dead != nil {
		dead := s.dead
		waits := by == nil && (self == nil || self.body == nil)
		s.mu.Unlock()
		// Who came first waits for rounds, and for a reader.
		if waits {
			<-s.over
		}
		return dead
	}
	var victims []*flight
	var bodies []failer
	for f := range s.flights {
		if f == self {
			continue
		}
		if isCall(f.req) {
			e.OutcomeUnknown = true
		}
		if by != nil && slices.Contains(by.flights, f) {
			continue
		}
		victims = append(victims, f)
		if f.body != nil {
			bodies = append(bodies, f.body)
		}
	}
	e.calls = s.cursorsLocked()
	s.dead = e
	if s.wire > 0 {
		s.drained = make(chan struct{})
	}
	drained, running, next := s.drained, s.running, s.next
	s.mu.Unlock()

	t.fence(s, e)
	// Whoever was in flight cannot know what became of it.
	lost := e.with(func(e *SessionResumptionError) {
		e.OutcomeUnknown, e.Quarantined, e.QuarantinedEvents = true, nil, 0
	})
	for _, f := range victims {
		f.cancel(lost)
	}
	returned := make([]<-chan struct{}, 0, len(bodies)+2)
	if next != nil {
		next.cancel()
	}
	if running != nil && running != by {
		running.cancel()
		returned = append(returned, running.done)
	}
	for _, b := range bodies {
		returned = append(returned, b.fail(lost))
	}
	waitAll(append(returned, drained))
	t.counters.dead.Add(1)
	t.observe(Event{
		Kind: SessionDead, SessionID: s.key.id, LastEventID: e.LastEventID,
		Verdict: e.Verdict, StatusCode: e.StatusCode, Err: e,
	})
	close(s.over)
	return e
}

// doom is called when a probe has found a session dead, before the session is
// killed: a request that comes while the last of a replay is recorded waits,
// and is then refused.
func (s *session) doom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doomed = true
}

// refusalLocked returns why the session's requests must not be sent, nil if they may.
// err is the end of ctx, while a session that is doomed is not dead yet.
func (s *session) refusalLocked(ctx context.Context) (dead *SessionResumptionError, err error) {
	for s.doomed && s.dead == nil {
		s.mu.Unlock()
		select {
		case <-s.over:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	return s.dead, nil
}

// waitAll waits until every channel is closed, a nil one being so already, or
// abortTimeout is over.
func waitAll(closed []<-chan struct{}) {
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	for _, c := range closed {
		if c == nil {
			continue
		}
		select {
		case <-c:
		case <-timer.C:
			return
		}
	}
}

// retire fences a session that the client itself has ended. What it still has
// open is its own to close.
func (t *Transport) retire(s *session, status int) {
	e := &SessionResumptionError{
		SessionID: s.key.id, Phase: PhaseRequest, Verdict: Dead, StatusCode: status,
		Err: ErrSessionDead, Detail: "the client ended it with DELETE",
	}
	s.mu.Lock()
	first := s.dead == nil
	if first {
		s.dead = e
	}
	s.mu.Unlock()
	if first {
		t.fence(s, e)
		close(s.over)
	}
}

// fence moves a session from the table of those that are known to the table of
// those that are refused.
func (t *Transport) fence(s *session, e *SessionResumptionError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fences.put(s.key, e)
	if current, ok := t.sessions.get(s.key); ok && current == s {
		t.sessions.remove(s.key)
	}
}
