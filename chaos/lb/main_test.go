package lb_test

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if engine := os.Getenv(ownerEnv); engine != "" {
		own(lb.Engine(engine))
	}
	// Tests in real time wait for most of theirs: they do it together, not as
	// many at a time as there are cores, unless somebody asks for that.
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		flag.Set("test.parallel", "32")
	}
	goleak.VerifyTestMain(m)
}

// events is an Observe hook to wait on. It never blocks the load balancer as
// long as a test has fewer than its capacity of events.
type events chan lb.Event

func newEvents() events { return make(events, 1024) }

func (e events) observe(event lb.Event) { e <- event }

// wait returns the next event, which must be of this kind.
func (e events) wait(t *testing.T, kind lb.EventKind) lb.Event {
	t.Helper()
	event := <-e
	if event.Kind != kind {
		t.Fatalf("event is %+v, want kind %v", event, kind)
	}
	return event
}

// soon is wait for an event that a program has to log: it may not come. It is
// for real time only.
func (e events) soon(t *testing.T, kind lb.EventKind) lb.Event {
	t.Helper()
	select {
	case event := <-e:
		if event.Kind != kind {
			t.Fatalf("event is %+v, want kind %v", event, kind)
		}
		return event
	case <-time.After(patience):
		t.Fatalf("no event, want kind %v", kind)
		return lb.Event{}
	}
}

// none checks that no event is waiting.
func (e events) none(t *testing.T) {
	t.Helper()
	select {
	case event := <-e:
		t.Errorf("event %+v, want none", event)
	default:
	}
}

// start runs a load balancer until stop is called, which waits for it.
func start(t *testing.T, cfg lb.Config) (balancer *lb.LoadBalancer, stop func()) {
	t.Helper()
	balancer, err := lb.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- balancer.Run(ctx) }()
	return balancer, func() {
		t.Helper()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}
}

// startUpstream serves handler on loopback until the test ends.
func startUpstream(t *testing.T, handler http.HandlerFunc) (addr string) {
	t.Helper()
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String()
}

// startTCP is start in front of handler, on loopback, until the test ends. The
// client is nobody else's.
func startTCP(t *testing.T, cfg lb.Config, handler http.HandlerFunc) (*lb.LoadBalancer, *http.Client) {
	t.Helper()
	cfg.Upstream = startUpstream(t, handler)
	balancer, stop := start(t, cfg)
	t.Cleanup(stop)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return balancer, &http.Client{Transport: transport}
}

// rawUpstream answers every connection with the bytes that respond writes,
// after it has read the request's headers, and then closes it.
func rawUpstream(t *testing.T, respond func(conn net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			readHead(bufio.NewReader(conn))
			respond(conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// dial opens a bare client connection and sends the head of a request on it, whose
// lines those are.
func dial(t *testing.T, addr net.Addr, head ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, strings.Join(head, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// readHead returns the first line and the headers of a message.
func readHead(r *bufio.Reader) (first string, header textproto.MIMEHeader, err error) {
	tp := textproto.NewReader(r)
	if first, err = tp.ReadLine(); err != nil {
		return "", nil, err
	}
	header, err = tp.ReadMIMEHeader()
	return first, header, err
}

// expect reads exactly want.
func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

// expectStatus reads the head of a response.
func expectStatus(t *testing.T, r *bufio.Reader, want string) textproto.MIMEHeader {
	t.Helper()
	first, header, err := readHead(r)
	if err != nil || first != want {
		t.Fatalf("status line is %q, %v, want %q", first, err, want)
	}
	return header
}

// send writes and flushes a piece of a response body.
func send(w http.ResponseWriter, piece string) {
	io.WriteString(w, piece)
	http.NewResponseController(w).Flush()
}
