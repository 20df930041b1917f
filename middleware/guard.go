package middleware

import (
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// wantsProof reports whether an ordinary answer has to be looked at for a
// proof of life. As a rule nobody asks, and nothing is parsed.
func (t *Transport) wantsProof(s *session) bool {
	return t.cfg.LivenessLease > 0 || s.round() > 0
}

// renew is called before new events are handed on. Where the lease on the
// session has run out, it has the session probed, and an error means that the
// events must not be handed on.
func (b *body) renew(events int) error {
	t, s := b.f.t, b.f.s
	if t.cfg.LivenessLease == 0 || !s.leaseExpired(time.Now(), t.cfg.LivenessLease) {
		return nil
	}
	held := time.Now()
	since := s.round()
	cursor := b.f.req.Header.Get(lastEventIDHeader)
	t.observe(Event{Kind: Held, SessionID: s.key.id, LastEventID: cursor})
	a, dead, err := t.verdict(b.f.req.Context(), s, t.join(b.f, nil, nil))
	switch {
	case err != nil:
		b.fail(err)
		return err
	case dead == nil && a.verdict == Live:
		if len(a.extra) > 0 {
			b.mu.Lock()
			b.insertLocked(a.extra)
			b.mu.Unlock()
		}
		t.counters.releasedEvents.Add(uint64(events))
		t.observe(Event{
			Kind: Released, SessionID: s.key.id, LastEventID: cursor, Verdict: Live,
			StatusCode: a.status, Events: events, Duration: time.Since(held),
		})
		return nil
	case dead == nil:
		dead, _ = t.undecided(b.f, since, cursor, a)
	}
	if isCall(b.f.req) && !dead.OutcomeUnknown {
		dead = dead.with(func(e *SessionResumptionError) { e.OutcomeUnknown = true })
	}
	b.fail(dead)
	t.counters.quarantined.Add(uint64(events))
	t.observe(Event{
		Kind: Quarantined, SessionID: s.key.id, LastEventID: cursor, Verdict: dead.Verdict,
		StatusCode: dead.StatusCode, Events: events, Duration: time.Since(held), Err: dead,
	})
	return dead
}

// insertLocked puts events of the stream behind those that are whole.
func (b *body) insertLocked(extra []byte) {
	rest := append([]byte(nil), b.buf[b.whole:]...)
	b.buf = append(append(b.buf[:b.whole], extra...), rest...)
	b.whole += len(extra)
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
		return b.f.t.kill(b.f.s, err, b.f)
	}
	return err
}

// quarantineRecords says what whole events were.
func quarantineRecords(held []byte) []QuarantinedEvent {
	var records []QuarantinedEvent
	var splitter sse.Splitter
	for start, at := 0, 0; at < len(held) && len(records) < MaxQuarantineRecords; {
		n, kind, _ := splitter.Next(held[at:])
		at += n
		if kind == sse.EventEnd && sse.HasData(held[start:at]) {
			records = append(records, quarantineRecord(held[start:at]))
		}
		if kind != sse.None {
			start = at
		}
	}
	return records
}

// maxRecordBytes bounds each string of a record.
const maxRecordBytes = 128

func quarantineRecord(block []byte) QuarantinedEvent {
	event := sse.Parse(block)
	record := QuarantinedEvent{EventID: clip(event.ID), Bytes: len(block)}
	if m, ok := parseRPC(event.Data); ok {
		record.Method = clip(unquote(m["method"]))
		record.RequestID = clip(string(m["id"]))
	}
	return record
}
