package middleware

import "time"

const (
	minQuiet = time.Second
	maxQuiet = 30 * time.Second
)

// quietNow reports whether the session was found Live so recently that a
// replay which turns out to be empty needs no probe.
func (s *session) quietNow(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lastLive.IsZero() && now.Sub(s.lastLive) < max(s.quiet, minQuiet)
}

// replayed notes whether a replay has ended without any event: while they do,
// a client that spins is probed less and less.
func (s *session) replayed(empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !empty {
		s.quiet = 0
		return
	}
	s.quiet = min(2*max(s.quiet, minQuiet/2), maxQuiet)
}
