package interop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// This file is what the model server asks the model client, DESIGN 4.5, and
// what the client answers. What it means is checked at the end of each check,
// in property_pending_checks_test.go.

// TestPropertyPending: the servers of the other tests also send requests, which
// break off, come again, are answered, withdrawn or forgotten.
func TestPropertyPending(t *testing.T) {
	checkProperties(t, profile{deaths: true, faults: true, pending: true})
}

// moment orders what happens: first by what has come to rest in between, then
// by virtual time, which goes by only while everything rests. What happens in
// one moment is in no order.
type moment struct {
	epoch int
	at    time.Time
}

func (w *world) moment() moment { return moment{w.epoch, time.Now()} }

func (m moment) before(o moment) bool {
	return m.epoch < o.epoch || m.epoch == o.epoch && m.at.Before(o.at)
}

// reached is when a stream had come to n bytes.
type reached struct {
	n int
	moment
}

// history is what a replay brings.
type history int

const (
	afterCursor history = iota // what comes after the cursor
	fromCursor                 // the cursor's own event as well
	fromStart                  // everything
)

func (h history) of(st *stream, at int) []*event {
	switch {
	case h == fromCursor && at > 0:
		at--
	case h == fromStart:
		at = 0
	}
	return st.log[at:]
}

// questions is what a session's server and client have asked each other.
type questions struct {
	history history
	asserts bool // the server says that it waits, whenever it sends a request
	asks    []*ask
	calls   []*call
}

// ask is one request of the server's.
type ask struct {
	s      *session
	id     int
	method string
	st     *stream // that it was sent on first, nil for a probe's answer
	waits  bool    // the server has not given it up
	tokens int     // that it has been sent with

	prompts []prompt
	answers []*trip
}

func (a *ask) ping() bool { return a.method == "ping" }

// prompt is an ask that has reached the application.
type prompt struct {
	tr    *trip
	at    moment
	token string
}

// call is one request of the client's that is answered with a stream.
type call struct {
	id     string // in JSON
	st     *stream
	closed bool // the server has answered it

	answered  int // times that the client was given that
	failed    []failure
	withdrawn *trip
}

// failure is an error of the middleware's in place of an answer.
type failure struct {
	tr      *trip
	at      moment
	request string // that it names, in JSON
	number  int    // the same
	method  string
	reason  string
}

// saidKind is what a message is.
type saidKind int

const (
	anyNote saidKind = iota // or a ping: always passes
	request
	response
	cancellation
	failed // by the middleware
)

// utterance is a message in an event of the server's.
type utterance struct {
	kind saidKind
	ask  *ask
	call *call
	id   string // as it is written here
}

// text is the message on the wire, in pieces between which a line may end.
func (u *utterance) text(e *event, size int) []string {
	head, key, more := []string{`"method":"notifications/message",`}, "params", ""
	switch u.kind {
	case request:
		method := strconv.Quote(u.ask.method)
		if e.n%5 == 0 {
			method = strings.ReplaceAll(method, "/", `\/`)
		}
		if head = []string{`"id":` + u.id + `,"method":`, method + ","}; e.n%3 == 0 {
			head = []string{`"method" : ` + method + `,"id":` + u.id + ","}
		}
		if u.ask.s.asserts {
			more = fmt.Sprintf(`,"_meta":{"revenant/livenessToken":"t%d"}`, u.ask.tokens)
		}
	case response:
		head, key = []string{`"id":` + u.id + ","}, "result"
	case cancellation:
		head, more = []string{`"method":"notifications/cancelled",`}, `,"requestId":`+u.id
	}
	text := append([]string{`{"jsonrpc":"2.0",`}, head...)
	return append(text, fmt.Sprintf(`%q:{"n":%d,"pad":%q%s}}`, key, e.n, strings.Repeat("x", size), more))
}

// newSays makes an event of these messages, of several a batch. mu is held.
func (w *world) newSays(s *session, st *stream, shape int, withID bool, says ...*utterance) *event {
	e := w.newEvent(s, st, shape, 0, withID, "")
	e.says = says
	e.render()
	return e
}

func (e *event) render() {
	size := e.shape % 37
	if len(e.says) == 1 {
		e.frame(e.says[0].text(e, size)...)
		return
	}
	data := []string{"["}
	for i, u := range e.says {
		if i > 0 {
			data = append(data, ",")
		}
		data = append(data, strings.Join(u.text(e, size), ""))
	}
	e.frame(append(data, "]")...)
}

// sending is an event as it is now sent again: a request that the server still
// waits for says so by another token. mu is held.
func (w *world) sending(e *event) []byte {
	renewed := false
	for _, u := range e.says {
		if u.kind == request && u.ask.s.asserts && u.ask.waits && e.s.alive {
			u.ask.tokens++
			renewed = true
		}
	}
	if renewed {
		e.render()
	}
	return e.raw
}

// says is a POST of the client's that answers requests, or withdraws a call.
type says struct {
	text      string // in place of a call
	once      bool   // the body cannot be read again
	answers   []*ask
	mixed     bool // with something else
	withdraws *call
	lost      lostKind
	gave      int // the status that the server gave
}

