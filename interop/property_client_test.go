package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// This file is the model client of the property tests: it sends what it is told
// to, parses what it is handed with a naive parser of its own, and keeps what it
// applied and how every RoundTrip and every Read ended. Below it, and below the
// middleware, wire watches what reaches the network.

// trip is one request of the client's, from RoundTrip to the end of the body.
type trip struct {
	n    int
	what string // "get", "call", "delete", "initialize"
	s    *session
	st   *stream // that it opens or resumes, nil for none

	cursor    string // as the client sends it
	stale     string // the id of an old session, on an initialize
	reconnect bool   // in the sense of DESIGN 4.2
	applied   string // the cursor of what the client has applied of the stream
	mayBare   bool   // the middleware cannot know that cursor, and the client sends none

	plan []getAnswer // how the server answers, attempt by attempt
	gets []getAnswer // what is left of it, the server's
	call callAnswer

	buffer int           // of one Read
	limit  int           // bytes after which the client closes the body, 0: none
	lag    time.Duration // before the first Read

	slow time.Duration // how long the network keeps an answer, whatever its context says

	cancel context.CancelCauseFunc

	// Guarded by world.mu.
	ex        *exchange // on which the server sends its stream
	posts     int       // that have left the middleware
	startedAt time.Time
	startTick int

	returned   bool // RoundTrip has
	returnedAt time.Time
	status     int
	err        error // of RoundTrip
	own        error // the middleware's, in a response or as err
	sse        bool

	body     io.ReadCloser
	got      []byte
	reading  bool      // in Read, or about to
	readsAt  time.Time // when the client began to
	finished bool      // its goroutine has nothing more to do
	over     bool      // the body has ended or was closed
	overAt   time.Time
	readErr  error

	givenUpAt time.Time // the client cancelled it
	closedAt  time.Time // the client closed its body

	appliedIn []int // the events' numbers, in order
	noteBytes int   // of got, from the answers to probes
	lastID    string

	says // as a POST of the client's

	up       *upstream // of the answer
	gotAt    []reached
	at       moment // in which RoundTrip returned
	endAt    moment // in which the body had ended
	failedAt moment // in which its call was failed, zero for never
}

// gaveUp reports whether the client itself has ended the trip. mu is held.
func (tr *trip) gaveUp() bool { return !tr.givenUpAt.IsZero() || !tr.closedAt.IsZero() }

// terminal reports whether err says that a session is over.
func terminal(err error) bool {
	var e *middleware.SessionResumptionError
	return errors.As(err, &e)
}

