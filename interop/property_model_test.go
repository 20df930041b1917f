package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/internal/memnettest"
	"github.com/revenant-mcp/revenant/middleware"
)

// This file is the model server of the property tests: several sessions, each
// with a record in a store and an event log that outlives it. It writes its own
// wire bytes, knows for every request whether the record was there when it
// arrived, and shares no code with the middleware.

const (
	sessionHeader = "Mcp-Session-Id"
	cursorHeader  = "Last-Event-Id"
	tripHeader    = "X-Trip" // which of the client's requests this is, also on its probes
)

// world is the truth: all that the server did, all that the client got, and in
// which order. Everything in it is guarded by mu; its slices only grow.
type world struct {
	cfg  limits
	now0 time.Time
	srv  *http.Server
	net  *memnettest.Listener

	served chan struct{} // closed when srv has ended

	mu        sync.Mutex
	tick      int // orders what happens in one instant of virtual time
	sessions  []*session
	trips     []*trip
	exchanges []*exchange
	bodies    []*upstream
	wire      map[*passage]bool
	events    map[int]*event
	lines     []string // what happened, for the report of a failure
	found     *violation

	epoch  int                // grows whenever nothing moves any more
	staled []middleware.Event // that the middleware has reported
	due    []*call            // that it has failed, and that have not been told
}

// limits is what the checks need to know of the Config under test.
type limits struct {
	timeout, budget, lease time.Duration
	maxHeld, maxEvent      int
	rounds                 int

	pending    bool // the server asks the client
	policy     middleware.Pending
	staleGrace time.Duration
}

// session is one session on the server, and what the checks know of it.
type session struct {
	id      string
	alive   bool      // its record is in the store
	gone    int       // the status that a request for a lost record gets: 404 or 410
	shape   int       // how its event ids look
	streams []*stream // the first is the standalone one

	born, died time.Time
	diedTick   int     // when the record went, 0: never
	plain      bool    // lost for good, and every later request is answered so at once
	plainTick  int     // since when
	plainGET   bool    // as GETs are then: a replay, or like everything else
	plainEnd   endKind // how a replay ends then
	conflict   bool    // a GET of a stream that is attached gets 409
	ended      bool    // the client has ended it with DELETE

	probes []probeAnswer // planned, in order
	notes  []*event      // queued for the next probe that is answered with SSE

	probed    []*exchange // probes that have arrived
	noted     *exchange   // the last probe that was answered as life when a note was applied
	noteBytes int         // that were applied since
	proofs    []time.Time // when requests arrived that were answered as life

	// faulty: the server has answered something that a live session's server
	// should not, or has been slow; a reconnect may end without a verdict.
	// condemned: it has said 404, 410 or another session's name.
	faulty, condemned bool

	fencedTick int       // when a RoundTrip first said that the session is over
	fencedAt   time.Time // the same
	abandoned  int       // requests that the client gave up

	questions // of the server's, with what they belong to
}

// stream is one logical stream: the server's log of it, and what the client has
// applied.
type stream struct {
	s        *session
	name     string
	prime    string    // the id that it begins with, "" for none
	born     bool      // the server has opened it
	closed   bool      // it has all that it will have
	log      []*event  // those with ids
	attached *exchange // where it is being written to, nil for nowhere

	// The client's.
	cursor   string
	applied  []int // numbers of the events that were applied, with ids or not
	bare     bool  // a GET without a cursor has reached the server for it
	opened   bool  // the client has had an SSE answer that carries it
	reader   *trip // the last that reads it
	overlaps bool  // two have read it at once

	calls []*call // that it is the answer to
}

// event is one event that the server may send. Its number is unique.
type event struct {
	n        int
	s        *session
	st       *stream // nil for a note on a probe's answer
	id       string
	raw      []byte // as on the wire
	bare     []byte // raw without its id, for a note
	from     *exchange
	times    int // that it was applied, for a note
	oversize bool

	shape int
	retry string
	says  []*utterance // nil for one notification or result of no interest
}

type endKind int

const (
	stays     endKind = iota
	endsClean         // the last chunk, properly
	breaks            // the connection is cut
	leaves            // the client has gone
)

