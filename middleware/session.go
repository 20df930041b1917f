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
// Lock order: session.mu before a body's. Transport.mu is never held together
// with either.
type session struct {
	// Immutable. over is closed, by who set dead, when the session is dead and
	// all that was in flight has returned.
	key  sessionKey
	over chan struct{}

	mu sync.Mutex // guards everything below

	// dead != nil: no request of this session may reach the wire any more.
	dead *SessionResumptionError

	flights map[*flight]struct{} // requests on the wire and bodies still open
	wire    int                  // of these, RoundTrips that have not returned
	drained chan struct{}        // non-nil while kill waits; closed at wire == 0

	lastLive time.Time
	rounds   int // reconnects without a verdict since the last Live

	// The standalone stream, nil until one has been open, and the other
	// streams that have ended and can be resumed, the oldest first.
	standalone *stream
	ended      []*stream

	// Spin control: how long after a Live verdict an empty replay passes.
	quiet time.Duration

	// The probe that is under way and the one that waits for it to end; and
	// reconnects on the wire whose replay has not opened yet.
	running, next *round
	probing       bool   // a goroutine runs rounds
	extra         []byte // messages of the stream that came with a probe's answer
	opening       int
	opened        chan struct{} // non-nil while a round gathers; closed at opening == 0
}

// stream is one logical SSE stream; it survives reconnects. Guarded by its
// session's mu.
type stream struct {
	standalone bool
	bodies     []*body // that carry it now: the old one may linger when it is resumed
	opened     int     // bodies so far

	// cursor is the id of the last event handed on, by body number cursorOf. If
	// known, "" is a reset.
	cursor   string
	known    bool
	cursorOf int

	// An event over MaxEventBytes has come, and the cursor before it.
	tooLarge   bool
	tooLargeAt string
}

const (
	// maxEndedStreams bounds the resumable streams of which a cursor is kept.
	maxEndedStreams = 64
	// maxCursorBytes bounds a cursor that is kept. The ids of servers are far
	// shorter.
	maxCursorBytes = 1 << 10
)

// openLocked adds a body to the stream.
func (st *stream) openLocked(b *body) {
	st.opened++
	b.n = st.opened
	st.bodies = append(st.bodies, b)
}

// closeLocked removes a body and takes over its cursor, unless a later body
// has left one already.
func (st *stream) closeLocked(b *body, cursor string, seen bool) {
	st.bodies = slices.DeleteFunc(st.bodies, func(other *body) bool { return other == b })
	if !seen || b.n < st.cursorOf {
		return
	}
	st.cursorOf = b.n
	if st.known = len(cursor) <= maxCursorBytes; !st.known {
		cursor = ""
	}
	st.cursor = cursor
}

// standsAtLocked reports whether a client of the stream may ask for what comes
// after cursor. It takes the mu of the stream's bodies.
func (st *stream) standsAtLocked(cursor string) bool {
	if st.known && st.cursor == cursor {
		return true
	}
	return slices.ContainsFunc(st.bodies, func(b *body) bool {
		at, seen := b.handedOn()
		return seen && at == cursor
	})
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

// streamForLocked returns the stream that a GET with this cursor resumes, nil
// for a standalone stream that has not been open before. A cursor belongs to
// one stream (MCP 2025-11-25 basic/transports, resumability), and which one
// has to be known before a lost one can be put back.
func (s *session) streamForLocked(cursor string) *stream {
	if cursor == "" {
		return s.standalone
	}
	for i, st := range s.ended {
		if st.cursor == cursor {
			s.ended = slices.Delete(s.ended, i, i+1)
			return st
		}
	}
	if s.standalone == nil || s.standalone.standsAtLocked(cursor) {
		return s.standalone
	}
	// A call's stream that was forgotten, or a client that goes back. Where it
	// then stands on the standalone stream is not known.
	s.standalone.cursor, s.standalone.known = "", false
	return &stream{cursor: cursor, known: true}
}

// keepLocked remembers a stream, other than the standalone one, that can be
// resumed.
func (s *session) keepLocked(st *stream) {
	if st.standalone || len(st.bodies) > 0 || !st.known || st.cursor == "" || slices.Contains(s.ended, st) {
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

// leaseExpired reports whether the last proof of life is too old to let an
// event through.
func (s *session) leaseExpired(now time.Time, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.lastLive) >= lease
}

// outgrown records that an event over the limit came after the given cursor of
// a stream, and reports whether it had done so before.
func (s *session) outgrown(st *stream, cursor string) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again = st.tooLarge && st.tooLargeAt == cursor
	st.tooLarge, st.tooLargeAt = true, cursor
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
