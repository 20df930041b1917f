package fault

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

const (
	minPiece  = 2 << 10   // what is read at once, until a source fills it,
	maxPiece  = 16 << 10  // and then
	maxQueued = 256 << 10 // of bytes read and not yet written
	maxPieces = 4 << 10   // of pieces, which may be of one byte each
)

// bandwidthSlices is into how many pieces a second's worth of a limited
// bandwidth is cut.
const bandwidthSlices = 50

// pipe is one direction of a connection. A reader queues what its source sends,
// and a writer decides when, and whether, each piece goes on.
type pipe struct {
	// Immutable.
	conn *linkConn
	to   Direction

	// Immutable once start has been called.
	src, dst net.Conn

	room chan struct{} // capacity 1; full when the queue has become shorter
	wake chan struct{} // capacity 1; full when there is something new to decide on

	// Guarded by conn.mu.
	rules  []*pipeRule
	queue  []piece
	queued int       // bytes
	ended  bool      // src has ended, after what is in the queue
	err    error     // how: nil in order
	endAt  time.Time // when
	holed  bool      // bytes have been swallowed
	free   time.Time // when the limited bandwidth is free again
	passed int64     // bytes
	scan   scanner   // of what has passed; ToClient only
}

// piece is bytes that were read at once.
type piece struct {
	bytes []byte
	at    time.Time
}

// pipeRule is a rule in force on a pipe.
type pipeRule struct {
	*rule
	bytes  int64 // CutAfter: how many more pass
	event  int64 // CutInEvent: which one, of all
	random *rand.Rand
	drawn  bool          // delay is that of the head of the queue
	delay  time.Duration // Latency
}

func newPipe(c *linkConn, to Direction) *pipe {
	return &pipe{conn: c, to: to, room: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

func (p *pipe) attach(r *rule) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.rules = append(p.rules, &pipeRule{
		rule:   r,
		bytes:  r.Bytes,
		event:  p.scan.events.begun + int64(r.Event),
		random: p.conn.link.random(r, p.conn.number, p.to),
	})
	poke(p.wake)
}

func (p *pipe) detach(r *rule) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.rules = slices.DeleteFunc(p.rules, func(pr *pipeRule) bool { return pr.rule == r })
	poke(p.wake)
}

func (p *pipe) hasLocked(k Kind) bool {
	return slices.ContainsFunc(p.rules, func(r *pipeRule) bool { return r.Kind == k })
}

// start runs the pipe until the end of the connection is decided, and after that
// its reader until src ends. With a nil dst there is a reader only.
func (p *pipe) start(src, dst net.Conn) {
	p.src, p.dst = src, dst
	p.conn.readers.Go(p.read)
	if dst != nil {
		p.conn.writers.Go(p.write)
	}
}

// read queues what src sends. It goes on when the connection's end has been
// decided, to the end of src: a peer that was told to leave may still be sending.
func (p *pipe) read() {
	done := p.conn.ctx.Done()
	buf := make([]byte, minPiece)
	for {
		n, err := p.src.Read(buf)
		p.put(buf[:n], err)
		if err != nil {
			return
		}
		if n == len(buf) && n < maxPiece {
			buf = make([]byte, maxPiece)
		}
		for p.isFull() {
			select {
			case <-p.room:
			case <-done:
			}
		}
	}
}

// isFull reports whether the reader has to wait. It never does once the end of
// the connection is decided.
func (p *pipe) isFull() bool {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	return (p.queued >= maxQueued || len(p.queue) >= maxPieces) && p.conn.ctx.Err() == nil
}

// put queues b, and the end of src if err says so.
func (p *pipe) put(b []byte, err error) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	if p.conn.ctx.Err() != nil {
		return
	}
	now := time.Now()
	if len(b) > 0 {
		p.queue = append(p.queue, piece{slices.Clone(b), now})
		p.queued += len(b)
	}
	if err != nil {
		p.ended, p.endAt = true, now
		if err != io.EOF {
			p.err = err
		}
	}
	poke(p.wake)
}

// write is the other end of the queue.
func (p *pipe) write() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p.conn.ctx.Err() == nil {
		s := p.next(time.Now())
		if len(s.bytes) > 0 {
			if _, err := p.dst.Write(s.bytes); err != nil {
				if p.conn.ctx.Err() == nil {
					p.conn.broken(fmt.Errorf("fault: %s: %w", p.to, err))
				}
				return
			}
			p.wrote(len(s.bytes))
		}
		switch {
		case s.cut != nil:
			p.conn.cut(s.cut)
		case s.end:
			p.finish()
			return
		case s.wait:
			var due <-chan time.Time
			if !s.until.IsZero() {
				timer.Reset(time.Until(s.until))
				due = timer.C
			}
			select {
			case <-due:
			case <-p.wake:
			case <-p.conn.ctx.Done():
			}
		}
	}
}

