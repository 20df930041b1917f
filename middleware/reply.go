package middleware

import (
	"errors"
	"net/http"
	"time"
)

// reply is a POST of the client's while requests of the server's are pending:
// it may answer them, or withdraw calls.
type reply struct {
	answers   []rpcID
	withdrawn []rpcID
	others    bool // it has something else in it, too
}

func readReply(data []byte) reply {
	var r reply
	for _, raw := range messages(data) {
		switch m := readMessage(raw); m.kind {
		case responseMessage:
			r.answers = append(r.answers, m.id)
		case cancelMessage:
			r.withdrawn = append(r.withdrawn, m.id)
		default:
			r.others = true
		}
	}
	return r
}

// outcomeOf says what became of an answer. 401, 403 and 407 ask for other
// credentials, with which the client may send it again, and a redirect asks
// for it at another place.
func outcomeOf(resp *http.Response, err error) outcome {
	if err != nil {
		return unanswered
	}
	switch status := resp.StatusCode; {
	case status/100 == 2:
		return accepted
	case status/100 == 3, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return deferred
	case transient(status):
		return unanswered
	default:
		return refused
	}
}

// replied learns from a POST and what the server said to it. A refused answer
// is the business of the call that has asked: where all of the POST was
// answers, the client gets a 202 in its place, since go-sdk takes a 400 for the
// end of its session. instead is that answer, nil if the server's stands.
func (t *Transport) replied(f *flight, resp *http.Response, err error) (instead *http.Response) {
	var dead *SessionResumptionError
	if errors.As(err, &dead) || err == nil && isGone(resp.StatusCode) {
		return nil
	}
	r := readReply(f.said.bytes())
	l := f.s.ledger
	what := outcomeOf(resp, err)
	now := time.Now()
	hide := what == refused && len(r.answers) > 0 && !r.others && len(r.withdrawn) == 0
	var first error
	for _, id := range r.answers {
		known, st, stale := l.reply(id, what, now)
		hide = hide && known
		if stale == nil {
			continue
		}
		if first == nil {
			first = stale
		}
		t.counters.stale.Add(1)
		t.observe(Event{
			Kind: Stale, SessionID: f.s.key.id, StatusCode: resp.StatusCode, Err: stale,
			RequestID: clip(id.raw), RPCMethod: stale.Method, OriginRequestID: stale.OriginRequestID,
		})
		f.s.settle(st)
	}
	if what == accepted {
		for _, call := range r.withdrawn {
			l.abandoned(call)
		}
	}
	if !hide {
		return nil
	}
	resp.Body.Close()
	return ownResponse(f.client, http.StatusAccepted, "", nil, first)
}

// settleAll says what is owed to the calls of all open streams.
func (s *session) settleAll() {
	streams := make(map[*stream]bool)
	s.mu.Lock()
	for f := range s.flights {
		if b, ok := f.body.(*body); ok {
			streams[b.st] = true
		}
	}
	s.mu.Unlock()
	for st := range streams {
		s.settle(st)
	}
}

// settle says what is owed to a stream's call, if the stream is open. An old
// body may linger when it is resumed, and nobody read it.
func (s *session) settle(st *stream) {
	if st == nil {
		return
	}
	s.mu.Lock()
	var latest *body
	if n := len(st.bodies); n > 0 {
		latest = st.bodies[n-1]
	}
	s.mu.Unlock()
	if latest != nil {
		latest.settle()
	}
}
