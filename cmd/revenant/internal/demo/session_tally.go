package demo

import (
	"net/http"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Place is where an application learned that its session is dead.
type Place string

const (
	// Nowhere: it never did.
	Nowhere Place = "nowhere"
	// AtReconnect: its client said so, though nothing had been asked of it.
	AtReconnect Place = "reconnect"
	// AtToolCall: a tool call failed.
	AtToolCall Place = "tool_call"
)

// SessionTally is what became of one session in one arm.
type SessionTally struct {
	SessionID string
	Died      time.Time // zero if it lives
	Why       mcpserver.Why

	// AppliedAlive and AppliedDead count the session's events that were handed
	// to the application, before and after the session's death.
	AppliedAlive, AppliedDead int
	// Lost counts the events that were logged while the session lived, and of
	// which the application got none in that time; Repeated those that it got
	// once more, and Misplaced those that it got after a later one. Lost is no
	// fault where a session died before its client could reconnect.
	Lost, Repeated, Misplaced int

	// Requests counts what was sent with the session's id after its death,
	// RequestsNoticed those of them that were sent after the application had
	// learned of it, and Deletes those that were a DELETE.
	Requests, RequestsNoticed, Deletes int
	// CallsFailed counts the application's tool calls that failed, and
	// CallsArrived the tool calls that reached the server after the death.
	CallsFailed, CallsArrived int

	// Place is where the application learned of the death, and After how long
	// after it. After is zero if Place is Nowhere.
	Place Place
	After time.Duration
	// Err is what it was told there, and Reason what the middleware said of
	// the session at that moment.
	Err, Reason error
}

// CountSession counts what a recording has of one session.
func CountSession(r *Recording, s Session) SessionTally {
	t := SessionTally{SessionID: s.ID, Place: Nowhere}
	t.Died, t.Why = r.died(s.ID)
	dead := func(at time.Time) bool { return !t.Died.IsZero() && !at.Before(t.Died) }

	got := make(map[mcpserver.Stamp]int)
	latest := 0
	for _, a := range r.Applied {
		switch {
		case a.Stamp.Session != s.ID:
			continue
		case dead(a.At):
			t.AppliedDead++
			continue
		}
		t.AppliedAlive++
		if got[a.Stamp]++; got[a.Stamp] > 1 {
			t.Repeated++
		}
		if a.Stamp.Seq < latest {
			t.Misplaced++
		}
		latest = max(latest, a.Stamp.Seq)
	}
	for _, e := range r.Server.Events {
		if e.SessionID == s.ID && e.SessionAlive && got[e.Stamp] == 0 {
			t.Lost++
		}
	}

	for _, c := range r.Calls {
		if c.SessionID == s.ID && c.Err != nil {
			t.CallsFailed++
		}
	}

	noticed := t.notice(r, s)
	for _, q := range r.Server.Requests {
		if q.SessionID != s.ID || !dead(q.At) {
			continue
		}
		t.Requests++
		if t.Place != Nowhere && q.At.After(noticed) {
			t.RequestsNoticed++
		}
		if q.Method == http.MethodDelete {
			t.Deletes++
		}
		if q.RPC == "tools/call" {
			t.CallsArrived++
		}
	}
	return t
}

// notice finds out where and when the application learned of the death. It is
// the first that it was told: the failure of a call, or the end of the session.
// If it had a call under way then, it is the call that found out.
func (t *SessionTally) notice(r *Recording, s Session) (noticed time.Time) {
	if t.Died.IsZero() {
		return time.Time{}
	}
	if s.Err != nil && s.Ended.After(t.Died) {
		t.Place, noticed, t.Err, t.Reason = AtReconnect, s.Ended, s.Err, s.Reason
	}
	for _, c := range r.Calls {
		if c.SessionID != s.ID || c.Err == nil || !c.End.After(t.Died) {
			continue
		}
		if t.Place == Nowhere || c.Start.Before(noticed) {
			if t.Place == Nowhere || c.End.Before(noticed) {
				noticed = c.End
			}
			t.Place, t.Err, t.Reason = AtToolCall, c.Err, c.Reason
		}
		break // whoever calls after that knows already
	}
	if t.Place != Nowhere {
		t.After = noticed.Sub(t.Died)
	}
	return noticed
}
