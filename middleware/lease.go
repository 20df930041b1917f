package middleware

import (
	"sync"
	"time"
)

// wantsProof reports whether an ordinary answer has to be looked at for a
// proof of life. As a rule nobody asks, and nothing is parsed.
func (t *Transport) wantsProof(s *session) bool {
	return t.cfg.LivenessLease > 0 || s.round() > 0
}

// renew is called before new events are handed on. Where the lease on the
// session has run out, it has the session probed, and an error means that the
// events must not be handed on. extra is what else came with the probe;
// released, which may be nil, reports how many events are then handed on.
func (b *body) renew(events int) (extra []byte, released func(events int), err error) {
	t, s := b.f.t, b.f.s
	if t.cfg.LivenessLease == 0 || !s.leaseExpired(time.Now(), t.cfg.LivenessLease) {
		return nil, nil, nil
	}
	b.waits(true)
	defer b.waits(false)
	held := time.Now()
	since := s.round()
	cursor := b.f.req.Header.Get(lastEventIDHeader)
	t.observe(Event{Kind: Held, SessionID: s.key.id, LastEventID: cursor})
	a, dead, err := t.verdict(b.f.req.Context(), s, t.join(b.f, nil, nil))
	switch {
	case err != nil:
		b.shut(err)
		return nil, nil, err
	case dead == nil && a.verdict == Live:
		took := time.Since(held)
		return a.extra, func(events int) {
			t.counters.releasedEvents.Add(uint64(events))
			t.observe(Event{
				Kind: Released, SessionID: s.key.id, LastEventID: cursor, Verdict: Live,
				StatusCode: a.status, Events: events, Duration: took,
			})
		}, nil
	case dead == nil:
		dead, _ = t.undecided(b.f, since, cursor, a)
	}
	if isCall(b.f.req) && !dead.OutcomeUnknown {
		dead = dead.with(func(e *SessionResumptionError) { e.OutcomeUnknown = true })
	}
	b.shut(dead)
	t.counters.quarantined.Add(uint64(events))
	t.observe(Event{
		Kind: Quarantined, SessionID: s.key.id, LastEventID: cursor, Verdict: dead.Verdict,
		StatusCode: dead.StatusCode, Events: events, Duration: time.Since(held), Err: dead,
	})
	return nil, nil, dead
}

// waits says whether the reader waits for a verdict, and not for upstream.
func (b *body) waits(on bool) {
	b.mu.Lock()
	b.renewing = on
	b.mu.Unlock()
}

// leaseExpired reports whether the last proof of life is too old to let an
// event through.
func (s *session) leaseExpired(now time.Time, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.lastLive) >= lease
}

// live records a proof of life that was asked for at the given time.
func (s *session) live(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.lastLive) {
		s.lastLive = at
	}
	s.rounds = 0
}

// proof keeps the beginning of a JSON answer to see whether it proves life.
type proof struct {
	mu   sync.Mutex // guards both: Close may come while a Read runs
	data []byte
	over bool // too long to be kept, or checked
}

const maxProofBytes = 64 << 10

func (p *proof) write(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.data)+len(b) > maxProofBytes {
		p.over, p.data = true, nil
		return
	}
	p.data = append(p.data, b...)
}

func (p *proof) check(f *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && provesLife(p.data) {
		f.s.live(f.sent)
	}
	p.over, p.data = true, nil
}

// provesLife reports whether data is the answer to a request of the client's:
// a response with an id and a result. A 202 proves nothing, and a 200 may have
// "session not found" inside.
func provesLife(data []byte) bool {
	for _, message := range messages(data) {
		m, ok := parseRPC(message)
		if ok && m.has("result") && !m.has("method") && m.has("id") && string(m["id"]) != "null" {
			return true
		}
	}
	return false
}
