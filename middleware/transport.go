package middleware

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is a [http.RoundTripper] that hands a replay to its client only
// once the session behind it is proven alive. Make one with [New]; it is safe
// for concurrent use, and one serves any number of clients and endpoints.
type Transport struct {
	// Immutable after New.
	cfg Config

	counters counters
	turns    atomic.Uint64 // numbers the bodies

	mu       sync.Mutex // guards the tables, not what is in them
	sessions *lru[sessionKey, *session]
	fences   *lru[sessionKey, *SessionResumptionError]
}

// New returns a Transport, or every fault of cfg at once. It starts nothing,
// and a Transport needs no Close.
func New(cfg Config) (*Transport, error) {
	cfg, err := cfg.compile()
	if err != nil {
		return nil, err
	}
	return &Transport{
		cfg:      cfg,
		sessions: newLRU[sessionKey, *session](cfg.MaxSessions),
		fences:   newLRU[sessionKey, *SessionResumptionError](cfg.MaxSessions),
	}, nil
}

// firstWithoutSessions is the version of MCP that has no sessions any more, no
// ping and no resumption. Versions are dates and compare as strings.
const (
	versionHeader        = "Mcp-Protocol-Version"
	firstWithoutSessions = "2026-07-28"
)

// RoundTrip sends req through Config.Base. It implements
// [http.RoundTripper]: req is not modified and its body is closed.
//
// A request without a session, or of a version of MCP that has none, passes
// untouched. A GET that reconnects a stream returns once there is a verdict on
// its session: within Config.ProbeBudget for the GET, and once more for the
// probe.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	id := first(req.Header[t.cfg.SessionHeader])
	if v := first(req.Header[versionHeader]); len(v) == len(firstWithoutSessions) && v >= firstWithoutSessions {
		return t.cfg.Base.RoundTrip(req)
	}
	if id == "" {
		return t.withoutSession(req)
	}
	s, fence := t.lookup(keyOf(req.URL, id))
	if fence != nil {
		return t.refuse(req, fence)
	}
	f, err := t.begin(s, req)
	if dead, ok := err.(*SessionResumptionError); ok {
		return t.refuse(req, dead)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if req.Method == http.MethodGet && s.reconnects(req) {
		return t.reconnect(f)
	}
	return t.ordinary(f)
}

// CloseIdleConnections closes Base's, if it can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// SessionErr returns why a session is fenced, or nil. The error is a
// [*SessionResumptionError]. Ids are looked up whatever their endpoint; where
// two endpoints used the same one, the latest fence answers.
func (t *Transport) SessionErr(sessionID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found *SessionResumptionError
	t.fences.each(func(k sessionKey, e *SessionResumptionError) {
		if found == nil && k.id == sessionID {
			found = e
		}
	})
	if found == nil {
		return nil
	}
	return found
}

// lookup returns the session's state, new if need be, or its fence.
func (t *Transport) lookup(k sessionKey) (*session, *SessionResumptionError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fence, ok := t.fences.get(k); ok {
		return nil, fence
	}
	s, ok := t.sessions.get(k)
	if !ok {
		s = t.createLocked(k)
	}
	return s, nil
}

func (t *Transport) createLocked(k sessionKey) *session {
	s := &session{key: k, over: make(chan struct{}), flights: make(map[*flight]struct{})}
	if t.cfg.Pending != PendingOff {
		s.ledger = newLedger(&t.cfg, k.id)
	}
	t.sessions.put(k, s)
	t.counters.sessions.Add(1)
	return s
}

// withoutSession passes a request on and notices a session that its answer
// starts. An id that a server gives out anew is no longer the fenced one.
func (t *Transport) withoutSession(req *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := t.cfg.Base.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost || resp.StatusCode/100 != 2 {
		return resp, err
	}
	if id := first(resp.Header[t.cfg.SessionHeader]); id != "" {
		k := keyOf(req.URL, id)
		t.mu.Lock()
		t.fences.remove(k)
		t.sessions.remove(k)
		s := t.createLocked(k)
		t.mu.Unlock()
		s.live(sent)
	}
	return resp, err
}

