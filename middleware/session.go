package middleware

import (
	"net/url"
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
	key    sessionKey
	over   chan struct{}
	ledger *ledger // nil with PendingOff

	mu sync.Mutex // guards everything below

	// dead != nil: no request of this session may reach the wire any more.
	// doomed: it is about to be.
	dead   *SessionResumptionError
	doomed bool

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

func (s *session) info() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := SessionInfo{
		SessionID: s.key.id, Endpoint: s.key.endpoint(), LastAlive: s.lastLive,
		InFlight: len(s.flights), AmbiguousRounds: s.rounds,
	}
	if s.ledger != nil {
		info.Pending = s.ledger.count()
	}
	if s.standalone != nil {
		info.Cursor = s.standalone.cursor
	}
	return info
}
