package middleware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const lastEventIDHeader = "Last-Event-Id" // as http.Header spells it

const (
	// emptyTimeout bounds how long a replay of a session that was Live a
	// moment ago is watched for an end before it is probed after all.
	emptyTimeout = 100 * time.Millisecond
	// waitGrace is what a round may take beyond Config.ProbeBudget.
	waitGrace = gatherTimeout + drainTimeout
	// maxRetry bounds when an undecided client is asked to come back.
	maxRetry = 5 * time.Minute
)

// errNoReplay cancels a GET whose answer has not begun within the budget.
var errNoReplay = errors.New("middleware: no answer to the reconnecting GET within Config.ProbeBudget")

// reconnect is one GET that reopens a stream of a session, from the request to
// the one outcome that the client gets.
type reconnect struct {
	t *Transport
	f *flight

	st       *stream // nil until it is known
	cursor   string  // what the client is to keep, "" for nothing
	restored bool    // cursor was put back for a client that had lost it
	since    int     // the session's round when this began
	opening  bool    // counted in session.opening
}

func (t *Transport) reconnect(f *flight) (*http.Response, error) {
	s := f.s
	r := &reconnect{t: t, f: f, cursor: f.req.Header.Get(lastEventIDHeader)}
	s.mu.Lock()
	r.since = s.rounds
	r.st = s.streamForLocked(r.cursor)
	if r.cursor == "" && r.st != nil && len(r.st.bodies) == 0 && validHeaderValue(r.st.cursor) {
		r.cursor, r.restored = r.st.cursor, r.st.cursor != ""
	}
	r.opening = true
	s.opening++
	s.mu.Unlock()
	return r.run()
}

// run sends the GET, holds what it replays, and decides. GET first, probe
// second, always: a probe that was answered before the replay opened says
// nothing about it.
func (r *reconnect) run() (*http.Response, error) {
	s := r.f.s
	r.t.counters.reconnects.Add(1)
	defer r.settled()
	resp, a, err := r.open()
	switch {
	case errors.Is(err, errNoReplay):
		return r.unopened()
	case err != nil:
		return r.broken(err)
	case resp == nil:
		return r.undecided(a, nil, nil)
	case !isReplay(resp):
		r.putBack()
		return r.f.pass(resp, nil)
	}

	s.mu.Lock()
	if r.st == nil && s.standalone == nil {
		s.standalone = &stream{standalone: true, cursor: r.cursor, known: true}
	}
	if r.st == nil {
		r.st = s.standalone
	}
	b := newBody(r.f, resp, r.st)
	r.st.openLocked(b)
	s.mu.Unlock()
	b.hold(r.cursor)
	if !r.f.carry(b) {
		b.discard()
		return r.broken(r.f.aborted())
	}
	return r.judge(resp, b)
}

// open sends the GET until it opens a replay or gets an answer that is not
// about to change. The answer, where there is no response, says what was
// undecided.
func (r *reconnect) open() (*http.Response, answer, error) {
	t, f := r.t, r.f
	deadline := time.Now().Add(t.cfg.ProbeBudget)
	timer := time.AfterFunc(t.cfg.ProbeBudget, func() { f.cancel(errNoReplay) })
	defer timer.Stop()
	// The bound is on the answer's beginning: it must not fall on its body.
	handOn := func(resp *http.Response) (*http.Response, answer, error) {
		if !timer.Stop() {
			resp.Body.Close()
			return nil, answer{}, errNoReplay
		}
		return resp, answer{}, nil
	}

	req := f.req
	if r.restored {
		req = f.req.Clone(f.req.Context())
		req.Header.Set(lastEventIDHeader, r.cursor)
		t.counters.cursorsRestored.Add(1)
		t.observe(Event{Kind: CursorRestored, SessionID: f.s.key.id, LastEventID: r.cursor})
	}
	for attempt := 1; ; attempt++ {
		resp, err := f.roundTrip(req)
		if err != nil {
			if context.Cause(f.req.Context()) == errNoReplay {
				err = errNoReplay
			}
			return nil, answer{}, err
		}
		resp.Request = f.client
		a := answer{status: resp.StatusCode, contentType: contentType(resp)}
		switch status := resp.StatusCode; {
		case isGone(status):
			// MCP 2025-11-25 basic/transports, session management: 404 is what
			// a terminated session's requests get.
			resp.Body.Close()
			dead := t.kill(f.s, &SessionResumptionError{
				SessionID: f.s.key.id, LastEventID: r.cursor, Phase: PhaseReplay, Verdict: Dead,
				StatusCode: status, ContentType: a.contentType, Err: ErrSessionDead,
				Detail: fmt.Sprintf("the reconnect was answered %d", status),
			}, f, nil)
			return nil, a, dead

		case isReplay(resp) && resp.Header.Get("Content-Encoding") != "":
			resp.Body.Close()
			a.detail = fmt.Sprintf("the replay has the unknown encoding %q", clip(resp.Header.Get("Content-Encoding")))
			return nil, a, nil

		case isReplay(resp):
			return handOn(resp)

		case status/100 == 2 && status != http.StatusNoContent && status != http.StatusResetContent:
			// A login page, a proxy's own words: nothing of it is an event.
			resp.Body.Close()
			a.detail = fmt.Sprintf("the reconnect was answered %d with %q", status, a.contentType)
			return nil, a, nil

		case status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500:
			a.after = retryAfter(resp.Header, time.Now())
			a.detail = fmt.Sprintf("the reconnect was answered %d", status)
			resp.Body.Close()
			r.settled()
			wait := max(backoff(attempt), a.after)
			if !time.Now().Add(wait).Before(deadline) || !repeatable(req) {
				return nil, a, nil
			}
			if !sleep(f.req.Context(), wait) {
				return nil, a, context.Cause(f.req.Context())
			}

		case r.restored && status/100 == 4 && status != http.StatusUnauthorized && status != http.StatusForbidden:
			// It may be the cursor that the server cannot resume from, and the
			// client did not ask for it: send what it did ask for.
			resp.Body.Close()
			f.s.forgetCursor(r.cursor)
			r.restored, r.cursor = false, ""
			req = f.req

		default:
			return handOn(resp)
		}
	}
}

