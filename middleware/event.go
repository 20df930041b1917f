package middleware

import "time"

// Kind says what an [Event] reports.
type Kind uint8

const (
	// Held: a replay has opened and its events are kept back.
	Held Kind = iota + 1
	// ProbeSent: a probe is on its way. Attempt counts from 1.
	ProbeSent
	// ProbeAnswered: a probe attempt has ended. Verdict, StatusCode and
	// Duration are that attempt's, Err is set where no answer came.
	ProbeAnswered
	// Released: the verdict is Live; Events and Bytes of what was held by then
	// go to the client. Events is 0 where nothing had come yet.
	Released
	// Quarantined: what was held is discarded. Verdict is Dead, or Ambiguous
	// where the client is asked to come back with the same cursor. It is
	// reported for an undecided reconnect that held nothing, too.
	Quarantined
	// SessionDead: the session is fenced from now on. Err says why. It is
	// reported once for a session, not for one that the client ended itself.
	SessionDead
	// Fenced: a request was refused here and never reached the wire.
	Fenced
	// CursorRestored: the client had lost the cursor of its standalone stream
	// and LastEventID was put back on its GET.
	CursorRestored
	// DuplicateSuppressed: a message of the server's was kept back. It is a
	// server-to-client request that has come before, or that nobody waits for
	// any more, or the answer to a call that has been failed.
	DuplicateSuppressed
	// Stale: the server no longer waits for a request of its own. Err is a
	// [*StaleElicitationError] or [*UnknownPendingRequestError], and the call
	// OriginRequestID, where one is known, is failed.
	Stale
)

var kindNames = [...]string{
	Held: "held", ProbeSent: "probe sent", ProbeAnswered: "probe answered",
	Released: "released", Quarantined: "quarantined", SessionDead: "session dead",
	Fenced: "fenced", CursorRestored: "cursor restored",
	DuplicateSuppressed: "duplicate suppressed", Stale: "stale",
}

// String returns the kind in words, for logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// Event is one thing that the middleware did or decided. Fields that its Kind
// does not mention are zero.
type Event struct {
	Kind Kind
	// Time is when it happened.
	Time time.Time
	// SessionID is the session, in full: mind where it is logged.
	SessionID string
	// LastEventID is the cursor of the reconnect, "" for none.
	LastEventID string
	// Method is the HTTP method of the client's request, for Fenced.
	Method string
	// RequestID and RPCMethod are the JSON-RPC id, as the server wrote it, and
	// the method of a server-to-client request, for DuplicateSuppressed and
	// Stale; OriginRequestID is the id of the client's call that it belongs to,
	// "" where none is known. Ids are JSON: a string has its quotes.
	RequestID, RPCMethod, OriginRequestID string
	// Verdict is the outcome so far.
	Verdict Verdict
	// StatusCode is the HTTP status that a verdict came from, 0 for none.
	StatusCode int
	// Attempt counts the probes of one hold from 1.
	Attempt int
	// Events and Bytes count what was released or quarantined.
	Events int
	Bytes  int64
	// Duration is how long a probe attempt or a hold took.
	Duration time.Duration
	// Err is the typed error of a quarantine, a death or a fence.
	Err error
}

// observe calls the hook. Callers hold no lock.
func (t *Transport) observe(e Event) {
	if t.cfg.Observe == nil {
		return
	}
	e.Time = time.Now()
	t.cfg.Observe(e)
}

func (t *Transport) observeAll(events []Event) {
	for _, e := range events {
		t.observe(e)
	}
}
