package lb

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

var errAborted = errors.New("lb: the exchange is over")

// requestBody is the body of a client's request on its way upstream. The
// transport reads it on a goroutine of its own and may still do so when the
// response is over; detach takes it away from there, because whoever serves the
// connection next must be its only reader.
type requestBody struct {
	src       io.Reader
	touch     func() // called for each read that brought bytes
	interrupt func() // makes a read of src that waits for the client fail

	ended   atomic.Bool   // src has given its last byte
	reading chan struct{} // capacity 1; full while src is read, and for good once detached

	aborting    sync.Once
	aborted     chan struct{} // closed by abort
	interrupted bool          // interrupt was called; set by abort

	isDetached bool // owned by the caller of detach
}

func newRequestBody(src io.Reader, touch, interrupt func()) *requestBody {
	return &requestBody{
		src:       src,
		touch:     touch,
		interrupt: interrupt,
		reading:   make(chan struct{}, 1),
		aborted:   make(chan struct{}),
	}
}

func (b *requestBody) Read(p []byte) (int, error) {
	select {
	case <-b.aborted:
		return 0, errAborted
	case b.reading <- struct{}{}:
	}
	defer func() { <-b.reading }()

	n, err := b.src.Read(p)
	if n > 0 {
		b.touch()
	}
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// Close does nothing. The body is net/http's to close: closing reads up to
// 256 KiB of it, and would wait for a client that has stopped sending.
func (b *requestBody) Close() error { return nil }

// abort makes a Read under way and all later ones fail. It is idempotent and may
// be called from any goroutine.
func (b *requestBody) abort() {
	b.aborting.Do(func() {
		close(b.aborted)
		if !b.ended.Load() {
			b.interrupted = true
			b.interrupt()
		}
	})
}

// detach is abort, and waits for a Read under way. It reports whether the
// connection is of further use for requests: it is not if the body had not ended,
// for what follows on it is the rest of this body, and its read deadline is in
// the past. detach is idempotent; it is called by one goroutine only.
func (b *requestBody) detach() (usable bool) {
	b.abort()
	if !b.isDetached {
		b.isDetached = true
		b.reading <- struct{}{}
	}
	return !b.interrupted
}
