package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Sentinels for [errors.Is]. The first three are wrapped by a
// [*SessionResumptionError].
var (
	// ErrSessionDead says that the server no longer knows the session. The
	// specification asks for a new initialize without a session id.
	ErrSessionDead = errors.New("session is dead")
	// ErrLivenessUnknown says that no verdict could be reached, and nothing
	// was released. On a terminal outcome it says so of Config.AmbiguousRounds
	// reconnects in a row.
	ErrLivenessUnknown = errors.New("session liveness is unknown")
	// ErrReplayTooLarge says that one event exceeds Config.MaxEventBytes.
	ErrReplayTooLarge = errors.New("replayed event is too large")
	// ErrStaleElicitation says that the server no longer waits for a request
	// that it has sent to the client. A [*StaleElicitationError] wraps it.
	ErrStaleElicitation = errors.New("the server no longer waits for its request")
	// ErrUnknownPendingRequest says that, with PendingStrict, a replay had a
	// request that had never come before. A [*UnknownPendingRequestError]
	// wraps it.
	ErrUnknownPendingRequest = errors.New("a replayed request was never seen before")
)

// SessionResumptionError says why a session, or one attempt to resume it,
// came to nothing. Get it from an error chain with [errors.As], from a response
// with [ErrorFrom], or from [Transport.SessionErr].
//
// The values of one error are shared by all who receive it: treat them as
// read-only.
type SessionResumptionError struct {
	// SessionID is the session that the failed request carried, in full.
	// Error abbreviates it, since an id often is all that a server asks for.
	SessionID string
	// LastEventID is the cursor of the reconnect, "" where there was none.
	LastEventID string
	// Phase is where it was decided.
	Phase Phase
	// Verdict is Dead, or Ambiguous where nobody could tell.
	Verdict Verdict
	// StatusCode and ContentType are the answer's that decided. They tell a
	// server's 404 from a gateway's. StatusCode is 0 where no answer came.
	StatusCode  int
	ContentType string
	// Quarantined is a record of the events that were held and then
	// discarded: at most [MaxQuarantineRecords], of QuarantinedEvents.
	Quarantined []QuarantinedEvent
	// QuarantinedEvents counts all events that were held and discarded. A block
	// of the stream without data is no event.
	QuarantinedEvents int
	// OutcomeUnknown says that a request was in flight when the session ended:
	// the server may or may not have acted on it. On the error of a reconnect
	// it says so of at least one other request of the session, or of the call
	// whose answer the stream was carrying. It is never safe to retry such a
	// request without asking.
	OutcomeUnknown bool
	// Err is the sentinel: [ErrSessionDead], [ErrLivenessUnknown] or
	// [ErrReplayTooLarge].
	Err error
	// Detail is one clause for people on what happened, "" for none.
	Detail string

	// calls are the cursors of the streams that had ended before the session did
	// and were to bring a call's answer.
	calls []string
}

// MaxQuarantineRecords bounds the events of which an error keeps a record.
const MaxQuarantineRecords = 64

// QuarantinedEvent is what is kept of an event that was never handed on: enough
// to know what it was, nothing of what it said.
type QuarantinedEvent struct {
	// EventID is the event's own id, "" if it had none.
	EventID string
	// Method is the JSON-RPC method of a request or notification, "" for a
	// response or for data that is not JSON-RPC.
	Method string
	// RequestID is the JSON-RPC id as the server wrote it, "" if it had none.
	RequestID string
	// Bytes is the length of the event on the wire.
	Bytes int
}

// Error names the session by the last characters of its id.
func (e *SessionResumptionError) Error() string {
	var b strings.Builder
	b.WriteString("middleware: ")
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	} else {
		b.WriteString("session cannot be resumed")
	}
	fmt.Fprintf(&b, " (session %s, phase %s", abbreviate(e.SessionID), e.Phase)
	if e.StatusCode != 0 {
		b.WriteString(", status " + strconv.Itoa(e.StatusCode))
	}
	if e.ContentType != "" {
		fmt.Fprintf(&b, ", content type %q", e.ContentType)
	}
	b.WriteString(")")
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	switch e.QuarantinedEvents {
	case 0:
	case 1:
		b.WriteString("; 1 replayed event quarantined")
	default:
		fmt.Fprintf(&b, "; %d replayed events quarantined", e.QuarantinedEvents)
	}
	if e.OutcomeUnknown {
		b.WriteString("; the outcome of what was in flight is unknown")
	}
	return b.String()
}

// Unwrap returns the sentinel.
func (e *SessionResumptionError) Unwrap() error { return e.Err }

// with returns a copy that f has changed: the error of one request among those
// that one verdict ends.
func (e *SessionResumptionError) with(f func(*SessionResumptionError)) *SessionResumptionError {
	c := *e
	f(&c)
	return &c
}

// abbreviate quotes enough of a session id to recognise it in a log and too
// little to use it: the end, since the ids of some servers all begin alike.
func abbreviate(id string) string {
	keep := min(len(id)/2, 8)
	return strconv.Quote("…" + strings.ToValidUTF8(id[len(id)-keep:], ""))
}

// StaleElicitationError says that the server no longer waits for a
// server-to-client request, an elicitation or another. The client's call that
// it belongs to gets a JSON-RPC error with the code −32001, after which the
// application may issue that call anew. What the server has made of the call
// until then is unknown.
type StaleElicitationError struct {
	// SessionID is the session, in full; Error abbreviates it.
	SessionID string
	// RequestID is the JSON-RPC id of the request as the server wrote it, in
	// JSON, and Method its method.
	RequestID string
	Method    string
	// OriginRequestID is the id of the client's call, in JSON. It is "" where
	// none is known, as on a standalone stream: then nothing is failed.
	OriginRequestID string
	// Reason is one clause for people.
	Reason string
}

func (e *StaleElicitationError) Error() string {
	return pendingError(ErrStaleElicitation, e.Method, e.RequestID, e.SessionID, e.OriginRequestID) + ": " + e.Reason
}

// Unwrap returns [ErrStaleElicitation].
func (e *StaleElicitationError) Unwrap() error { return ErrStaleElicitation }

// UnknownPendingRequestError says that a replay had a server-to-client request
// that had never come before, which PendingStrict does not let through. Its
// fields are those of a [StaleElicitationError].
type UnknownPendingRequestError struct {
	SessionID       string
	RequestID       string
	Method          string
	OriginRequestID string
}

func (e *UnknownPendingRequestError) Error() string {
	return pendingError(ErrUnknownPendingRequest, e.Method, e.RequestID, e.SessionID, e.OriginRequestID)
}

// Unwrap returns [ErrUnknownPendingRequest].
func (e *UnknownPendingRequestError) Unwrap() error { return ErrUnknownPendingRequest }

func pendingError(sentinel error, method, id, session, call string) string {
	of := ""
	if call != "" {
		of = ", call " + call
	}
	return fmt.Sprintf("middleware: %v (%s %s, session %s%s)", sentinel, method, id, abbreviate(session), of)
}

// ErrorFrom returns the typed error inside a response that the middleware made
// itself: a terminal outcome, the answer that asks an undecided client to
// come back, or the 202 that stands in for a server's refusal of an answer
// (then a [*StaleElicitationError]). It returns nil for every response of a server, and for nil. It
// reads no byte of the body and works on a response that other RoundTrippers
// or [http.Client] have wrapped, as long as they keep its Request.
func ErrorFrom(resp *http.Response) error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if e, ok := resp.Request.Context().Value(errorKey{}).(error); ok {
		return e
	}
	return nil
}

type errorKey struct{}
