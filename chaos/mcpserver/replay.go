package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// LivenessTokenKey is the key of [Config.LivenessToken]'s token in the `_meta`
// of a request's params.
const LivenessTokenKey = "revenant/livenessToken"

// ReplayEventsAfter implements [server.EventStore]. mcp-go calls it twice: to
// find out whether the cursor is known, and, after the answer's header, to send.
func (l *processLog) ReplayEventsAfter(ctx context.Context, inner, cursor string, send func(string, json.RawMessage) error) (string, error) {
	from, replay := l.from(sessionOf(inner), cursor)
	if from == nil || from.inner != inner {
		return "", fmt.Errorf("mcpserver: cursor %q: %w", cursor, server.ErrUnknownEventID)
	}
	c := callFrom(ctx)
	if c == nil || !c.streaming {
		return from.stream, nil
	}
	for _, e := range replay {
		if err := send(e.id, l.again(e)); err != nil {
			return "", err
		}
	}
	l.process.replayed(c, len(replay))
	return from.stream, nil
}

// replayed notes that a replay has been written and flushed. mcp-go writes
// nothing else on the stream before this returns.
func (s *process) replayed(c *call, events int) {
	s.oracle.tell(s.oracle.updateRequest(c.n, RequestReplayed, time.Now(), func(r *Request) { r.Replayed = events }))
	if c.reaps {
		s.reapInReplay(c.session)
	}
}

// from returns the event that the cursor names, and those with which a stream is
// resumed from there. It returns nil if the log does not have the event.
func (l *eventLog) from(session, cursor string) (from *entry, replay []*entry) {
	seq, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.logs[session]
	if sl == nil {
		return nil, nil
	}
	i, ok := slices.BinarySearchFunc(sl.entries, seq, func(e *entry, seq uint64) int { return cmp.Compare(e.seq, seq) })
	if !ok || sl.entries[i].id != cursor || l.forgottenLocked(sl.entries[i], time.Now()) {
		return nil, nil
	}
	from = sl.entries[i]
	first := i + 1
	switch l.replay {
	case ReplayInclusive:
		first = i
	case ReplayFull:
		first = 0
	}
	for _, e := range sl.entries[first:] {
		if e.stream == from.stream {
			replay = append(replay, e)
		}
	}
	return from, replay
}

// first is the id of the oldest event that the log has of a session's
// standalone stream, or "".
func (l *eventLog) first(session string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.logs[session]
	if sl == nil {
		return ""
	}
	for _, e := range sl.entries {
		if e.inner == session {
			return e.id
		}
	}
	return ""
}

// fullReplayFrom is the cursor with which mcp-go gives a client that has none the
// whole of its standalone stream, or "".
func (s *process) fullReplayFrom(c *call) string {
	if s.cfg.Replay != ReplayFull || c.method != http.MethodGet || c.cursor != "" {
		return ""
	}
	return s.log.first(c.session)
}

// again is the message of an entry as a replay sends it.
func (l *processLog) again(e *entry) json.RawMessage {
	if e.ask == 0 {
		return e.message
	}
	session := sessionOf(e.inner)
	l.oracle.tell(l.oracle.askSentAgain(e.ask, time.Now()))
	p := l.process.asks.pending(session, e.ask)
	// A session is dead a moment before its asks are cancelled.
	if p == nil || p.token == "" || !l.process.sessions.alive(session) {
		return e.message
	}
	// Nobody can know a token before its request is made, so it stands in one
	// place of the message, and needs no escape there.
	return bytes.Replace(e.message, []byte(p.token), []byte(rand.Text()), 1)
}
