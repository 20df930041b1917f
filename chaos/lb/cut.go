package lb

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// lingerTimeout is how long a connection that has been closed in one direction
// waits for the client to close the other. Closing it sooner would turn the FIN
// into a reset if there is anything that the client sent and nobody has read.
const lingerTimeout = time.Second

// cut is the decision to cut a stream, as the cause of its context.
type cut struct {
	how Expiry // one that cuts
	why error
}

func (c *cut) Error() string { return c.why.Error() }
func (c *cut) Unwrap() error { return c.why }

// perform cuts the response. It returns when the client's connection is closed,
// or, for a clean end, free for the client's next request.
func (s *stream) perform(c *cut) {
	if c.how != Silent && c.how != SilentThenRST {
		s.openLate()
	}
	if c.how == CleanEnd && s.length < 0 && !s.writeFailed {
		s.rc.SetWriteDeadline(time.Time{}) // watch has set it
		s.emit(Event{Kind: Cut, Expiry: CleanEnd, Err: c})
		s.terminate(nil)
		return
	}
	conn := s.hijack()
	how := feasible(conn, c.how)
	s.emit(Event{Kind: Cut, Expiry: how, Err: c})
	sever(s.run, conn, how)
}

// openLate passes on the headers of a response that has been kept back.
func (s *stream) openLate() {
	if s.opened || s.writeFailed {
		return
	}
	s.rc.SetWriteDeadline(time.Now().Add(cleanEndGrace)) // watch has set one in the past
	s.open()
}

// terminate ends the response in order. net/http does that when the handler
// returns, but not if the client is still sending its request: then it would
// wait for the rest, or take it for the next request.
func (s *stream) terminate(trailer http.Header) {
	if s.body.detach() {
		for name, values := range trailer {
			s.w.Header()[http.TrailerPrefix+name] = values
		}
		return
	}
	s.rc.Flush()
	conn := s.hijack()
	conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
	if s.chunked {
		io.WriteString(conn, "0\r\n")
		trailer.Write(conn)
		io.WriteString(conn, "\r\n")
	}
	fin(s.run, conn)
}

// hijack takes the client's connection from net/http. Everything that has been
// written is on its way.
func (s *stream) hijack() net.Conn {
	s.body.detach()
	conn, _, err := s.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection, the most that can be done
	}
	return conn
}

// resetter is a connection that can be reset.
type resetter interface{ SetLinger(sec int) error }

// feasible is the way in which conn can be cut that is nearest to how.
func feasible(conn net.Conn, how Expiry) Expiry {
	if _, ok := conn.(resetter); how == CleanEnd || how == RST && !ok {
		return FIN
	}
	return how
}

// sever closes conn in a way that is feasible. It returns when conn is closed:
// for a silence that is when the client leaves, or run ends.
func sever(run context.Context, conn net.Conn, how Expiry) {
	switch how {
	case RST:
		reset(conn)
	case Silent:
		discard(run, conn)
	case SilentThenRST:
		defer context.AfterFunc(run, func() { conn.Close() })()
		if n, _ := conn.Read(make([]byte, 1)); n > 0 {
			reset(conn)
		}
		conn.Close()
	default:
		fin(run, conn)
	}
}

// reset closes conn with a reset, if it can be.
func reset(conn net.Conn) {
	if r, ok := conn.(resetter); ok {
		r.SetLinger(0)
	}
	conn.Close()
}

// fin closes conn so that the client sees the end of what was sent, not a reset.
func fin(run context.Context, conn net.Conn) {
	if half, ok := conn.(halfCloser); ok && half.CloseWrite() == nil {
		conn.SetReadDeadline(time.Now().Add(lingerTimeout))
		discard(run, conn)
		return
	}
	conn.Close()
}

type halfCloser interface{ CloseWrite() error }

// discard reads what the client sends until it leaves, the read deadline passes
// or run ends, and closes conn.
func discard(run context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(run, func() { conn.Close() })()
	io.Copy(io.Discard, conn)
}
