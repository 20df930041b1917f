package middleware

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const (
	// gatherTimeout bounds how long a probe waits for other streams of the
	// session that are reconnecting at the same moment, so that one probe
	// serves them all. A stream that reconnects alone waits for nothing.
	gatherTimeout = 25 * time.Millisecond

	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// round is one probe with all its attempts, on behalf of every reconnect whose
// replay had opened before it was sent: an earlier answer says nothing about a
// later replay.
type round struct {
	// Immutable after join.
	from    *http.Request
	cookies []string // Set-Cookie of the answer that opened the replay
	ctx     context.Context
	cancel  context.CancelFunc

	// Guarded by the session's mu.
	waiters int
	extra   []byte    // what came with probes up to this one, if that was Live
	flights []*flight // that have joined
	held    []*body   // nobody joins once the round has begun

	done   chan struct{} // closed when answer stands, by probeRounds
	answer answer
}

// join has the session probed for one reconnect, and returns the round that
// will tell. b is what is held, nil for nothing. The caller leaves the round.
func (t *Transport) join(f *flight, cookies []string, b *body) *round {
	s, from := f.s, f.client
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next
	if r == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(from.Context()))
		r = &round{from: from, cookies: cookies, ctx: ctx, cancel: cancel, done: make(chan struct{})}
		s.next = r
		if !s.probing {
			s.probing = true
			go t.probeRounds(s)
		}
	}
	r.waiters++
	r.flights = append(r.flights, f)
	if b != nil {
		r.held = append(r.held, b)
	}
	return r
}

// leave is called once by each who joined. A round that nobody waits for is
// cancelled.
func (r *round) leave(s *session) {
	s.mu.Lock()
	r.waiters--
	last := r.waiters == 0
	if last { // what nobody took waits for the next Live
		s.extra, r.extra = append(r.extra, s.extra...), nil
	}
	if last && s.next == r {
		s.next = nil // the next to come needs one that is not cancelled
	}
	s.mu.Unlock()
	if last {
		r.cancel()
	}
}

// keepExtra keeps what else came with a probe's answer until a round is Live, a
// bounded amount of it.
func (s *session) keepExtra(extra []byte, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.extra)+len(extra) <= most {
		s.extra = append(s.extra, extra...)
	}
}

// takeExtra returns what has been kept for those who joined a round that is
// Live, to the first who asks. What comes with a later probe waits for that
// one's verdict.
func (r *round) takeExtra(s *session) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	extra := r.extra
	r.extra = nil
	return extra
}

// probeRounds runs a session's rounds, one after the other, until none waits.
func (t *Transport) probeRounds(s *session) {
	for {
		s.mu.Lock()
		var others chan struct{}
		if s.next != nil && s.opening > 0 {
			if s.opened == nil {
				s.opened = make(chan struct{})
			}
			others = s.opened
		}
		next := s.next
		s.mu.Unlock()
		if others != nil {
			timer := time.NewTimer(gatherTimeout)
			select {
			case <-others:
			case <-timer.C:
			case <-next.ctx.Done():
			}
			timer.Stop()
		}

		s.mu.Lock()
		r := s.next
		s.next = nil
		if r == nil || s.dead != nil {
			s.probing = false
			s.mu.Unlock()
			if r != nil {
				close(r.done)
			}
			return
		}
		s.running = r
		s.mu.Unlock()

		settle := t.run(s, r)

		s.mu.Lock()
		s.running = nil
		more := s.next != nil
		s.mu.Unlock()
		close(r.done)
		if more {
			r.cancel() // a connection less is better than a wait
		}
		settle()
		r.cancel()
	}
}

// run sends a round's probe, again where that can help and the budget lasts,
// and fills in its answer. settle gives the last attempt's connection back.
func (t *Transport) run(s *session, r *round) (settle func()) {
	deadline := time.Now().Add(t.cfg.ProbeBudget)
	ctx, cancel := context.WithDeadline(r.ctx, deadline)
	var a answer
	var last func() // settles the last attempt
	for attempt := 1; ; attempt++ {
		sent := time.Now()
		t.observe(Event{Kind: ProbeSent, SessionID: s.key.id, Attempt: attempt})
		a, last = t.probeOnce(ctx, s, r.from, r.cookies)
		t.observe(Event{
			Kind: ProbeAnswered, SessionID: s.key.id, Attempt: attempt, Verdict: a.verdict,
			StatusCode: a.status, Duration: time.Since(sent), Err: a.err,
		})
		s.keepExtra(a.extra, t.cfg.MaxHeldBytes)
		if a.verdict == Live {
			s.live(sent)
		}
		wait := max(backoff(attempt), a.after)
		if a.verdict != Ambiguous || !a.retry || !time.Now().Add(wait).Before(deadline) {
			break
		}
		last()
		if !sleep(ctx, wait) {
			last = func() {}
			break
		}
	}
	a.extra, a.probed = nil, true
	r.answer = a
	s.mu.Lock()
	held := slices.Clone(r.held)
	if a.verdict == Live && r.waiters > 0 {
		r.extra, s.extra = s.extra, nil
	}
	extra := len(r.extra) > 0
	s.mu.Unlock()
	if a.verdict == Dead {
		s.doom()
	}
	if a.verdict != Live || extra { // what else there is comes after the held events
		catchUp(ctx, held)
	}
	if a.verdict == Dead {
		for _, b := range held {
			b.closeUpstream()
		}
		t.kill(s, &SessionResumptionError{
			SessionID: s.key.id, LastEventID: r.from.Header.Get(lastEventIDHeader), Phase: PhaseProbe,
			Verdict: Dead, StatusCode: a.status, ContentType: a.contentType, Err: ErrSessionDead, Detail: a.detail,
		}, nil, r)
	}
	return func() {
		last()
		cancel()
	}
}

// backoff is how long to wait after the n-th attempt, with a fifth of jitter
// so that many clients do not come back in step.
func backoff(n int) time.Duration {
	d := min(minBackoff<<min(n-1, 10), maxBackoff)
	return d - d/10 + rand.N(d/5)
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
