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
	how Expiry
	why error
}

func (c *cut) Error() string { return c.why.Error() }
func (c *cut) Unwrap() error { return c.why }

// perform cuts the response. It returns when the client's connection is closed,
// or, for a clean end, free for the client's next request.
func (s *stream) perform(c *cut) {
	if c.how == CleanEnd && s.length < 0 && !s.writeFailed {
		s.rc.SetWriteDeadline(time.Time{}) // watch has set it
		s.emit(Event{Kind: Cut, Expiry: CleanEnd, Err: c})
		s.terminate(nil)
		return
	}
	conn := s.hijack()
	resetter, canReset := conn.(interface{ SetLinger(sec int) error })
	how := c.how
	if how == CleanEnd || how == RST && !canReset {
		how = FIN
	}
	s.emit(Event{Kind: Cut, Expiry: how, Err: c})
	switch how {
	case RST:
		resetter.SetLinger(0)
		conn.Close()
	case Silent:
		s.discard(conn)
	default:
		s.fin(conn)
	}
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
	s.fin(conn)
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

// fin closes conn so that the client sees the end of what was sent, not a reset.
func (s *stream) fin(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		conn.SetReadDeadline(time.Now().Add(lingerTimeout))
		s.discard(conn)
		return
	}
	conn.Close()
}

// discard reads what the client sends until it leaves, the read deadline passes
// or Run ends, and closes conn.
func (s *stream) discard(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(s.run, func() { conn.Close() })()
	io.Copy(io.Discard, conn)
}