func (k endKind) String() string { return [...]string{"stays", "clean", "broken", "client left"}[k] }

// piece is one write on a stream, or its end.
type piece struct {
	data  []byte
	pause time.Duration // before it
	end   endKind
}

// exchange is one request that reached the server.
type exchange struct {
	trip   *trip
	s      *session
	st     *stream
	what   string // "get", "probe", "call", "delete"
	cursor string

	arrivedAt   time.Time
	arrivedTick int
	alive       bool // the record was there when it arrived
	openedTick  int  // SSE headers are on their way, 0: not yet

	live bool // a probe that has been answered as life

	wake    chan struct{}
	queue   []piece
	queued  []byte // handed to Write
	sent    []byte // accepted by the network
	end     endKind
	endedAt time.Time
	lastAt  time.Time // of the last write
}

// errGivenUp is the cause with which the model client cancels a request.
var errGivenUp = errors.New("the model client has given this request up")

func newWorld(cfg limits) *world {
	w := &world{
		cfg: cfg, now0: time.Now(), net: memnettest.New(), served: make(chan struct{}),
		events: make(map[int]*event), wire: make(map[*passage]bool),
	}
	w.srv = &http.Server{Handler: w, ErrorLog: log.New(w, "", 0)}
	go func() {
		defer close(w.served)
		_ = w.srv.Serve(w.net)
	}()
	return w
}

// Write is the server's log: it must not have anything to say.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violate(noRule, "the model server is wrong: %s", line)
	return len(line), nil
}

// tock returns the next moment.
func (w *world) tock() int { w.tick++; return w.tick }

// notef records what happened, for the report of a failure. mu is held.
func (w *world) notef(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%6d %10v  ", w.tick, time.Since(w.now0))+fmt.Sprintf(format, args...))
}

func (w *world) newSession() *session {
	s := &session{
		id: fmt.Sprintf("session-%d", len(w.sessions)+1), gone: http.StatusNotFound,
		alive: true, born: time.Now(),
	}
	s.streams = []*stream{{s: s, name: "t0", born: true}}
	w.sessions = append(w.sessions, s)
	s.proofs = append(s.proofs, time.Now())
	return s
}

func (s *session) newStream() *stream {
	st := &stream{s: s, name: fmt.Sprintf("t%d", len(s.streams))}
	s.streams = append(s.streams, st)
	return st
}

// idOf names a position. Ids are unique within a session and belong to one
// stream of it.
func (s *session) idOf(st *stream, n int) string {
	return fmt.Sprintf([]string{"%s-%d", "%s:%d", "%s of %d", "%s/é%d"}[s.shape], st.name, n)
}

// find returns the stream and the position in its log that a cursor names.
func (s *session) find(cursor string) (st *stream, at int, ok bool) {
	if cursor == "" {
		return s.streams[0], 0, true
	}
	for _, st := range s.streams {
		if cursor == st.prime {
			return st, 0, true
		}
		for i, e := range st.log {
			if e.id == cursor {
				return st, i + 1, true
			}
		}
	}
	return nil, 0, false
}