// judge waits for the verdict on a session whose replay is held.
func (r *reconnect) judge(resp *http.Response, b *body) (*http.Response, error) {
	t, s := r.t, r.f.s
	held := time.Now()
	t.observe(Event{Kind: Held, SessionID: s.key.id, LastEventID: r.cursor, StatusCode: resp.StatusCode})
	if s.quietNow(held) && b.emptyWithin(emptyTimeout) {
		return r.release(resp, b, answer{}, held)
	}
	round := t.join(r.f, resp.Header["Set-Cookie"], b)
	r.settled() // not before it has joined: the round is about to start
	a, dead, err := t.verdict(r.f.client.Context(), s, round)
	switch {
	case err != nil:
		b.discard()
		return nil, err
	case dead != nil:
		return r.over(dead, b, &held)
	case a.verdict == Live:
		return r.release(resp, b, a, held)
	default:
		return r.undecided(a, b, &held)
	}
}

// verdict waits for the answer of a round that the caller has joined, which is
// Live or Ambiguous, or for the session's death, by whatever hand. err is the
// client's own: ctx has ended, and it no longer wants to know.
func (t *Transport) verdict(ctx context.Context, s *session, round *round) (a answer, dead *SessionResumptionError, err error) {
	defer round.leave(s)
	timer := time.NewTimer(t.cfg.ProbeBudget + waitGrace)
	defer timer.Stop()
	select {
	case <-round.done:
		a = round.answer
	case <-s.over:
	case <-timer.C:
		a.detail = "the probe was not over in time"
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	dead = s.dead
	s.mu.Unlock()
	if dead != nil {
		err = nil
	} else if err == nil && a.verdict == Live {
		a.extra = round.takeExtra(s)
	}
	return a, dead, err
}

// release hands the response on: what is held first, byte for byte, and then
// the stream.
func (r *reconnect) release(resp *http.Response, b *body, a answer, held time.Time) (*http.Response, error) {
	t, s := r.t, r.f.s
	if s.asks(b.whatIsHeld()) {
		// Its cancellation, or its call's answer, may be right behind it.
		catchUp(r.f.client.Context(), []*body{b})
	}
	events, size, said := b.release(a.extra)
	t.counters.live.Add(1)
	t.counters.releasedEvents.Add(uint64(events))
	t.observe(Event{
		Kind: Released, SessionID: s.key.id, LastEventID: r.cursor, Verdict: Live, StatusCode: a.status,
		Events: events, Bytes: int64(size), Duration: time.Since(held),
	})
	t.observeAll(said)
	if len(a.extra) > 0 {
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	resp.Body = b
	return resp, nil
}

// unopened is a GET whose answer has not begun. Some proxies keep the headers
// back until the first event (see docs/rough-edges.md), so this says nothing
// of the session by itself; a probe does.
func (r *reconnect) unopened() (*http.Response, error) {
	round := r.t.join(r.f, nil, nil)
	r.settled()
	a, dead, err := r.t.verdict(r.f.client.Context(), r.f.s, round)
	switch {
	case err != nil:
		r.putBack()
		r.f.end()
		return nil, err
	case dead != nil:
		return r.over(dead, nil, nil)
	case a.verdict == Live:
		return r.comeBack(r.ambiguous(answer{detail: errNoReplay.Error()}, nil, nil), a)
	default:
		return r.undecided(a, nil, nil)
	}
}

// undecided is a reconnect without a verdict. It fails closed: nothing that
// was held is released, and the client keeps its cursor and comes back; after
// Config.AmbiguousRounds of them in a row the session is unusable.
func (r *reconnect) undecided(a answer, b *body, held *time.Time) (*http.Response, error) {
	e, over := r.t.undecided(r.f, r.since, r.cursor, a)
	if over {
		return r.over(e, b, held)
	}
	return r.comeBack(r.ambiguous(a, b, held), a)
}

// ambiguous discards what is held and returns the error that says so.
func (r *reconnect) ambiguous(a answer, b *body, held *time.Time) *SessionResumptionError {
	return r.quarantine(ambiguousError(r.f.s, r.cursor, a), b, held)
}

// undecided counts one round. Where it was the last, the session is over, and
// the error is the one that ended it.
func (t *Transport) undecided(f *flight, since int, cursor string, a answer) (e *SessionResumptionError, over bool) {
	e = ambiguousError(f.s, cursor, a)
	if !f.s.undecided(since, t.cfg.AmbiguousRounds) {
		t.counters.ambiguous.Add(1)
		return e, false
	}
	f.closeBody()
	e.Detail += fmt.Sprintf(", the last of %d rounds without a verdict", t.cfg.AmbiguousRounds)
	return t.kill(f.s, e, f, nil), true
}

func ambiguousError(s *session, cursor string, a answer) *SessionResumptionError {
	phase := PhaseReplay
	if a.probed {
		phase = PhaseProbe
	}
	return &SessionResumptionError{
		SessionID: s.key.id, LastEventID: cursor, Phase: phase, Verdict: Ambiguous,
		StatusCode: a.status, ContentType: a.contentType, Err: ErrLivenessUnknown, Detail: a.detail,
	}
}

// over is the terminal outcome of this reconnect.
func (r *reconnect) over(dead *SessionResumptionError, b *body, held *time.Time) (*http.Response, error) {
	s := r.f.s
	<-s.over
	e := dead.with(func(e *SessionResumptionError) {
		e.LastEventID = r.cursor
		if r.st != nil && !r.st.standalone {
			e.OutcomeUnknown = true // the stream was to bring a call's answer
		}
	})
	e = r.quarantine(e, b, held)
	r.t.amend(s.key, e)
	r.f.end()
	return r.t.terminal(r.f.client, e)
}

// quarantine discards what is held, if anything, and records it in e.
func (r *reconnect) quarantine(e *SessionResumptionError, b *body, held *time.Time) *SessionResumptionError {
	t := r.t
	event := Event{
		Kind: Quarantined, SessionID: e.SessionID, LastEventID: e.LastEventID,
		Verdict: e.Verdict, StatusCode: e.StatusCode,
	}
	if b != nil {
		records, events, size := b.discard()
		e.Quarantined, e.QuarantinedEvents = records, events
		event.Events, event.Bytes, event.Duration = events, int64(size), time.Since(*held)
		t.counters.quarantined.Add(uint64(events))
	} else if e.Verdict == Dead {
		return e // nothing was held: the death itself is reported
	}
	event.Err = e
	t.observe(event)
	return e
}

// comeBack answers so that the client keeps its cursor and reconnects later.
func (r *reconnect) comeBack(e *SessionResumptionError, a answer) (*http.Response, error) {
	r.putBack()
	r.f.end()
	retry := a.after
	if retry == 0 {
		retry = time.Second << min(max(r.since, 0), 5)
		retry += rand.N(retry / 5)
	}
	extra := r.t.reconcileExtra(r.f.s, a.extra)
	r.t.observeAll(extra.events)
	if extra.owes {
		r.f.s.settleAll()
	}
	resp := comeBackResponse(r.f.client, e, r.cursor, min(retry, maxRetry), extra.data)
	if len(extra.given) > 0 {
		resp.Body = &countedBody{ReadCloser: resp.Body, closed: func(read int64) {
			r.f.s.ledger.takeBack(slices.DeleteFunc(extra.given, func(d delivery) bool { return d.end <= read }))
		}}
	}
	return resp, nil
}

// broken is a GET that got no answer: the client's own network error, unless
// the session's death is behind it.
func (r *reconnect) broken(err error) (*http.Response, error) {
	var dead *SessionResumptionError
	if errors.As(err, &dead) {
		r.f.s.mu.Lock()
		if r.f.s.dead != nil {
			dead = r.f.s.dead
		}
		r.f.s.mu.Unlock()
		return r.over(dead, nil, nil)
	}
	r.putBack()
	r.f.end()
	return nil, err
}

// settled says that this reconnect no longer is about to open a replay.
func (r *reconnect) settled() {
	s := r.f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.opening {
		return
	}
	r.opening = false
	s.opening--
	if s.opening == 0 && s.opened != nil {
		close(s.opened)
		s.opened = nil
	}
}

// putBack leaves a stream that was taken up and not opened where the next
// reconnect finds it.
func (r *reconnect) putBack() {
	if r.st == nil {
		return
	}
	s := r.f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.st.bodies) == 0 {
		if !r.st.known {
			r.st.cursor, r.st.known = r.cursor, true
		}
		s.keepLocked(r.st)
	}
}

// isReplay reports whether an answer is an event stream. Every 2xx counts:
// clients read on.
func isReplay(resp *http.Response) bool {
	return resp.StatusCode/100 == 2 && mediaType(resp.Header) == "text/event-stream"
}

// repeatable reports whether a GET can be sent once more.
func repeatable(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }
