package middleware

import (
	"slices"
	"sync/atomic"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// stream is one logical SSE stream; it survives reconnects. Guarded by its
// session's mu.
type stream struct {
	standalone bool
	bodies     []*body // that carry it now: the old one may linger when it is resumed
	opened     int     // bodies so far

	// origin is the POST that it is the answer to, nil if that is not known.
	origin *origin
	// passed counts the times that something new has come while requests of
	// the server's were pending. It is not guarded by the session's mu.
	passed atomic.Uint64

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
	for f := range s.flights { // the broken body of a call may not be closed yet
		if b, ok := f.body.(*body); ok && !b.st.standalone && b.st.standsAtLocked(cursor) {
			return b.st
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

// cursorsLocked returns where the resumable streams stand, but for the
// standalone one.
func (s *session) cursorsLocked() []string {
	var cursors []string
	for _, st := range s.ended {
		cursors = append(cursors, st.cursor)
	}
	return cursors
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

// handedOn is handedOnLocked for who does not hold mu.
func (b *body) handedOn() (cursor string, seen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handedOnLocked()
}

// handedOnLocked returns the id of the last event that the client has read to
// its end. What was scanned may be ahead of that: a cursor from there would
// make a reconnect skip events.
func (b *body) handedOnLocked() (cursor string, seen bool) {
	if b.pumping || b.off < b.whole || (b.cond != nil && !b.released) {
		var sp sse.Splitter
		for part := b.buf[:b.off]; len(part) > 0; {
			n, _, _ := sp.Next(part)
			part = part[n:]
		}
		if cursor, seen = sp.LastEventID(); seen {
			return cursor, true
		}
		return b.before, b.seen
	}
	return b.splitter.LastEventID()
}

// refuse is called when the client reaches an event over the limit. A second
// time at the same cursor it ends the session: reconnecting would meet the
// same event for ever.
func (b *body) refuse() error {
	b.mu.Lock()
	err := b.end.(*SessionResumptionError)
	cursor, seen := b.handedOnLocked()
	b.mu.Unlock()
	if !seen {
		cursor = err.LastEventID
	}
	if b.f.s.outgrown(b.st, cursor) {
		b.up.Close()
		return b.f.t.kill(b.f.s, err, b.f, nil)
	}
	return err
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