// lostKind is where a request is lost on the way.
type lostKind int

const (
	arrives    lostKind = iota
	lostBefore          // the server has seen it
	lostAfter
)

var errOnTheWay = errors.New("the model network has lost it")

// name gives a call its id, or the ids of a batch. mu is held.
func (m *machine) name(tr *trip) {
	if tr.what != "call" {
		return
	}
	tr.once = tr.n%3 == 0
	var texts []string
	next := func() *call {
		c := &call{id: strconv.Itoa(len(tr.s.calls) + 1), st: tr.st}
		if len(tr.s.calls)%3 == 2 {
			c.id = strconv.Quote(strconv.Itoa(len(tr.s.calls))) // which is not that number
		}
		texts = append(texts, `{"jsonrpc":"2.0","id":`+c.id+`,"method":"tools/call","params":{}}`)
		tr.s.calls = append(tr.s.calls, c)
		return c
	}
	first := next()
	tr.text = texts[0]
	if st := tr.st; st != nil {
		st.calls = []*call{first}
		switch tr.n % 9 {
		case 7:
			tr.text = "[" + texts[0] + "]"
		case 8:
			st.calls = append(st.calls, next())
			tr.text = "[" + strings.Join(texts, ",") + "]"
		}
	}
}

// theCall returns the one call that a stream is the answer to, or nil.
func (st *stream) theCall() *call {
	if st == nil || len(st.calls) != 1 {
		return nil
	}
	return st.calls[0]
}