func (w *world) byID(id string) *session {
	for _, s := range w.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

// kill deletes a session's record. mu is held.
func (w *world) kill(s *session) {
	if s.alive {
		s.alive, s.died, s.diedTick = false, time.Now(), w.tock()
		w.notef("the record of %s is gone", s.id)
	}
}

// push queues a write, or the end, on what a stream is attached to.
func (ex *exchange) push(p ...piece) {
	ex.queue = append(ex.queue, p...)
	select {
	case ex.wake <- struct{}{}:
	default:
	}
}

// chunked cuts data into writes of the given sizes, the last of which repeats.
func chunked(data []byte, sizes []int, pause time.Duration) []piece {
	if len(data) > 4<<10 && len(sizes) > 0 {
		sizes = []int{max(100, sizes[len(sizes)-1])} // the rest of the chunks is work only
	}
	var out []piece
	for i := 0; len(data) > 0; i++ {
		n := len(data)
		if len(sizes) > 0 {
			n = min(n, sizes[min(i, len(sizes)-1)])
		}
		out = append(out, piece{data: data[:n], pause: pause})
		data = data[n:]
	}
	return out
}

// wait sleeps for d, or reports that the client has left.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ServeHTTP is the server.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var rpc struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &rpc)
	if rpc.Method == "initialize" {
		w.initialize(rw, r, rpc.ID)
		return
	}

	w.mu.Lock()
	ex := &exchange{
		cursor: r.Header.Get(cursorHeader), s: w.byID(r.Header.Get(sessionHeader)),
		arrivedAt: time.Now(), arrivedTick: w.tock(), wake: make(chan struct{}, 1),
	}
	if n, err := strconv.Atoi(r.Header.Get(tripHeader)); err == nil {
		ex.trip = w.trips[n]
	}
	if ex.s == nil || ex.trip == nil {
		w.mu.Unlock()
		http.Error(rw, "Session not found", http.StatusNotFound)
		return
	}
	switch {
	case r.Method == http.MethodGet:
		ex.what = "get"
	case r.Method == http.MethodDelete:
		ex.what = "delete"
	case rpc.Method == "ping": // the model client never pings
		ex.what = "probe"
		ex.s.probed = append(ex.s.probed, ex)
	case ex.trip.what == "answer":
		ex.what = "answer"
	default:
		ex.what = "call"
	}
	ex.alive = ex.s.alive
	w.exchanges = append(w.exchanges, ex)
	w.notef("  server: %s of trip %d, %s, cursor %q, record there: %v", ex.what, ex.trip.n, ex.s.id, ex.cursor, ex.alive)
	w.checkArrival(ex)
	if ex.what == "get" {
		w.checkCursor(ex)
	}
	w.mu.Unlock()

	switch ex.what {
	case "get":
		w.get(rw, r, ex)
	case "probe":
		w.probe(rw, r, ex, rpc.ID)
	case "delete":
		w.del(rw, ex)
	case "answer":
		w.answer(rw, r, ex)
	default:
		w.call(rw, r, ex, rpc.ID)
	}
}

func (w *world) initialize(rw http.ResponseWriter, r *http.Request, id json.RawMessage) {
	w.mu.Lock()
	n, err := strconv.Atoi(r.Header.Get(tripHeader))
	if err != nil {
		w.mu.Unlock()
		http.Error(rw, "no trip", http.StatusBadRequest)
		return
	}
	s := w.trips[n].s
	s.alive, s.born = true, time.Now()
	w.notef("  server: initialize gives %s", s.id)
	w.mu.Unlock()
	rw.Header().Set(sessionHeader, s.id)
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
}

// blame notes an answer that a healthy session does not get. mu is held.
func (s *session) blame(status int) {
	s.faulty = true
	if status == http.StatusNotFound || status == http.StatusGone {
		s.condemned = true
	}
}

// lost answers for a record that is not there, or as if it were not.
func (w *world) lost(rw http.ResponseWriter, s *session, status int) {
	w.mu.Lock()
	s.blame(status)
	w.mu.Unlock()
	plainText(rw, status, "Session not found")
}

func plainText(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "text/plain")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text)
}

// odd writes one of the answers that are neither life nor death.
func (w *world) odd(rw http.ResponseWriter, s *session, status, retryAfter int) {
	w.mu.Lock()
	s.blame(status)
	w.mu.Unlock()
	if retryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if status == http.StatusOK {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, "<html>Please log in</html>")
		return
	}
	plainText(rw, status, http.StatusText(status))
}

// pause delays an answer. A delay that may cost the verdict is a fault.
func (w *world) pause(r *http.Request, s *session, d, tolerable time.Duration) bool {
	if d >= tolerable && d > 0 {
		w.mu.Lock()
		s.faulty = true
		w.mu.Unlock()
	}
	return wait(r.Context(), d)
}

// getAnswer is how one GET is answered; the zero value is a replay that stays
// open.
type getAnswer struct {
	status     int // 0: a replay; 200: a login page
	delay      time.Duration
	retryAfter int
	hang       bool

	chunks []int // sizes of the writes of the replay
	pause  time.Duration
	end    endKind
	torn   int // of the last event of the replay, so many bytes are left out; negative: are left
}

