package middleware

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Stats is counters since [New].
type Stats struct {
	Sessions        uint64 // sessions seen first
	Reconnects      uint64 // GETs that reconnect a stream and reached the wire
	Probes          uint64 // probe attempts sent
	Live            uint64 // reconnects that ended Live
	Dead            uint64 // sessions that were found dead or declared unusable
	Ambiguous       uint64 // reconnects that ended without a verdict
	EmptyReplays    uint64 // replays released that ended without any event
	ReleasedEvents  uint64 // events that were held and then handed on
	Quarantined     uint64 // events that were held and then discarded
	Suppressed      uint64 // messages kept back that had come before, or were moot
	Stale           uint64 // server-to-client requests that nobody waits for any more
	Fenced          uint64 // requests refused here
	CursorsRestored uint64 // cursors put back that a client had lost
}

type counters struct {
	sessions, reconnects, probes, live, dead, ambiguous, emptyReplays atomic.Uint64
	releasedEvents, quarantined, fenced, cursorsRestored              atomic.Uint64
	suppressed, stale                                                 atomic.Uint64
}

// Stats returns a snapshot. Counters that change together may be read apart.
func (t *Transport) Stats() Stats {
	c := &t.counters
	return Stats{
		Sessions: c.sessions.Load(), Reconnects: c.reconnects.Load(), Probes: c.probes.Load(),
		Live: c.live.Load(), Dead: c.dead.Load(), Ambiguous: c.ambiguous.Load(),
		EmptyReplays: c.emptyReplays.Load(), ReleasedEvents: c.releasedEvents.Load(),
		Quarantined: c.quarantined.Load(), Fenced: c.fenced.Load(),
		CursorsRestored: c.cursorsRestored.Load(),
		Suppressed:      c.suppressed.Load(), Stale: c.stale.Load(),
	}
}

// SessionInfo is a snapshot of what is kept of one session, for debugging.
type SessionInfo struct {
	// SessionID is the session, in full, and Endpoint the URL without its
	// query that it belongs to.
	SessionID, Endpoint string
	// LastAlive is when the session last was found Live, zero if never.
	LastAlive time.Time
	// InFlight counts requests that have no answer yet and bodies still open.
	InFlight int
	// AmbiguousRounds counts reconnects without a verdict since the last Live.
	AmbiguousRounds int
	// Pending counts the server-to-client requests that are not settled.
	Pending int
	// Cursor is the last event id that was handed on of the standalone
	// stream, "" if it is not known.
	Cursor string
}

// Sessions returns what is kept of every session that is not fenced, sorted by
// endpoint and id.
func (t *Transport) Sessions() []SessionInfo {
	var all []*session
	t.mu.Lock()
	t.sessions.each(func(_ sessionKey, s *session) { all = append(all, s) })
	t.mu.Unlock()

	infos := make([]SessionInfo, 0, len(all))
	for _, s := range all {
		infos = append(infos, s.info())
	}
	slices.SortFunc(infos, func(a, b SessionInfo) int {
		if c := strings.Compare(a.Endpoint, b.Endpoint); c != 0 {
			return c
		}
		return strings.Compare(a.SessionID, b.SessionID)
	})
	return infos
}