// step is what the writer does next: write the bytes, then one of the others.
type step struct {
	bytes []byte
	cut   *rule     // the connection
	end   bool      // of this direction
	wait  bool      // for something new, or
	until time.Time // for this, if it is not zero
}

// next decides on the head of the queue.
func (p *pipe) next(now time.Time) step {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	for _, r := range p.rules {
		if r.Kind == CutAfter && r.bytes == 0 {
			return step{cut: r.rule}
		}
	}
	if p.holed || p.hasLocked(Blackhole) {
		return p.swallowLocked()
	}
	if p.hasLocked(Partition) || len(p.queue) == 0 && !p.ended {
		return step{wait: true}
	}
	at := p.endAt
	if len(p.queue) > 0 {
		at = p.queue[0].at
	}
	at = at.Add(p.latencyLocked())
	if len(p.queue) == 0 {
		if now.Before(at) {
			return step{wait: true, until: at}
		}
		return step{end: true}
	}
	n := len(p.queue[0].bytes)
	due := at
	rate, since := p.rateLocked()
	if rate > 0 {
		n = int(min(int64(n), max(1, rate/bandwidthSlices)))
		due = latest(at, p.free, since).Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	}
	if now.Before(due) {
		return step{wait: true, until: due}
	}
	if rate > 0 {
		p.free = due
	}
	return p.takeLocked(n)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// latencyLocked is how long the head of the queue, or the end of src, is delayed.
func (p *pipe) latencyLocked() time.Duration {
	total := time.Duration(0)
	for _, r := range p.rules {
		if r.Kind != Latency {
			continue
		}
		if !r.drawn {
			r.drawn = true
			r.delay = r.Delay
			if r.Jitter > 0 {
				r.delay += time.Duration(r.random.Int64N(2*int64(r.Jitter)+1)) - r.Jitter
			}
		}
		total += r.delay
	}
	return total
}

// rateLocked is the bandwidth in bytes per second, and since when; 0: no limit.
func (p *pipe) rateLocked() (rate int64, since time.Time) {
	for _, r := range p.rules {
		if r.Kind == Bandwidth && (rate == 0 || r.BytesPerSecond < rate) {
			rate, since = r.BytesPerSecond, r.since
		}
	}
	return rate, since
}

// takeLocked takes up to n bytes from the head of the queue, up to where a cut
// is due.
func (p *pipe) takeLocked(n int) step {
	var cut *rule
	for _, r := range p.rules {
		if r.Kind == CutAfter && r.bytes <= int64(n) {
			n, cut = int(r.bytes), r.rule
		}
	}
	head := p.queue[0].bytes
	if p.to == ToClient {
		var torn *rule
		if taken := p.scan.next(head[:n], p.tear(&torn)); taken < n {
			n, cut = taken, torn
		}
	}
	for _, r := range p.rules {
		r.bytes -= int64(n)
		r.drawn = r.drawn && n < len(head)
	}
	if n < len(head) {
		p.queue[0].bytes = head[n:]
	} else {
		p.queue[0] = piece{} // for the garbage collector
		p.queue = p.queue[1:]
	}
	return step{bytes: head[:n], cut: cut}
}

// tear is what the scanner asks. It puts the rule that says yes into torn.
func (p *pipe) tear(torn **rule) stopFunc {
	if !p.hasLocked(CutInEvent) {
		return nil
	}
	return func(event, offset int64, complete bool) bool {
		for _, r := range p.rules {
			if r.Kind == CutInEvent && r.event == event && (complete || r.Offset > 0 && offset >= r.Offset) {
				*torn = r.rule
				return true
			}
		}
		return false
	}
}

// swallowLocked drops what is in the queue. The end of src is passed on, when the
// blackhole is over, only if no byte was lost before it.
func (p *pipe) swallowLocked() step {
	if p.queued > 0 {
		p.queue, p.queued, p.holed = nil, 0, true
		poke(p.room)
	}
	return step{wait: !p.holed || !p.ended, end: p.holed && p.ended}
}

// wrote makes room for as many bytes.
func (p *pipe) wrote(n int) {
	p.conn.mu.Lock()
	defer p.conn.mu.Unlock()
	p.passed += int64(n)
	p.queued -= n
	poke(p.room)
}

// finish passes the end of src on, unless what came before it was swallowed.
func (p *pipe) finish() {
	if p.holed {
		p.conn.finished()
		return
	}
	if p.err != nil {
		p.conn.broken(fmt.Errorf("fault: %s: %w", p.to, p.err))
		return
	}
	half, ok := p.dst.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		p.conn.done()
		return
	}
	p.conn.finished()
}