func (w *world) get(rw http.ResponseWriter, r *http.Request, ex *exchange) {
	w.mu.Lock()
	var a getAnswer
	if len(ex.trip.gets) > 0 && !ex.s.plain {
		a, ex.trip.gets = ex.trip.gets[0], ex.trip.gets[1:]
	}
	if ex.s.plain && !ex.alive {
		a.end = ex.s.plainEnd
		if !ex.s.plainGET {
			a.status = ex.s.gone
		}
	}
	st, at, known := ex.s.find(ex.cursor)
	if !known {
		a.status = http.StatusBadRequest
	}
	if a.status == 0 && known && st.attached != nil && ex.s.conflict && !ex.s.plain {
		a.status = http.StatusConflict
	}
	w.mu.Unlock()

	if a.hang {
		w.pause(r, ex.s, 24*time.Hour, 1)
		return
	}
	if !w.pause(r, ex.s, a.delay, w.cfg.budget*4/10) {
		return
	}
	switch a.status {
	case 0:
	case http.StatusNotFound, http.StatusGone:
		w.lost(rw, ex.s, a.status)
		return
	default:
		w.odd(rw, ex.s, a.status, a.retryAfter)
		return
	}

	rw.Header().Set("Content-Type", "text/event-stream")
	w.mu.Lock()
	ex.st = st
	if ex.cursor == "" {
		st.bare = true
	}
	if old := st.attached; old != nil {
		old.push(piece{end: endsClean})
	}
	st.attached = ex
	var replay []byte
	for _, e := range ex.s.history.of(st, at) {
		replay = append(replay, w.sending(e)...)
	}
	if a.end != stays && a.torn != 0 && len(replay) > 0 {
		last := len(st.log[len(st.log)-1].raw)
		cut := min(a.torn, last)
		if a.torn < 0 {
			cut = max(0, last+a.torn)
		}
		replay = replay[:len(replay)-cut]
	}
	ex.push(chunked(replay, a.chunks, a.pause)...)
	if a.end != stays {
		ex.push(piece{end: a.end})
	}
	ex.trip.ex = ex
	w.mu.Unlock()
	w.stream(rw, r, ex)
}

// stream writes what is queued until an end is, or the client leaves.
func (w *world) stream(rw http.ResponseWriter, r *http.Request, ex *exchange) {
	flush := http.NewResponseController(rw).Flush
	rw.WriteHeader(http.StatusOK)
	w.mu.Lock()
	ex.openedTick = w.tock()
	ex.lastAt = time.Now()
	w.notef("  server: trip %d has an open stream %s", ex.trip.n, ex.st.name)
	w.mu.Unlock()
	err := flush()
	for err == nil {
		w.mu.Lock()
		var p piece
		have := len(ex.queue) > 0
		if have {
			p, ex.queue = ex.queue[0], ex.queue[1:]
		}
		w.mu.Unlock()
		if !have {
			select {
			case <-ex.wake:
				continue
			case <-r.Context().Done():
				w.endOf(ex, leaves)
				return
			}
		}
		if !wait(r.Context(), p.pause) {
			break
		}
		if p.end != stays {
			w.endOf(ex, p.end)
			if p.end == breaks {
				panic(http.ErrAbortHandler)
			}
			return
		}
		w.mu.Lock()
		ex.queued = append(ex.queued, p.data...)
		w.mu.Unlock()
		if _, err = rw.Write(p.data); err == nil {
			err = flush()
		}
		if err == nil {
			w.mu.Lock()
			ex.sent = append(ex.sent, p.data...)
			ex.lastAt = time.Now()
			w.checkAccepted(ex)
			w.mu.Unlock()
		}
	}
	w.endOf(ex, leaves)
}

func (w *world) endOf(ex *exchange, k endKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tock()
	ex.end, ex.endedAt = k, time.Now()
	if ex.st.attached == ex {
		ex.st.attached = nil
	}
	w.notef("  server: the stream of trip %d has ended: %v", ex.trip.n, k)
}
