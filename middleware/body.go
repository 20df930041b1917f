package middleware

import (
	"bytes"
	"errors"
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
	st *stream // nil once finished

	// Owned by the pump while there is one, and then by the reader.
	splitter sse.Splitter

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

	pumping  bool
	released bool
	events   int           // held so far
	settled  chan struct{} // closed at the first held event, or at the end
	pumped   chan struct{} // closed when the pump has ended
}

// errClosed is what a Read gets after Close, as from a body of net/http.
var errClosed = http.ErrBodyReadAfterClose

// newBody guards the SSE answer of f on stream st, which the caller has marked
// open.
func newBody(f *flight, resp *http.Response, st *stream) *body {
	return &body{
		f: f, up: resp.Body, st: st,
		splitter: sse.Splitter{Max: f.t.cfg.MaxEventBytes},
	}
}

// hold starts to read the replay, up to Config.MaxHeldBytes of it.
func (b *body) hold() {
	b.cond = sync.NewCond(&b.mu)
	b.pumping = true
	b.settled = make(chan struct{})
	b.pumped = make(chan struct{})
	go b.pump()
}

const pumpBytes = 2 << 10

func (b *body) pump() {
	defer close(b.pumped)
	chunk := make([]byte, pumpBytes)
	b.mu.Lock()
	defer func() {
		b.pumping = false
		b.settleLocked()
		b.cond.Broadcast()
		b.mu.Unlock()
	}()
	for {
		for len(b.buf) >= b.f.t.cfg.MaxHeldBytes && !b.released && b.failed == nil {
			b.cond.Wait()
		}
		if b.released || b.failed != nil || b.end != nil {
			return
		}
		room := b.f.t.cfg.MaxHeldBytes - len(b.buf)
		b.mu.Unlock()
		n, err := b.up.Read(chunk[:min(room, len(chunk))])
		b.mu.Lock()
		b.buf = append(b.buf, chunk[:n]...)
		b.scanLocked(n)
		if err != nil && b.end == nil {
			b.end = b.ending(err)
		}
		if b.events > 0 {
			b.settleLocked()
		}
		b.cond.Broadcast()
	}
}

func (b *body) settleLocked() {
	select {
	case <-b.settled:
	default:
		close(b.settled)
	}
}

// scanLocked finds the ends of events in the last n bytes of buf.
func (b *body) scanLocked(n int) {
	for at := len(b.buf) - n; at < len(b.buf); {
		k, kind, err := b.splitter.Next(b.buf[at:])
		if err != nil {
			b.outgrow()
			return
		}
		at += k
		switch kind {
		case sse.EventEnd:
			b.events++
			b.inspect(b.buf[b.whole:at])
			b.whole = at
		case sse.Pass:
			b.whole = at
		}
	}
}

// inspect looks at one whole event for what it proves.
func (b *body) inspect(block []byte) {
	if !b.f.t.wantsProof(b.f.s) || !isCall(b.f.req) || !bytes.Contains(block, []byte(`"result"`)) {
		return
	}
	if provesLife(sse.Parse(block).Data) {
		b.f.s.live(b.f.sent)
	}
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

// ending is what the client reads where upstream ended with err: an event that
// was cut off is not an ordinary end of the stream, however cleanly the
// connection was closed (WHATWG HTML, event stream interpretation: a block
// without its blank line is discarded).
func (b *body) ending(err error) error {
	if dead := b.f.aborted(); dead != nil {
		return dead
	}
	if errors.Is(err, io.EOF) && b.splitter.Torn() {
		return io.ErrUnexpectedEOF
	}
	return err
}

// release lets the client have what is held, and extra after it, and
// everything that follows.
func (b *body) release(extra []byte) (events, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, size = b.events, b.whole
	if len(extra) > 0 {
		b.insertLocked(extra)
	}
	b.released = true
	b.cond.Broadcast()
	return events, size
}

// emptyWithin reports whether the replay has ended with nothing held, waiting
// no longer than d for it to say so.
func (b *body) emptyWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.settled:
	case <-timer.C:
	case <-b.f.client.Context().Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed == nil && b.end != nil && b.events == 0 && b.whole == len(b.buf)
}

