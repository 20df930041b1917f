package fault_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

// tcp is a link on loopback.
type tcp struct {
	*fault.Link
	back net.Listener
	seen chan fault.LinkEvent
}

func newTCP(t *testing.T) *tcp {
	t.Helper()
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { back.Close() })
	seen := make(chan fault.LinkEvent, 1024)
	link, stop := startLink(t, fault.LinkConfig{
		Upstream: back.Addr().String(),
		Observe:  func(e fault.LinkEvent) { seen <- e },
	})
	t.Cleanup(stop)
	return &tcp{link, back, seen}
}

func (l *tcp) connect(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := l.back.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if e := <-l.seen; e.Kind != fault.Opened {
		t.Fatalf("event is %+v, want %v", e, fault.Opened)
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// ends checks how conn ends, after nothing more: with io.EOF, which is a FIN, or
// with a reset.
func ends(t *testing.T, side string, conn net.Conn, want error) {
	t.Helper()
	b := make([]byte, 16)
	if n, err := conn.Read(b); n > 0 || !errors.Is(err, want) {
		t.Errorf("%s: read %q, %v, want %v", side, b[:n], err, want)
	}
}

func TestCutsAtTheSocket(t *testing.T) {
	const hello = "hello"
	for _, test := range []struct {
		fault          fault.Fault
		client, server error
	}{
		{fault.Fault{Kind: fault.FIN}, io.EOF, io.EOF},
		{fault.Fault{Kind: fault.RST}, syscall.ECONNRESET, syscall.ECONNRESET},
		{fault.Fault{Kind: fault.CutAfter, Bytes: int64(len(hello))}, io.EOF, io.EOF},
		{fault.Fault{Kind: fault.CutAfter, Bytes: int64(len(hello)), How: fault.HowRST}, syscall.ECONNRESET, syscall.ECONNRESET},
		{fault.Fault{Kind: fault.FIN, Direction: fault.ToClient}, io.EOF, nil},
		{fault.Fault{Kind: fault.RST, Direction: fault.ToServer}, nil, syscall.ECONNRESET},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			l := newTCP(t)
			client, server := l.connect(t)
			immediate := test.fault.Kind != fault.CutAfter
			if !immediate {
				apply(t, test.fault, l)
			}
			write(t, server, hello)
			expect(t, client, hello)
			if immediate {
				// Unread bytes must not turn the FIN into a reset.
				write(t, client, "on its way")
				expect(t, server, "on its way")
				apply(t, test.fault, l)
			}
			if e := <-l.seen; e.Kind != fault.Cut || e.ToClient != int64(len(hello)) {
				t.Errorf("event is %+v, want %v after %d bytes", e, fault.Cut, len(hello))
			}
			if test.client != nil {
				ends(t, "client", client, test.client)
			}
			if test.server != nil {
				ends(t, "server", server, test.server)
			}
			if test.client == nil { // open, and swallowed
				write(t, client, strings.Repeat("x", 16<<20))
			}
			if test.server == nil {
				write(t, server, strings.Repeat("x", 16<<20))
			}
		})
	}
}

// A FIN stays a FIN where the client is still sending.
func TestFINWhileTheClientSends(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	go io.Copy(io.Discard, server)
	apply(t, fault.Fault{Kind: fault.FIN}, l)
	<-l.seen // Cut
	for range 8 {
		write(t, client, strings.Repeat("x", 64<<10))
	}
	ends(t, "client", client, io.EOF)
}

func TestHalfCloseIsPassedOn(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	write(t, client, "request")
	client.CloseWrite()
	if got, err := io.ReadAll(server); string(got) != "request" || err != nil {
		t.Errorf("server: read %q, %v", got, err)
	}
	write(t, server, "response")
	server.Close()
	if got, err := io.ReadAll(client); string(got) != "response" || err != nil {
		t.Errorf("client: read %q, %v", got, err)
	}
	if e := <-l.seen; e.Kind != fault.Closed || e.Err != nil {
		t.Errorf("event is %+v, want an end in order", e)
	}
}

func TestResetIsPassedOn(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	server.SetLinger(0)
	server.Close()
	ends(t, "client", client, syscall.ECONNRESET)
	if e := <-l.seen; e.Kind != fault.Closed || !errors.Is(e.Err, syscall.ECONNRESET) {
		t.Errorf("event is %+v, want %v", e, syscall.ECONNRESET)
	}
}

// A server that nobody listens at is to the client a connection that is reset,
// maybe before it knows that it has one.
func TestRefusedUpstream(t *testing.T) {
	l := newTCP(t)
	l.back.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 16))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client gets %v, want %v", err, syscall.ECONNRESET)
	}
}

// A reset does not wait for a client that does not read.
func TestRSTOfAStuckConnection(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	server.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	for {
		if _, err := server.Write(make([]byte, 1<<20)); err != nil {
			break // every buffer is full
		}
	}
	apply(t, fault.Fault{Kind: fault.RST}, l)
	<-l.seen // Cut
	if _, err := io.Copy(io.Discard, client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("client: read %v, want %v", err, syscall.ECONNRESET)
	}
}

// Bytes survive whole, in order, in both directions at once.
func TestBulk(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	const size = 8 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	errs := make(chan error, 4)
	for _, c := range []*net.TCPConn{client, server} {
		go func() {
			_, err := c.Write(data)
			errs <- errors.Join(err, c.CloseWrite())
		}()
		go func() {
			got, err := io.ReadAll(c)
			if err == nil && string(got) != string(data) {
				err = errors.New("the bytes differ")
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// What is swallowed has no end for the other side either, and does not keep the
// connection once both sides have left.
func TestSwallowedConnectionEndsWithBothSides(t *testing.T) {
	l := newTCP(t)
	client, server := l.connect(t)
	apply(t, fault.Fault{Kind: fault.Blackhole, Direction: fault.ToServer}, l)
	write(t, client, "swallowed")
	client.CloseWrite()
	server.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	ends(t, "server", server, os.ErrDeadlineExceeded)
	server.Close()
	ends(t, "client", client, io.EOF)
	if e := <-l.seen; e.Kind != fault.Closed || e.Err != nil {
		t.Errorf("event is %+v, want an end in order", e)
	}
}