// answer is how the server takes a POST of answers.
func (w *world) answer(rw http.ResponseWriter, r *http.Request, ex *exchange) {
	tr := ex.trip
	if !wait(r.Context(), tr.call.delay) {
		return
	}
	if !ex.alive {
		w.lost(rw, ex.s, ex.s.gone)
		return
	}
	w.mu.Lock()
	if tr.gave = tr.call.status; tr.gave == 0 {
		tr.gave = http.StatusAccepted
	}
	if tr.gave/100 == 2 {
		for _, a := range tr.answers {
			a.waits = false
		}
		if tr.withdraws != nil {
			for _, a := range ex.s.asks {
				a.waits = a.waits && a.st.theCall() != tr.withdraws
			}
		}
	}
	w.notef("  server: trip %d is answered %d", tr.n, tr.gave)
	w.mu.Unlock()
	if tr.gave/100 == 2 {
		rw.WriteHeader(tr.gave)
		return
	}
	plainText(rw, tr.gave, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
}

// said is a message as it is read off the wire.
type said struct {
	raw    string
	kind   saidKind
	n      int
	id     string // of the request or call, in JSON
	number int    // the same, for a request of the server's
	method string
	token  string
	fail   failure
}

func readSaid(raw []byte) (m said, ok bool) {
	var v struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params *struct {
			N         int
			RequestID json.Number    `json:"requestId"`
			Meta      map[string]any `json:"_meta"`
		} `json:"params"`
		Result *struct{ N int } `json:"result"`
		Error  *struct {
			Code int `json:"code"`
			Data struct {
				Reason    string          `json:"reason"`
				Method    string          `json:"method"`
				RequestID json.RawMessage `json:"requestId"`
			} `json:"data"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &v) != nil {
		return said{}, false
	}
	m = said{raw: string(raw), id: string(v.ID), method: v.Method}
	switch {
	case v.Error != nil && v.Error.Code == -32001:
		n, _ := strconv.ParseFloat(string(v.Error.Data.RequestID), 64)
		m.kind, m.fail = failed, failure{number: int(n), request: string(v.Error.Data.RequestID), method: v.Error.Data.Method, reason: v.Error.Data.Reason}
		return m, true
	case v.Error != nil:
		return said{}, false
	case v.Result != nil:
		m.kind, m.n = response, v.Result.N
	case v.Params == nil:
		return said{}, false
	case v.Method == "notifications/cancelled":
		m.kind, m.n, m.id = cancellation, v.Params.N, string(v.Params.RequestID)
	case m.id != "":
		m.n = v.Params.N
		if m.kind = request; m.method == "ping" {
			m.kind = anyNote
		}
		m.token, _ = v.Params.Meta["revenant/livenessToken"].(string)
	default:
		m.n = v.Params.N
	}
	if f, err := strconv.ParseFloat(m.id, 64); err == nil {
		m.number = int(f)
	}
	return m, true
}

// readAll reads the messages of an event, and whether they are a batch.
func readAll(data string) (all []said, batch, ok bool) {
	if data == "" {
		return nil, false, true
	}
	raws := []json.RawMessage{json.RawMessage(data)}
	if batch = strings.HasPrefix(data, "["); batch {
		if json.Unmarshal([]byte(data), &raws) != nil {
			return nil, true, false
		}
	}
	for _, raw := range raws {
		m, ok := readSaid(raw)
		if !ok {
			return nil, batch, false
		}
		all = append(all, m)
	}
	return all, batch, true
}

func (s *session) askOf(number int) *ask {
	for _, a := range s.asks {
		if a.id == number {
			return a
		}
	}
	return nil
}

func (s *session) callOf(id string) *call {
	for _, c := range s.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// applySays is what an application does with the messages of an event. mu is
// held.
func (w *world) applySays(tr *trip, e sseEvent) {
	all, _, ok := readAll(e.data)
	if !ok || len(all) == 0 {
		w.violate(notTheServers, "trip %d was handed the event %q", tr.n, e.data)
		return
	}
	applied := false
	for _, m := range all {
		if m.kind == failed {
			w.applyFailure(tr, m)
			continue
		}
		ev := w.events[m.n]
		if ev == nil {
			w.violate(notTheServers, "trip %d was handed the unknown event %d", tr.n, m.n)
			return
		}
		if !applied {
			applied = true
			tr.appliedIn = append(tr.appliedIn, m.n)
			if tr.st != nil && ev.st != nil && ev.quiet() {
				tr.st.apply(m.n)
			}
			w.notef("trip %d: applies event %d", tr.n, m.n)
			w.checkApplied(tr, ev)
		}
		switch {
		case m.kind == request, m.method == "ping":
			w.prompted(tr, m)
		case m.kind == response:
			if c := tr.s.callOf(m.id); c != nil {
				c.answered++
			}
		}
	}
}

// quiet reports whether nothing of an event can be suppressed.
func (e *event) quiet() bool {
	for _, u := range e.says {
		if u.kind == request && !u.ask.ping() || u.kind == response {
			return false
		}
	}
	return true
}

// apply notes an event that the client applies, but not one that it has applied
// and is given again by a server that replays more than it should.
func (st *stream) apply(n int) {
	if st.s.history != afterCursor {
		for _, had := range st.applied {
			if had == n {
				return
			}
		}
	}
	st.applied = append(st.applied, n)
}

func (w *world) prompted(tr *trip, m said) {
	a := tr.s.askOf(m.number)
	if a == nil {
		w.violate(notTheServers, "trip %d was handed %s", tr.n, m.raw)
		return
	}
	w.notef("trip %d: request %d of %s, token %q", tr.n, a.id, tr.s.id, m.token)
	if len(a.prompts) > 0 && m.token == "" && !a.ping() && w.cfg.policy != middleware.PendingOff {
		w.violate(askedTwice, "request %d of %s, by trip %d", a.id, tr.s.id, tr.n)
	}
	a.prompts = append(a.prompts, prompt{tr, w.moment(), m.token})
}

func (w *world) applyFailure(tr *trip, m said) {
	w.notef("trip %d: call %s of %s is failed, for request %s", tr.n, m.id, tr.s.id, m.fail.request)
	c := tr.s.callOf(m.id)
	if c == nil || w.cfg.policy == middleware.PendingOff {
		w.violate(wronglyFailed, "trip %d was handed %s", tr.n, m.raw)
		return
	}
	f := m.fail
	f.tr, f.at = tr, w.moment()
	if c.failed = append(c.failed, f); len(c.failed) > 1 {
		w.violate(wronglyFailed, "call %s of %s is failed again", c.id, tr.s.id)
	}
	if tr.st == c.st {
		tr.failedAt = f.at
	}
}

// observed notes what the middleware reports. mu is held.
func (w *world) observed(e middleware.Event) {
	if e.Kind != middleware.Stale {
		return
	}
	w.staled = append(w.staled, e)
	if c := w.byID(e.SessionID).callOf(e.OriginRequestID); c != nil {
		w.due = append(w.due, c)
	}
}

// checkShown is the refusal of an answer, which is not shown to the client as
// the end of its session. Only where all of a POST is answers to requests that
// are known, another answer takes its place; everything else is shown. mu is
// held.
//
// Kept by: Transport.replied (hide), receptionOf, ledger.reply (known).
func (w *world) checkShown(tr *trip) {
	if tr.what != "answer" || tr.err != nil || terminal(tr.own) || tr.gave == 0 {
		return
	}
	hidden := w.cfg.policy != middleware.PendingOff && receptionOf(tr) == refused && len(tr.answers) > 0 && !tr.mixed
	for _, a := range tr.answers {
		hidden = hidden && !a.ping() && len(a.prompts) > 0
	}
	want := tr.gave
	if hidden {
		want = http.StatusAccepted
	}
	if tr.status != want {
		w.violate(refusalShown, "trip %d was answered %d, the client is shown %d, want %d", tr.n, tr.gave, tr.status, want)
	}
}

// reception is what the middleware can know of an answer.
type reception int

const (
	nothing reception = iota
	taken
	refused
	unknown
	postponed
)

// receptionOf says what became of an answer that has returned.
func receptionOf(tr *trip) reception {
	switch {
	case !tr.returned || terminal(tr.own):
		return nothing
	case tr.err != nil:
		return unknown
	case tr.gave/100 == 2:
		return taken
	case tr.gave == http.StatusUnauthorized || tr.gave == http.StatusForbidden:
		return postponed
	case tr.gave == http.StatusConflict || tr.gave == http.StatusTooManyRequests || tr.gave/100 == 5:
		return unknown
	case tr.gave == 0:
		return nothing
	default:
		return refused
	}
}
