package lb_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

const (
	firstEvent = "id: 1\ndata: hello\n\n"
	firstChunk = "13\r\n" + firstEvent + "\r\n"
	terminator = "0\r\n\r\n"
)

// silentStream sends one event and then nothing. It tells when the request is
// cancelled.
func silentStream(cancelled chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, firstEvent)
		<-r.Context().Done()
		cancelled <- struct{}{}
	}
}

// The table is what INFRA knows of real load balancers, each at the socket and
// through the Go client. The idle limit is a real second here: what is measured
// is how it ends, not when.
func TestExpiryAtTheClient(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expiry  lb.Expiry
		wire    string // what a bare client gets after the first chunk
		wireErr error  // and how its connection ends
		bodyErr error  // how the body ends for a Go client
	}{
		{lb.FIN, "", nil, io.ErrUnexpectedEOF},
		{lb.RST, "", syscall.ECONNRESET, syscall.ECONNRESET},
		{lb.CleanEnd, terminator, nil, nil},
	} {
		t.Run(test.expiry.String(), func(t *testing.T) {
			t.Parallel()
			seen, cancelled := newEvents(), make(chan struct{}, 8)
			balancer, client := startTCP(t, lb.Config{
				IdleTimeout: time.Second, OnExpiry: test.expiry, Observe: seen.observe,
			}, silentStream(cancelled))

			_, r := dial(t, balancer.Addr(), "GET /raw HTTP/1.1", "Host: h", "Connection: close")
			expectStatus(t, r, "HTTP/1.1 200 OK")
			expect(t, r, firstChunk)
			if got, err := io.ReadAll(r); string(got) != test.wire || !errors.Is(err, test.wireErr) {
				t.Errorf("at the socket: %q, %v, want %q, %v", got, err, test.wire, test.wireErr)
			}
			seen.wait(t, lb.Opened)
			cut := seen.wait(t, lb.Cut)
			if cut.Expiry != test.expiry || !errors.Is(cut.Err, lb.ErrIdle) || cut.Bytes != int64(len(firstEvent)) {
				t.Errorf("event is %+v, want %v, %v, %d bytes", cut, test.expiry, lb.ErrIdle, len(firstEvent))
			}
			<-cancelled

			res, err := client.Get(balancer.URL() + "/go")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); string(got) != firstEvent || !errors.Is(err, test.bodyErr) {
				t.Errorf("Go client: %q, %v, want %q, %v", got, err, firstEvent, test.bodyErr)
			}
			seen.wait(t, lb.Opened)
			seen.wait(t, lb.Cut)
			<-cancelled
			seen.none(t)
		})
	}
}

func TestSilentExpiryAtTheClient(t *testing.T) {
	t.Parallel()
	seen, cancelled := newEvents(), make(chan struct{}, 8)
	balancer, client := startTCP(t, lb.Config{
		IdleTimeout: time.Second, OnExpiry: lb.Silent, Observe: seen.observe,
	}, silentStream(cancelled))

	conn, r := dial(t, balancer.Addr(), "GET /raw HTTP/1.1", "Host: h")
	expectStatus(t, r, "HTTP/1.1 200 OK")
	expect(t, r, firstChunk)
	seen.wait(t, lb.Opened)
	if cut := seen.wait(t, lb.Cut); cut.Expiry != lb.Silent || !errors.Is(cut.Err, lb.ErrIdle) {
		t.Errorf("event is %+v, want %v, %v", cut, lb.Silent, lb.ErrIdle)
	}
	<-cancelled // the upstream's side is gone all the same
	// What the client sends is accepted, more than any socket's buffer, and
	// answered by nothing.
	if _, err := conn.Write(make([]byte, 16<<20)); err != nil {
		t.Errorf("write into the silence: %v", err)
	}
	conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if b, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the cut: %q, %v, want nothing until the deadline", b, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", balancer.URL()+"/go", nil)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	expect(t, res.Body, firstEvent)
	seen.wait(t, lb.Opened)
	seen.wait(t, lb.Cut)
	<-cancelled
	cancel()
	if got, err := io.ReadAll(res.Body); len(got) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Go client: %q, %v, want nothing until it gives up", got, err)
	}
	seen.none(t)
}