// reconnects reports whether a GET reopens a stream: it carries a cursor, or
// the session's standalone stream was open before. Clients lose cursors, and a
// server may replay a whole history to a GET without one.
func (s *session) reconnects(req *http.Request) bool {
	if first(req.Header[lastEventIDHeader]) != "" {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standalone != nil
}

// ordinary sends any request of a session but a reconnect. The first GET of a
// session is one of them: clients wait for its answer before they go on.
func (t *Transport) ordinary(f *flight) (*http.Response, error) {
	s, req := f.s, f.client
	post, del := req.Method == http.MethodPost, req.Method == http.MethodDelete
	awaiting := false
	if post && s.ledger != nil {
		if awaiting = s.ledger.awaiting.Load(); awaiting {
			f.readBody(t.cfg.MaxEventBytes)
		} else {
			f.keepBody(maxCallBytes)
		}
	}
	resp, err := f.roundTrip(f.req)
	if awaiting || post && s.ledger != nil && s.ledger.seen.Load() && outcomeOf(resp, err) == refused {
		if instead := t.replied(f, resp, err); instead != nil {
			f.end()
			return instead, nil
		}
	}
	if err != nil {
		f.end()
		if e, ok := err.(*SessionResumptionError); ok && e.Phase == PhaseFence {
			return t.refuse(req, e)
		}
		return nil, err
	}
	resp.Request = req
	switch status := resp.StatusCode; {
	case (post || del) && isGone(status):
		resp.Body.Close()
		e := t.kill(s, &SessionResumptionError{
			SessionID: s.key.id, Phase: PhaseRequest, Verdict: Dead, StatusCode: status,
			ContentType: contentType(resp), Err: ErrSessionDead,
		}, f, nil)
		f.end()
		return t.terminal(req, e)

	case del && status/100 == 2:
		t.retire(s, status)
		return f.pass(resp, nil)

	case status == http.StatusOK && isReplay(resp) && resp.Header.Get("Content-Encoding") == "":
		return t.stream(f, resp)

	case post && status == http.StatusOK && t.wantsProof(s) && mediaType(resp.Header) == "application/json":
		return f.pass(resp, &proof{})

	default:
		return f.pass(resp, nil)
	}
}

// stream guards a stream that is not resumed: the answer to a POST, or the
// standalone stream when it opens for the first time.
func (t *Transport) stream(f *flight, resp *http.Response) (*http.Response, error) {
	s := f.s
	st := &stream{}
	if isCall(f.client) && s.ledger != nil {
		st.origin = newOrigin(&f.said)
	}
	s.mu.Lock()
	if f.client.Method == http.MethodGet {
		if s.standalone == nil {
			s.standalone = &stream{standalone: true}
		}
		st = s.standalone
	}
	b := newBody(f, resp, st)
	st.openLocked(b)
	s.mu.Unlock()
	if !f.carry(b) {
		dead := f.aborted()
		b.shut(dead)
		return nil, dead
	}
	resp.Body = b
	return resp, nil
}

// refuse answers a request of a fenced session. Nothing of it reaches the
// wire, but for an initialize: that is what the specification asks a client to
// send now, "without a session ID attached" (MCP 2025-11-25 basic/transports,
// session management), and some clients leave the old id on.
func (t *Transport) refuse(req *http.Request, fence *SessionResumptionError) (*http.Response, error) {
	if again := initializeWithout(req, t.cfg.SessionHeader); again != nil {
		return t.withoutSession(again)
	}
	closeBody(req)
	e := fence.with(func(e *SessionResumptionError) {
		e.Phase = PhaseFence
		e.LastEventID = first(req.Header[lastEventIDHeader])
		// A client that comes back for a call's answer was too late to learn of
		// the death by its own reconnect.
		e.OutcomeUnknown = req.Method == http.MethodGet && slices.Contains(e.calls, e.LastEventID)
	})
	if e.OutcomeUnknown {
		t.amend(keyOf(req.URL, e.SessionID), &SessionResumptionError{OutcomeUnknown: true})
	}
	t.counters.fenced.Add(1)
	t.observe(Event{
		Kind: Fenced, SessionID: e.SessionID, LastEventID: e.LastEventID, Method: req.Method,
		Verdict: e.Verdict, StatusCode: e.StatusCode, Err: e,
	})
	return t.terminal(req, e)
}

// maxInitializeBytes bounds what is read of a refused request to see whether
// it is an initialize.
const maxInitializeBytes = 64 << 10

// initializeWithout returns an initialize request without its session id, or
// nil if req is not one.
func initializeWithout(req *http.Request, header string) *http.Request {
	if req.Method != http.MethodPost || req.Body == nil || req.ContentLength > maxInitializeBytes {
		return nil
	}
	// Its own deadline ends a request that never reaches the wire, too.
	stop := context.AfterFunc(req.Context(), func() { req.Body.Close() })
	defer stop()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxInitializeBytes+1))
	if err != nil || len(body) > maxInitializeBytes {
		return nil
	}
	if m, ok := parseRPC(body); !ok || unquote(m["method"]) != "initialize" {
		return nil
	}
	closeBody(req)
	again := req.Clone(req.Context())
	again.Header.Del(header)
	again.Body = io.NopCloser(bytes.NewReader(body))
	again.ContentLength = int64(len(body))
	return again
}

// amend adds what one reconnect has lost to the reason why its session is
// fenced.
func (t *Transport) amend(k sessionKey, e *SessionResumptionError) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fence, ok := t.fences.get(k)
	if !ok {
		return
	}
	t.fences.put(k, fence.with(func(sum *SessionResumptionError) {
		sum.QuarantinedEvents += e.QuarantinedEvents
		records := append(sum.Quarantined[:len(sum.Quarantined):len(sum.Quarantined)], e.Quarantined...)
		sum.Quarantined = records[:min(len(records), MaxQuarantineRecords)]
		sum.OutcomeUnknown = sum.OutcomeUnknown || e.OutcomeUnknown
		if sum.LastEventID == "" {
			sum.LastEventID = e.LastEventID
		}
	}))
}

func isCall(req *http.Request) bool { return req.Method == http.MethodPost }

// first is the first of a header's values, without the canonicalization that
// http.Header.Get repeats for every request.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// isGone reports whether a status says of a session that it is dead.
func isGone(status int) bool { return status == http.StatusNotFound || status == http.StatusGone }
