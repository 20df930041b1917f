package middleware

import (
	"net/url"
	"slices"
	"sync"
	"time"
)

// sessionKey names a session. Ids are a server's own: two endpoints may use
// the same one, and one of them must not be able to fence the other's.
type sessionKey struct {
	scheme, host, path, id string
}

func keyOf(u *url.URL, id string) sessionKey {
	return sessionKey{scheme: u.Scheme, host: u.Host, path: u.Path, id: id}
}

func (k sessionKey) endpoint() string { return k.scheme + "://" + k.host + k.path }

// session is what is known of one session that is not fenced.
//
// Lock order: session.mu before nothing. Transport.mu is never held together
// with it.
type session struct {
	// Immutable.
	key sessionKey

	mu sync.Mutex // guards everything below

	// dead != nil: no request of this session may reach the wire any more.
	// killed != nil == dead != nil by kill: closed when all that was in flight
	// has returned.
	dead   *SessionResumptionError
	killed chan struct{}

	flights map[*flight]struct{} // requests on the wire and bodies still open
	wire    int                  // of these, RoundTrips that have not returned
	drained chan struct{}        // non-nil while kill waits; closed at wire == 0

	lastLive time.Time
	rounds   int // reconnects without a verdict since the last Live

	// The standalone stream, nil until one has been open, and the other
	// streams that have ended and can be resumed, the oldest first.
	standalone *stream
	ended      []*stream

	// An event over MaxEventBytes, and the cursor before it.
	tooLarge   bool
	tooLargeAt string

	// Spin control: how long after a Live verdict an empty replay passes.
	quiet time.Duration

	// The probe that is under way and the one that waits for it to end; and
	// reconnects on the wire whose replay has not opened yet.
	running, next *round
	probing       bool // a goroutine runs rounds
	opening       int
	opened        chan struct{} // non-nil while a round gathers; closed at opening == 0
}

// stream is one logical SSE stream; it survives reconnects. Guarded by its
// session's mu.
type stream struct {
	standalone bool
	open       int    // bodies that carry it now
	cursor     string // the id of the last event handed on
	known      bool   // cursor is known; it may be "", a reset
}

const (
	// maxEndedStreams bounds the resumable streams of which a cursor is kept.
	maxEndedStreams = 64
	// maxCursorBytes bounds a cursor that is kept. No server takes a header
	// that long.
	maxCursorBytes = 4 << 10
)

// live records a proof of life that was asked for at the given time.
func (s *session) live(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.lastLive) {
		s.lastLive = at
	}
	s.rounds = 0
}

// streamFor returns the stream that a GET with this cursor resumes, and
// whether the session's standalone stream was open before. A cursor belongs to
// one stream (MCP 2025-11-25 basic/transports, resumability), and which one
// has to be known before a lost one can be put back.
func (s *session) streamForLocked(cursor string) *stream {
	if cursor == "" {
		return s.standalone
	}
	for i, st := range s.ended {
		if st.cursor == cursor && st.open == 0 {
			s.ended = slices.Delete(s.ended, i, i+1)
			return st
		}
	}
	if s.standalone == nil || !s.standalone.known || s.standalone.cursor == cursor {
		return s.standalone
	}
	return &stream{}
}

// keepLocked remembers a stream, other than the standalone one, that can be
// resumed.
func (s *session) keepLocked(st *stream) {
	if st.standalone || !st.known || st.cursor == "" || slices.Contains(s.ended, st) {
		return
	}
	if len(s.ended) == maxEndedStreams {
		s.ended = slices.Delete(s.ended, 0, 1)
	}
	s.ended = append(s.ended, st)
}

// forgetCursor gives a cursor of the standalone stream up that the server
// refused.
func (s *session) forgetCursor(cursor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standalone != nil && s.standalone.cursor == cursor {
		s.standalone.cursor, s.standalone.known = "", false
	}
}

// undecided counts a reconnect that ended without a verdict, and reports
// whether the session is now to be declared unusable. Reconnects that were
// under way together are one round: since is what [session.round] said when
// this one began.
func (s *session) undecided(since, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rounds == since {
		s.rounds++
	}
	return s.rounds >= most
}

func (s *session) round() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds
}

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

// replayed notes whether a replay was empty: while they stay so, a client that
// spins is probed less and less.
func (s *session) replayed(events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if events > 0 {
		s.quiet = 0
		return
	}
	s.quiet = min(2*max(s.quiet, minQuiet/2), maxQuiet)
}

// leaseExpired reports whether the last proof of life is too old to let an
// event through.
func (s *session) leaseExpired(now time.Time, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.lastLive) >= lease
}

// outgrown records that an event over the limit came after the given cursor
// and reports whether it had done so before.
func (s *session) outgrown(cursor string) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again = s.tooLarge && s.tooLargeAt == cursor
	s.tooLarge, s.tooLargeAt = true, cursor
	return again
}

func (s *session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := SessionInfo{
		SessionID: s.key.id, Endpoint: s.key.endpoint(), LastAlive: s.lastLive,
		InFlight: len(s.flights), AmbiguousRounds: s.rounds,
	}
	if s.standalone != nil {
		info.Cursor = s.standalone.cursor
	}
	return info
}
