package lb

import (
	"net"
	"sync"
	"sync/atomic"
)

// readAheadSize is how much is read at once from an upstream that sends more than
// the transport asks for. A stream that has sent so much keeps a buffer of that
// size until it sends less than the transport asks for.
const readAheadSize = 64 << 10

// readAheads holds buffers of that size. Most of many streams are idle and have
// none.
var readAheads = sync.Pool{New: func() any { return new([readAheadSize]byte) }}

// upstreamConn is a connection to an upstream. The transport, which reads 4 KiB
// at a time, gets from it what was read in larger pieces. It has one reader at a
// time.
type upstreamConn struct {
	net.Conn
	closed func() // called for each Close

	// beforeWait, if not nil, is called before each read that may have to wait for
	// the upstream. The read fails with its error.
	beforeWait atomic.Pointer[func() error]

	// Owned by the reader.
	busy  bool                 // the last read brought all or more of what was asked for
	ahead []byte               // read and not yet asked for
	buf   *[readAheadSize]byte // what ahead is a part of; nil: ahead is empty
	err   error                // after ahead
}

func (c *upstreamConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

func (c *upstreamConn) Read(p []byte) (int, error) {
	if c.buf != nil {
		return c.take(p)
	}
	if err := c.err; err != nil {
		c.err = nil
		return 0, err
	}
	if before := c.beforeWait.Load(); before != nil {
		if err := (*before)(); err != nil {
			return 0, err
		}
	}
	if !c.busy || len(p) >= readAheadSize {
		n, err := c.Conn.Read(p)
		c.busy = n == len(p) && n > 0
		return n, err
	}
	buf := readAheads.Get().(*[readAheadSize]byte)
	n, err := c.Conn.Read(buf[:])
	c.busy = n > len(p)
	c.buf, c.ahead, c.err = buf, buf[:n], err
	if n == 0 {
		c.err = nil
		c.release()
		return 0, err
	}
	return c.take(p)
}

// flushFirst has flush called before each read that may have to wait, until stop
// is called. The caller has the connection for a response with a body, none of
// which has been read. When the body has been read, the connection can be another
// request's, and so can beforeWait: stop leaves that alone.
func (c *upstreamConn) flushFirst(flush func() error) (stop func()) {
	c.beforeWait.Store(&flush)
	return func() { c.beforeWait.CompareAndSwap(&flush, nil) }
}

// take hands out what was read ahead.
func (c *upstreamConn) take(p []byte) (int, error) {
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.release()
	}
	return n, nil
}

func (c *upstreamConn) release() {
	readAheads.Put(c.buf)
	c.buf, c.ahead = nil, nil
}
