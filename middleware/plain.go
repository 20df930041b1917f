package middleware

import (
	"io"
	"sync/atomic"
)

// plainBody passes bytes through and notices the end.
type plainBody struct {
	f     *flight
	up    io.ReadCloser
	proof *proof // nil: nobody asks what the body says
	reads reads
}

func (b *plainBody) Read(p []byte) (int, error) {
	b.reads.begin()
	n, err := b.up.Read(p)
	b.reads.end()
	if b.proof != nil {
		b.proof.write(p[:n])
	}
	if err == nil {
		return n, nil
	}
	if dead := b.f.aborted(); dead != nil {
		n, err = 0, dead
	} else if err == io.EOF && b.proof != nil {
		b.proof.check(b.f)
	}
	b.f.end()
	return n, err
}

// Close closes the upstream body. It may be called often.
func (b *plainBody) Close() error {
	err := b.up.Close()
	if b.proof != nil {
		b.proof.check(b.f) // a JSON decoder stops before the end
	}
	b.f.end()
	return err
}

func (b *plainBody) fail(error) <-chan struct{} {
	b.up.Close()
	b.f.end()
	return b.reads.drained()
}

// reads tells when nobody reads a body any more.
type reads struct {
	busy atomic.Int32
	quit atomic.Pointer[chan struct{}] // closed by who takes it out
}

func (r *reads) begin() { r.busy.Add(1) }

func (r *reads) end() {
	if r.busy.Add(-1) == 0 && r.quit.Load() != nil {
		if c := r.quit.Swap(nil); c != nil {
			close(*c)
		}
	}
}

// drained returns a channel that is closed when the reads under way have
// returned, nil if there are none. It is called at most once.
func (r *reads) drained() <-chan struct{} {
	c := make(chan struct{})
	r.quit.Store(&c)
	if r.busy.Load() == 0 {
		return nil
	}
	return c
}
