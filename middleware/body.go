package middleware

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// body is the SSE answer of a session. It hands on whole events and what
// stands between them, byte for byte, and never a torn one.
//
// As a rule the client's own Read does the work, straight into the client's
// buffer. While a replay is held there is nobody to read, and a pump does; it
// ends with the first read that returns after the release.
type body struct {
	// Immutable.
	f  *flight
	up io.ReadCloser
	st *stream
	n  int // which of the stream's bodies this is, from 1
	// turn tells this body from every other. A replay's client stands at cursor,
	// and what comes before replayUntil counts as replayed.
	turn        uint64
	cursor      string
	replayUntil time.Time

	// Owned by the pump while there is one, and then by the reader.
	splitter sse.Splitter
	ahead    int   // how much to read at once: more while upstream fills it
	reads    reads // of the reader

	mu   sync.Mutex // guards everything below
	cond *sync.Cond // non-nil while there was a pump: buf, end, failed or released have changed

	// buf[off:whole] may be handed on, buf[whole:] is an unfinished event.
	// before is the stream's cursor in front of buf[0], if seen.
	buf        []byte
	off, whole int
	before     string
	seen       bool

	end      error // != nil: what comes after buf[:whole]
	failed   error // != nil: nothing more is handed on
	tooLarge bool  // end is an event over the limit
	finished bool

	// What the ledger has to know and to say. base is how much of the stream
	// has gone through buf and left it, deliveries are requests among the rest.
	base       int64
	deliveries []delivery
	cut        bool   // the stream ends, in order, where upstream stops next
	tail       []byte // what is then handed on last
	surfaced   bool   // the end has been handed on
	renewing   bool   // the reader waits for a verdict

	pumping  bool
	released bool
	late     bool // the pump's last read came after the release: lateN bytes at the end of buf are not scanned
	lateN    int
	lateErr  error
	events   int           // with data, counted so far, which is all of them while they are held
	any      bool          // an event with data has come, counted or not
	settled  chan struct{} // closed at the first held event, or at the end
	pumped   chan struct{} // closed when the pump has ended
}

// errClosed is what a Read gets after Close, as from a body of net/http.
var errClosed = http.ErrBodyReadAfterClose

