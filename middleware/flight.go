package middleware

import (
	"context"
	"net/http"
	"time"
)

// flight is one request of a session, from the moment it may reach the wire
// until its answer's body has ended or was closed.
type flight struct {
	// Immutable.
	t      *Transport
	s      *session
	client *http.Request // as the client made it
	req    *http.Request // what is sent: its context ends with the flight
	cancel context.CancelCauseFunc
	sent   time.Time

	// Guarded by s.mu.
	over bool
	body failer // the answer's body once it has one

	// Here, so that an ordinary request and its answer cost no allocation.
	out   http.Request // what req points to
	plain plainBody
	said  sentBody
}

// failer is a body that a dead session ends from outside. It does not wait:
// the channel is closed once nobody reads upstream any more, nil for at once.
type failer interface {
	fail(err error) <-chan struct{}
}

// begin registers a request with its session. Where it must not be sent, the
// error is the [*SessionResumptionError] that says why, or the end of its
// context. The caller ends the flight on every path.
func (t *Transport) begin(s *session, req *http.Request) (f *flight, err error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	f = &flight{t: t, s: s, client: req, cancel: cancel, sent: time.Now(), out: *req.WithContext(ctx)}
	f.req = &f.out
	s.mu.Lock()
	defer s.mu.Unlock()
	dead, err := s.refusalLocked(ctx)
	if dead != nil || err != nil {
		cancel(nil)
		if dead != nil {
			err = dead
		}
		return nil, err
	}
	s.flights[f] = struct{}{}
	return f, nil
}

// end unregisters the flight and releases its context. It may be called often.
func (f *flight) end() {
	f.s.mu.Lock()
	over := f.over
	if !over {
		f.over = true
		delete(f.s.flights, f)
	}
	f.s.mu.Unlock()
	if !over {
		f.cancel(nil)
	}
}

// roundTrip sends req, which is the flight's own or one made from it, unless
// the session has died meanwhile.
func (f *flight) roundTrip(req *http.Request) (*http.Response, error) {
	s := f.s
	s.mu.Lock()
	dead, err := s.refusalLocked(f.req.Context())
	if dead != nil || err != nil {
		s.mu.Unlock()
		closeBody(req)
		if dead == nil {
			return nil, err
		}
		return nil, dead.with(func(e *SessionResumptionError) { e.Phase, e.OutcomeUnknown = PhaseFence, false })
	}
	s.wire++
	s.mu.Unlock()

	resp, err := f.t.cfg.Base.RoundTrip(req)
	s.arrive()
	if err != nil {
		if dead := f.aborted(); dead != nil {
			return nil, dead
		}
	}
	return resp, err
}

// depart counts a request that is about to be sent, unless the session is dead.
// Its answer, or its failure, is to arrive.
func (s *session) depart() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead != nil {
		return false
	}
	s.wire++
	return true
}

func (s *session) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire--
	if s.wire == 0 && s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// closeBody ends the answer's body, if there is one.
func (f *flight) closeBody() {
	f.s.mu.Lock()
	b, ok := f.body.(*body)
	f.s.mu.Unlock()
	if ok {
		b.closeUpstream()
	}
}

// carry makes b the body by which the flight ends. It reports false, and
// nobody will end b, if the session has died meanwhile.
func (f *flight) carry(b failer) bool {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.s.dead != nil && f.aborted() != nil {
		return false
	}
	f.body = b
	return true
}

// aborted returns why the session's death ended this flight, or nil.
func (f *flight) aborted() *SessionResumptionError {
	dead, _ := context.Cause(f.req.Context()).(*SessionResumptionError)
	return dead
}

// pass hands an answer on whose body is none of the middleware's business.
func (f *flight) pass(resp *http.Response, keep *proof) (*http.Response, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		f.end()
		return resp, nil
	}
	f.plain = plainBody{f: f, up: resp.Body, proof: keep}
	if !f.carry(&f.plain) {
		resp.Body.Close()
		f.end()
		return nil, f.aborted()
	}
	resp.Body = &f.plain
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