// discard gives up what is held, and waits until nothing reads upstream any
// more.
func (b *body) discard() (records []QuarantinedEvent, events, size int) {
	b.closeUpstream()
	b.mu.Lock()
	if b.failed == nil {
		b.failed = errClosed
	}
	b.cond.Broadcast()
	held := b.buf[:b.whole]
	events, size = b.events, len(b.buf)
	b.mu.Unlock()
	b.join()
	b.finish()
	return quarantineRecords(held), events, size
}

// join waits until the pump has ended, which closing its upstream makes it do.
func (b *body) join() {
	if b.pumped == nil {
		return
	}
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-b.pumped:
	case <-timer.C:
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
		case b.end != nil:
			err := b.end
			tooLarge := b.tooLarge
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

// pull reads upstream once, on the reader's goroutine, and returns whole
// events if there are any. Bytes that lie in p already stay there.
func (b *body) pull(p []byte) (int, error) {
	direct := len(b.buf) == 0 && !b.f.t.wantsProof(b.f.s)
	if !direct {
		return 0, b.fill()
	}
	n, err := b.up.Read(p)
	whole, events := 0, 0
	for at := 0; at < n; {
		k, kind, tooLarge := b.splitter.Next(p[at:n])
		if tooLarge != nil {
			b.mu.Lock()
			b.outgrow()
			b.mu.Unlock()
			n = whole
			break
		}
		at += k
		switch kind {
		case sse.EventEnd:
			events++
			whole = at
		case sse.Pass:
			whole = at
		}
	}
	if events > 0 {
		if err := b.renew(events); err != nil {
			return 0, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if whole < n {
		b.before, b.seen = b.splitter.LastEventID()
		b.buf = append(b.buf, p[whole:n]...)
	}
	if err != nil && b.end == nil {
		b.end = b.ending(err)
	}
	return whole, nil
}

// fill reads upstream once into buf.
func (b *body) fill() error {
	// Nobody else appends: there is no pump.
	buf := b.buf
	if len(buf) == 0 {
		b.before, b.seen = b.splitter.LastEventID()
	}
	if cap(buf)-len(buf) < pumpBytes {
		grown := make([]byte, len(buf), max(2*pumpBytes, 2*cap(buf)))
		copy(grown, buf)
		buf = grown
	}
	n, err := b.up.Read(buf[len(buf):cap(buf)])

	b.mu.Lock()
	had := b.events
	b.buf = buf[:len(buf)+n]
	b.scanLocked(n)
	if err != nil && b.end == nil {
		b.end = b.ending(err)
	}
	events := b.events - had
	b.mu.Unlock()
	if events > 0 {
		return b.renew(events)
	}
	return nil
}

// compactLocked gives back what has been handed on.
func (b *body) compactLocked() {
	rest := b.buf[b.whole:]
	b.off, b.whole = 0, 0
	switch {
	case len(rest) > 0:
		b.before, b.seen = b.splitter.LastEventID()
		b.buf = b.buf[:copy(b.buf, rest)]
	case cap(b.buf) > 4*pumpBytes:
		b.buf = nil
	default:
		b.buf = b.buf[:0]
	}
}

// Close closes upstream and unblocks a Read. It may be called often.
func (b *body) Close() error {
	b.shut(errClosed)
	return nil
}

// fail ends the body in place of the client.
func (b *body) fail(err error) { b.shut(err) }

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
	b.join()
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
	b.mu.Unlock()

	s, st := b.f.s, b.st
	s.mu.Lock()
	st.open--
	if seen && len(cursor) <= maxCursorBytes {
		st.cursor, st.known = cursor, true
	} else if seen {
		st.cursor, st.known = "", false
	}
	s.keepLocked(st)
	s.mu.Unlock()
	b.f.end()
}

// handedOnLocked returns the id of the last event that the client has read to
// its end. What was scanned may be ahead of that: a cursor from there would
// make a reconnect skip events.
func (b *body) handedOnLocked() (cursor string, seen bool) {
	if b.pumping || b.off < b.whole || (b.cond != nil && !b.released) {
		var sp sse.Splitter
		for part := b.buf[:b.off]; len(part) > 0; {
			n, _, _ := sp.Next(part)
			part = part[n:]
		}
		if cursor, seen = sp.LastEventID(); seen {
			return cursor, true
		}
		return b.before, b.seen
	}
	return b.splitter.LastEventID()
}
