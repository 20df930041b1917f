package middleware

import "time"

// abortTimeout bounds how long a terminal outcome waits for what a dead
// session still has in flight. A Base that honours its context needs next to
// nothing of it.
const abortTimeout = time.Second

// kill ends a session. In this order: it is fenced, what is in flight is
// cancelled, and that has returned, so that nothing that still holds the old
// id can collide with the initialize to come. Only one reason stands: kill
// returns it, which is not e where another came first. The caller has closed
// the upstream body that told it, and is not itself on the wire. self is its
// flight, nil for none, which is left to it.
func (t *Transport) kill(s *session, e *SessionResumptionError, self *flight) *SessionResumptionError {
	s.mu.Lock()
	if s.dead != nil {
		dead := s.dead
		s.mu.Unlock()
		<-s.over
		return dead
	}
	var victims []*flight
	var bodies []failer
	for f := range s.flights {
		if f == self {
			continue
		}
		victims = append(victims, f)
		if f.body != nil {
			bodies = append(bodies, f.body)
		}
		if isCall(f.req) {
			e.OutcomeUnknown = true
		}
	}
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
	for _, r := range []*round{running, next} {
		if r != nil {
			r.cancel()
		}
	}
	returned := make([]<-chan struct{}, 0, len(bodies)+1)
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