func TestCut(t *testing.T) {
	seen, cancelled := newEvents(), make(chan struct{}, 8)
	balancer, client := startTCP(t, lb.Config{Observe: seen.observe}, silentStream(cancelled))
	if got := balancer.Cut(lb.RST); got != 0 {
		t.Errorf("Cut() with no stream = %d, want 0", got)
	}
	var bodies []io.Reader
	for range 2 {
		res, err := client.Get(balancer.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		expect(t, res.Body, firstEvent)
		bodies = append(bodies, res.Body)
		seen.wait(t, lb.Opened)
	}
	if got := balancer.Cut(lb.Expiry(9)); got != 0 {
		t.Errorf("Cut(Expiry(9)) = %d, want 0", got)
	}
	if got := balancer.Cut(lb.RST); got != 2 {
		t.Errorf("Cut() = %d, want 2", got)
	}
	if got := balancer.Cut(lb.CleanEnd); got != 0 {
		t.Errorf("Cut() of what is being cut = %d, want 0", got)
	}
	streams := 0
	for _, body := range bodies {
		if got, err := io.ReadAll(body); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %q, %v, want nothing and %v", got, err, syscall.ECONNRESET)
		}
		cut := seen.wait(t, lb.Cut)
		if cut.Expiry != lb.RST || !errors.Is(cut.Err, lb.ErrCut) {
			t.Errorf("event is %+v, want %v, %v", cut, lb.RST, lb.ErrCut)
		}
		streams += int(cut.Stream)
		<-cancelled
	}
	if streams != 1+2 {
		t.Errorf("sum of the streams that were cut is %d, want 1+2", streams)
	}
	if got := balancer.Cut(lb.FIN); got != 0 {
		t.Errorf("Cut() of what is cut = %d, want 0", got)
	}
}

func TestCutSparesRequestsWithoutResponse(t *testing.T) {
	waiting, answer := make(chan struct{}), make(chan struct{})
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(waiting)
		<-answer
	})
	go func() {
		<-waiting
		if got := balancer.Cut(lb.RST); got != 0 {
			t.Errorf("Cut() = %d, want 0", got)
		}
		close(answer)
	}()
	res, err := client.Get(balancer.URL())
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("Get() = %v, %v, want 200", res, err)
	}
	res.Body.Close()
}

// A busy stream is the hard case of a clean end: half a chunk cannot be followed
// by the terminator.
func TestCleanEndOfABusyStream(t *testing.T) {
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			send(w, strings.Repeat("data: x\n\n", 1000))
		}
	})
	for range 20 {
		res, err := client.Get(balancer.URL())
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, res.Body, 1<<20)
		if got := balancer.Cut(lb.CleanEnd); got != 1 {
			t.Errorf("Cut() = %d, want 1", got)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("body ends with %v, want nil", err)
		}
		res.Body.Close()
	}
}

func TestCleanEndKeepsTheConnection(t *testing.T) {
	seen, cancelled := newEvents(), make(chan struct{}, 8)
	balancer, _ := startTCP(t, lb.Config{Observe: seen.observe}, silentStream(cancelled))
	conn, r := dial(t, balancer.Addr(), "GET /1 HTTP/1.1", "Host: h")
	for range 2 {
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		balancer.Cut(lb.CleanEnd)
		expect(t, r, terminator)
		io.WriteString(conn, "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
	}
	expectStatus(t, r, "HTTP/1.1 200 OK")
}

func TestCleanEndWithContentLengthIsFIN(t *testing.T) {
	seen := newEvents()
	balancer, client := startTCP(t, lb.Config{Observe: seen.observe}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		send(w, firstEvent)
		<-r.Context().Done()
	})
	res, err := client.Get(balancer.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	expect(t, res.Body, firstEvent)
	seen.wait(t, lb.Opened)
	balancer.Cut(lb.CleanEnd)
	if cut := seen.wait(t, lb.Cut); cut.Expiry != lb.FIN {
		t.Errorf("event is %+v, want %v", cut, lb.FIN)
	}
	if got, err := io.ReadAll(res.Body); len(got) > 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("read %q, %v, want nothing and %v", got, err, io.ErrUnexpectedEOF)
	}
}

// upload starts a request whose body never ends, to a stream that does not read
// it, and fills every buffer on the way. Closing such a connection resets it
// unless somebody reads what has come.
func upload(t *testing.T, addr net.Addr) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, r := dial(t, addr, "POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked")
	expectStatus(t, r, "HTTP/1.1 200 OK")
	expect(t, r, firstChunk)
	chunk := []byte("10000\r\n" + strings.Repeat("x", 0x10000) + "\r\n")
	for {
		conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := conn.Write(chunk); err != nil {
			return conn, r
		}
	}
}

func TestCutOfAnUpload(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expiry lb.Expiry
		wire   string
		err    error
	}{
		{lb.FIN, "", nil},
		{lb.RST, "", syscall.ECONNRESET},
		{lb.CleanEnd, terminator, nil},
	} {
		t.Run(test.expiry.String(), func(t *testing.T) {
			t.Parallel()
			upstreamDone := make(chan struct{})
			seen := newEvents()
			balancer, _ := startTCP(t, lb.Config{Observe: seen.observe}, func(w http.ResponseWriter, r *http.Request) {
				// With the body unread net/http does not notice that the
				// client leaves.
				http.NewResponseController(w).EnableFullDuplex()
				send(w, firstEvent)
				<-upstreamDone
			})
			defer close(upstreamDone)
			_, r := upload(t, balancer.Addr())
			seen.wait(t, lb.Opened)
			if got := balancer.Cut(test.expiry); got != 1 {
				t.Errorf("Cut() = %d, want 1", got)
			}
			if got, err := io.ReadAll(r); string(got) != test.wire || !errors.Is(err, test.err) {
				t.Errorf("read %q, %v, want %q, %v", got, err, test.wire, test.err)
			}
		})
	}
}