// newBody guards the SSE answer of f, which the caller adds to stream st.
func newBody(f *flight, resp *http.Response, st *stream) *body {
	if f.s.ledger != nil { // there may be more or less of it
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	return &body{
		f: f, up: resp.Body, st: st, turn: f.t.turns.Add(1),
		splitter: sse.Splitter{Max: f.t.cfg.MaxEventBytes},
	}
}

// scanLocked finds the ends of events in the last n bytes of buf. proven
// reports whether one of them proves that the session lives.
func (b *body) scanLocked(n int) (proven bool) {
	call := isCall(b.f.req)
	for at := len(b.buf) - n; at < len(b.buf); {
		k, kind, err := b.splitter.Next(b.buf[at:])
		if err != nil {
			b.outgrow()
			return proven
		}
		at += k
		switch kind {
		case sse.EventEnd:
			// A block without data tells a client a cursor or when to come
			// back, and its application nothing.
			if block := b.buf[b.whole:at]; sse.HasData(block) {
				b.events++
				b.any = true
				proven = proven || call && bytes.Contains(block, []byte(`"result"`)) && provesLife(sse.Parse(block).Data)
			}
			b.whole = at
		case sse.Pass:
			b.whole = at
		}
	}
	return proven
}

// outgrow ends the body at an event over the limit. mu is held, or the body is
// the reader's alone.
func (b *body) outgrow() {
	b.tooLarge = true
	b.end = &SessionResumptionError{
		SessionID: b.f.s.key.id, LastEventID: b.f.req.Header.Get(lastEventIDHeader),
		Phase: PhaseReplay, Verdict: Ambiguous, Err: ErrReplayTooLarge,
	}
}

// endLocked notes that upstream ended with err, unless the end has come
// before. An event that was cut off is not an ordinary end of the stream,
// however cleanly the connection was closed (WHATWG HTML, event stream
// interpretation: a block without its blank line is discarded); a comment that
// was is no loss, and passes.
func (b *body) endLocked(err error) {
	if b.end != nil {
		return
	}
	b.end = err
	if dead := b.f.aborted(); dead != nil {
		b.end = dead
	} else if err == io.EOF && b.splitter.Torn() {
		b.end = io.ErrUnexpectedEOF
	}
}

// closeUpstream ends the request and closes its body. It may be called often,
// and while another goroutine reads.
func (b *body) closeUpstream() {
	b.f.cancel(nil)
	b.up.Close()
}

// Read hands on whole events. Its errors are upstream's, io.ErrUnexpectedEOF
// for an event that was cut off, or a [*SessionResumptionError].
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b.reads.begin()
	defer b.reads.end()
	b.mu.Lock()
	for {
		switch {
		case b.failed != nil:
			err := b.failed
			b.mu.Unlock()
			return 0, err
		case b.off < b.whole:
			n := copy(p, b.buf[b.off:b.whole])
			b.off += n
			if b.off == b.whole && !b.pumping {
				b.compactLocked()
			}
			b.mu.Unlock()
			return n, nil
		case b.end != nil && b.cut:
			b.endLastLocked()
		case b.end == io.EOF && b.whole < len(b.buf):
			b.whole = len(b.buf) // a comment without its line end
		case b.end != nil:
			err := b.end
			b.surfaced = true
			tooLarge := b.tooLarge
			b.tooLarge = false // it is counted once, however often the client reads
			b.mu.Unlock()
			if tooLarge {
				err = b.refuse()
			}
			b.up.Close()
			b.finish()
			return 0, err
		case b.pumping:
			b.cond.Wait()
		default:
			b.mu.Unlock()
			if n, err := b.pull(p); n > 0 || err != nil {
				return n, err
			}
			b.mu.Lock()
		}
	}
}

// pull reads upstream once, on the reader's goroutine. It returns whole events
// if they lie in p already, and leaves others in buf. An idle stream waits in
// the client's own buffer and has none here; a busy one reads further ahead
// than the client does.
func (b *body) pull(p []byte) (int, error) {
	exact := b.f.t.wantsProof(b.f.s) || b.cond != nil && !b.any
	if exact || b.late || len(b.buf) > 0 || len(p) < b.ahead {
		return 0, b.fill(exact)
	}
	n, err := b.up.Read(p)
	b.adapt(n, len(p))
	asks := b.f.s.asks(p[:n])

	b.mu.Lock()
	if asks {
		b.before, b.seen = b.splitter.LastEventID()
		b.buf = append(b.buf, p[:n]...)
		b.mu.Unlock()
		return 0, b.digest(n, err, true)
	}
	defer b.mu.Unlock()
	if b.failed != nil {
		return 0, b.failed
	}
	whole, event, tooLarge := b.splitter.Skim(p[:n])
	b.any = b.any || event
	switch {
	case tooLarge != nil:
		b.outgrow()
		return whole, nil
	case whole < n:
		b.before, b.seen = b.splitter.LastEventID()
		b.buf = append(b.buf, p[whole:n]...)
	}
	if err != nil {
		b.endLocked(err)
	}
	return whole, nil
}

const (
	minAhead = 4 << 10
	maxAhead = 16 << 10
)

// adapt learns from a read of n bytes into room for more how far to read ahead.
func (b *body) adapt(n, room int) {
	switch {
	case n == room && room >= minAhead:
		b.ahead = min(max(2*room, minAhead), maxAhead, b.f.t.cfg.MaxHeldBytes)
	case n < b.ahead/2:
		b.ahead /= 2
		if b.ahead < minAhead {
			b.ahead = 0
		}
	}
}

// fill reads upstream once into buf. If it is to be exact, it looks at each
// event: where a proof of life or the lease hangs on it, and on a resumed
// stream until there has been one.
func (b *body) fill(exact bool) error {
	n, err := b.lateN, b.lateErr
	if b.late {
		b.late = false
	} else {
		n, err = b.readAhead()
	}
	return b.digest(n, err, exact)
}