// start sends a trip. mu is held.
func (w *world) start(rt http.RoundTripper, tr *trip) {
	ctx, cancel := context.WithCancelCause(context.Background())
	tr.cancel = cancel
	method, body := http.MethodPost, ""
	switch tr.what {
	case "get":
		method = http.MethodGet
	case "delete":
		method = http.MethodDelete
	default:
		name := "tools/call"
		if tr.what == "initialize" {
			name = "initialize"
		}
		body = `{"jsonrpc":"2.0","id":` + strconv.Itoa(tr.n) + `,"method":"` + name + `"}`
		if tr.text != "" {
			body = tr.text
		}
	}
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	if tr.once {
		r = io.MultiReader(r) // net/http cannot read it again
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://mcp.test/mcp", r)
	if err != nil {
		panic(err)
	}
	req.Header.Set(tripHeader, strconv.Itoa(tr.n))
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if id := tr.stale; id != "" {
		req.Header.Set(sessionHeader, id)
	} else if tr.what != "initialize" {
		req.Header.Set(sessionHeader, tr.s.id)
	}
	if tr.cursor != "" {
		req.Header.Set(cursorHeader, tr.cursor)
	}
	tr.startedAt, tr.startTick = time.Now(), w.tock()
	w.notef("trip %d: %s on %s, cursor %q, reconnect %v", tr.n, tr.what, tr.s.id, tr.cursor, tr.reconnect)
	go w.run(rt, tr, req)
}

func (w *world) run(rt http.RoundTripper, tr *trip, req *http.Request) {
	defer func() {
		failed := recover()
		w.mu.Lock()
		defer w.mu.Unlock()
		if failed != nil {
			w.violate(panics, "trip %d: %v\n%s", tr.n, failed, debug.Stack())
		}
		tr.finished = true
	}()
	resp, err := rt.RoundTrip(req)

	w.mu.Lock()
	tick := w.tock()
	tr.returned, tr.returnedAt, tr.err = true, time.Now(), err
	tr.at = w.moment()
	if terminal(err) {
		tr.own = err
	}
	if resp != nil {
		tr.status, tr.own = resp.StatusCode, middleware.ErrorFrom(resp)
		tr.sse = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
		tr.body = resp.Body
	}
	w.notef("trip %d: RoundTrip returns %d, own %v, err %v", tr.n, tr.status, tr.own, err)
	over := tr.own != nil && (tr.status == http.StatusNotFound || err != nil)
	if over {
		w.checkTold(tr)
	}
	if over || tr.what == "delete" && tr.status/100 == 2 {
		if tr.s.fencedTick == 0 {
			tr.s.fencedTick, tr.s.fencedAt = tick, time.Now()
		}
	}
	if tr.sse && tr.own == nil && tr.st != nil {
		tr.st.opened = true
	}
	w.checkReturn(tr)
	w.checkRefused(tr, tr.own)
	w.checkShown(tr)
	if resp == nil {
		tr.over, tr.overAt = true, time.Now()
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()

	if tr.lag > 0 {
		wait(req.Context(), tr.lag)
	}
	w.read(tr)
	resp.Body.Close()
	w.mu.Lock()
	switch {
	case tr.sse && tr.own == nil:
		w.checkBody(tr)
	case tr.sse && tr.lastID != tr.cursor && tr.cursor != "":
		w.violate(cursorLost, "trip %d came with %q and was given %q", tr.n, tr.cursor, tr.lastID)
	}
	w.mu.Unlock()
}

// read reads and applies a body to its end, or to where the client has had
// enough.
func (w *world) read(tr *trip) {
	buf := make([]byte, tr.buffer)
	parser := &lineParser{}
	w.mu.Lock()
	tr.reading, tr.readsAt = true, time.Now()
	w.mu.Unlock()
	for {
		w.mu.Lock()
		enough := tr.limit > 0 && len(tr.got) >= tr.limit && tr.own == nil
		if enough && tr.closedAt.IsZero() {
			tr.closedAt = time.Now()
			tr.s.abandoned++
			w.notef("trip %d: the client closes the body after %d bytes", tr.n, len(tr.got))
		}
		w.mu.Unlock()
		if enough {
			break
		}
		n, err := tr.body.Read(buf)

		w.mu.Lock()
		tick := w.tock()
		tr.got = append(tr.got, buf[:n]...)
		if n > 0 {
			tr.gotAt = append(tr.gotAt, reached{len(tr.got), w.moment()})
		}
		if tr.sse {
			for _, e := range parser.feed(buf[:n]) {
				w.apply(tr, e, tick)
			}
		}
		if err != nil {
			tr.readErr = err
			w.notef("trip %d: Read returns %v after %d bytes", tr.n, err, len(tr.got))
			w.mu.Unlock()
			break
		}
		w.mu.Unlock()
	}
	w.mu.Lock()
	tr.reading, tr.over, tr.overAt = false, true, time.Now()
	tr.endAt = w.moment()
	w.mu.Unlock()
}

// apply is what an application does with an event: it cannot be undone. mu is
// held.
func (w *world) apply(tr *trip, e sseEvent, tick int) {
	if e.hasID && tr.st != nil {
		tr.lastID, tr.st.cursor = e.id, e.id
	}
	if e.hasID && strings.HasPrefix(e.id, "probe-") {
		w.violate(foreignCursor, "trip %d was given the cursor %q of a probe's answer", tr.n, e.id)
	}
	if e.data == "" {
		return
	}
	if w.cfg.pending {
		w.applySays(tr, e)
		return
	}
	type stamp struct{ N int }
	var m struct{ Params, Result *stamp }
	if err := json.Unmarshal([]byte(e.data), &m); err != nil || m.Params == nil && m.Result == nil {
		w.violate(notTheServers, "trip %d was handed the event %q", tr.n, e.data)
		return
	}
	n := 0
	if m.Params != nil {
		n = m.Params.N
	} else {
		n = m.Result.N
	}
	ev := w.events[n]
	if ev == nil {
		w.violate(notTheServers, "trip %d was handed the unknown event %d", tr.n, n)
		return
	}
	tr.appliedIn = append(tr.appliedIn, n)
	if tr.st != nil && ev.st != nil {
		tr.st.applied = append(tr.st.applied, n)
	}
	w.notef("trip %d: applies event %d", tr.n, n)
	w.checkApplied(tr, ev)
}

// giveUp cancels a trip's context, whatever it is at. mu is held.
func (w *world) giveUp(tr *trip) {
	if tr.givenUpAt.IsZero() {
		tr.givenUpAt = time.Now()
		tr.s.abandoned++
	}
	w.notef("trip %d: the client cancels it", tr.n)
	tr.cancel(errGivenUp)
}

// shut closes a trip's body, while it is read. mu is held.
func (w *world) shut(tr *trip) {
	if tr.closedAt.IsZero() {
		tr.closedAt = time.Now()
		tr.s.abandoned++
	}
	w.notef("trip %d: the client closes the body", tr.n)
	go tr.body.Close()
}

// sseEvent is one block, dispatched or not.
type sseEvent struct {
	id    string
	hasID bool
	data  string
}

// lineParser is WHATWG's grammar, a byte at a time.
type lineParser struct {
	line    []byte
	afterCR bool
	started bool
	cur     sseEvent
	fields  bool
	lines   []string
}

func (p *lineParser) feed(b []byte) (out []sseEvent) {
	for _, c := range b {
		if c == '\n' && p.afterCR {
			p.afterCR = false
			continue
		}
		p.afterCR = c == '\r'
		if c != '\n' && c != '\r' {
			p.line = append(p.line, c)
			continue
		}
		line := string(p.line)
		p.line = p.line[:0]
		if !p.started {
			line, p.started = strings.TrimPrefix(line, "\uFEFF"), true
		}
		if line == "" {
			if p.fields {
				p.cur.data = strings.Join(p.lines, "\n")
				out = append(out, p.cur)
			}
			p.cur, p.fields, p.lines = sseEvent{}, false, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		if name == "" {
			continue
		}
		p.fields = true
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			p.cur.id, p.cur.hasID = value, true
		case "data":
			p.lines = append(p.lines, value)
		}
	}
	return out
}

// whole is the length of the part of a stream that may be handed on: up to the
// end of its last event, or of what stands between events.
func whole(b []byte) int {
	last, fields := 0, false
	i := 0
	if bytes.HasPrefix(b, []byte("\uFEFF")) {
		i, last = 3, 3
	}
	for i < len(b) {
		j := bytes.IndexAny(b[i:], "\r\n")
		if j < 0 {
			break
		}
		line, next := b[i:i+j], i+j+1
		if b[i+j] == '\r' && next < len(b) && b[next] == '\n' {
			next++
		}
		switch {
		case len(line) == 0:
			fields, last = false, next
		case line[0] == ':' && !fields:
			last = next
		case line[0] != ':':
			fields = true
		}
		i = next
	}
	return last
}

// wire is the network as the middleware sees it.
type wire struct {
	w    *world
	base *http.Transport
}

// passage is one request between RoundTrip's beginning and its return.
type passage struct {
	tr       *trip
	probe    bool
	orphanAt time.Time // since when nobody has wanted it
}

// upstream is a response body of the network's.
type upstream struct {
	io.ReadCloser
	w          *world
	tr         *trip
	get, probe bool
	openedAt   time.Time
	read       int
	readAt     []reached
	closed     bool
}

func (x *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w := x.w
	w.mu.Lock()
	n, _ := strconv.Atoi(req.Header.Get(tripHeader))
	p := &passage{tr: w.trips[n]}
	// A POST that the client has not sent is a probe; under a lease also one
	// for the stream of a call.
	if req.Method == http.MethodPost {
		p.tr.posts++
		p.probe = p.tr.what == "get" || p.tr.posts > 1
	}
	if req.Context().Err() == nil {
		w.checkWire(p.tr, req)
	}
	w.wire[p] = true
	lost := p.tr.lost
	if p.probe {
		lost = arrives
	}
	w.mu.Unlock()
	var resp *http.Response
	err := errOnTheWay
	if lost == lostBefore {
		_, _ = io.Copy(io.Discard, req.Body) // it is on the connection
		req.Body.Close()
	} else {
		resp, err = x.base.RoundTrip(req)
	}
	if lost == lostAfter && err == nil {
		resp.Body.Close()
		err = errOnTheWay
	}
	if err == nil && p.tr.slow > 0 {
		<-time.After(p.tr.slow) // of the bubble's time
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.wire, p)
	if err != nil {
		return nil, err
	}
	u := &upstream{
		ReadCloser: resp.Body, w: w, tr: p.tr, get: req.Method == http.MethodGet, probe: p.probe,
		openedAt: time.Now(),
	}
	if !p.probe {
		p.tr.up = u
	}
	w.bodies = append(w.bodies, u)
	resp.Body = u
	return resp, nil
}

func (x *wire) CloseIdleConnections() { x.base.CloseIdleConnections() }

func (u *upstream) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.w.mu.Lock()
	u.read += n
	u.readAt = append(u.readAt, reached{u.read, u.w.moment()})
	u.w.checkHeld(u)
	u.w.mu.Unlock()
	return n, err
}

func (u *upstream) Close() error {
	err := u.ReadCloser.Close()
	u.w.mu.Lock()
	u.closed = true
	u.w.mu.Unlock()
	return err
}
