package lb

import "io"

// batch is what has been read of a response and not yet been passed on: one
// write to the client is made of all that the upstream has sent by then. Nothing
// is held back while there is nothing more to read, for the connection that it is
// read from calls beforeWait.
//
// Mostly, but not always, it does that within read: once a response has ended, the
// transport reads on by itself. So whoever touches the batch has to have the turn.
// That is a channel, and no mutex, because waiting for a client must not stop
// virtual time.
type batch struct {
	forward func([]byte) error // immutable
	turn    chan struct{}      // capacity 1; full while somebody has it

	// Owned by whoever has the turn.
	buf        []byte
	start, end int   // buf[start:end] is held; what follows is being read into
	err        error // of forward
	finished   bool  // the rest is not forwarded
}

// newBatch returns a batch whose turn the caller has, until it calls finish.
func newBatch(size int, forward func([]byte) error) *batch {
	b := &batch{forward: forward, turn: make(chan struct{}, 1), buf: make([]byte, size)}
	b.turn <- struct{}{}
	return b
}

// read adds what one read of r brings. Meanwhile the turn is free.
func (b *batch) read(r io.Reader) (n int, err error) {
	if b.start == b.end {
		b.start, b.end = 0, 0
	}
	space := b.buf[b.end:]
	<-b.turn
	n, err = r.Read(space)
	b.turn <- struct{}{}
	b.end += n
	return n, err
}

func (b *batch) full() bool { return b.end == len(b.buf) }

// flush forwards what is held, which may be nothing.
func (b *batch) flush() error {
	if b.err == nil {
		held := b.buf[b.start:b.end]
		b.start = b.end
		b.err = b.forward(held)
	}
	return b.err
}

// grow makes room for more. Nothing is held.
func (b *batch) grow(size int) {
	if len(b.buf) < size {
		b.buf = make([]byte, size)
		b.start, b.end = 0, 0
	}
}

// beforeWait takes the turn and flushes what is held, if anything is.
func (b *batch) beforeWait() error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.finished || b.start == b.end {
		return nil
	}
	return b.flush()
}

// finish drops what is held, and gives the turn away.
func (b *batch) finish() {
	b.finished = true
	<-b.turn
}