// digest takes in the last n bytes of buf, after which upstream's read ended
// with err.
func (b *body) digest(n int, err error, exact bool) error {
	b.mu.Lock()
	events := b.events
	had := len(b.buf) - n
	from := b.whole
	proven := false
	if exact {
		proven = b.scanLocked(n)
	} else {
		whole, event, tooLarge := b.splitter.Skim(b.buf[had:])
		b.any = b.any || event
		if whole > 0 {
			b.whole = had + whole
		}
		if tooLarge != nil {
			b.outgrow()
		}
	}
	if err != nil {
		b.endLocked(err)
	}
	events = b.events - events
	b.mu.Unlock()
	if proven {
		b.f.s.live(b.f.sent)
	}
	var extra []byte
	var released func(int)
	if events > 0 {
		if extra, released, err = b.renew(events); err != nil {
			return err
		}
	}
	kept := b.reconcile(from, extra)
	if released != nil {
		released(events - kept)
	}
	return nil
}

// readAhead reads upstream once to the end of buf. Nobody else appends: there
// is no pump.
func (b *body) readAhead() (int, error) {
	buf := b.buf
	if len(buf) == 0 {
		b.mu.Lock()
		b.before, b.seen = b.splitter.LastEventID()
		b.mu.Unlock()
	}
	room := max(b.ahead, minAhead)
	if cap(buf)-len(buf) < room/2 {
		buf = append(make([]byte, 0, max(len(buf)+room, 2*len(buf))), buf...)
	}
	room = min(cap(buf)-len(buf), room)
	n, err := b.up.Read(buf[len(buf) : len(buf)+room])
	b.adapt(n, room)
	b.mu.Lock()
	b.buf = buf[:len(buf)+n]
	b.mu.Unlock()
	return n, err
}

// compactLocked gives back what has been handed on.
func (b *body) compactLocked() {
	rest := b.buf[b.whole:]
	b.base += int64(b.whole)
	b.off, b.whole = 0, 0
	switch {
	case len(rest) > 0:
		b.before, b.seen = b.splitter.LastEventID()
		b.buf = b.buf[:copy(b.buf, rest)]
	case b.ahead == 0:
		b.buf = nil // idle, as far as can be told
	default:
		b.buf = b.buf[:0]
	}
}

// Close closes upstream and unblocks a Read. It may be called often.
func (b *body) Close() error {
	b.shut(errClosed)
	b.join()
	return nil
}

// fail ends the body in place of the client.
func (b *body) fail(err error) <-chan struct{} {
	b.shut(err)
	if b.pumped != nil {
		// While a replay is held nobody reads it, and later the reader waits
		// for the pump or comes after it.
		select {
		case <-b.pumped:
		default:
			return b.pumped
		}
	}
	return b.reads.drained()
}

func (b *body) shut(reason error) {
	b.mu.Lock()
	if b.failed == nil {
		b.failed = reason
	}
	if b.cond != nil {
		b.cond.Broadcast()
	}
	b.mu.Unlock()
	b.closeUpstream()
	b.finish()
}

// finish ends the flight and leaves the stream's cursor with the session.
func (b *body) finish() {
	b.mu.Lock()
	if b.finished {
		b.mu.Unlock()
		return
	}
	b.finished = true
	cursor, seen := b.handedOnLocked()
	empty := b.released && b.end != nil && !b.any
	spins := b.released && (empty || b.any)
	unread := b.unreadLocked()
	b.mu.Unlock()
	b.f.s.ledger.takeBack(unread)

	s, st := b.f.s, b.st
	if spins {
		s.replayed(empty)
	}
	if empty {
		b.f.t.counters.emptyReplays.Add(1)
	}
	s.mu.Lock()
	st.closeLocked(b, cursor, seen)
	s.keepLocked(st)
	s.mu.Unlock()
	b.f.end()
}
