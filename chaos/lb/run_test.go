package lb_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// When Run returns nothing is left, whatever was under way.
func TestRunEndsWithWorkUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			switch r.URL.Path {
			case "/kept":
				return
			case "/waiting":
			default:
				send(w, firstEvent)
			}
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		defer n.close()
		// open sends request and returns everything that comes back.
		open := func(request ...string) <-chan string {
			conn, r := n.raw(t, request...)
			got := make(chan string, 1)
			go func() {
				defer conn.Close()
				all, err := io.ReadAll(r)
				if err != nil {
					t.Errorf("%s: read %q, %v, want EOF", request[0], all, err)
				}
				got <- string(all)
			}()
			return got
		}
		silent := open("GET /silent HTTP/1.1", "Host: h", "", "")
		n.seen.wait(t, lb.Opened)
		synctest.Wait() // for the first chunk
		n.Cut(lb.Silent)
		n.seen.wait(t, lb.Cut)
		kept := open("GET /kept HTTP/1.1", "Host: h", "", "")
		n.seen.wait(t, lb.Opened)
		n.seen.wait(t, lb.Ended)
		stream := open("GET /stream HTTP/1.1", "Host: h", "", "")
		n.seen.wait(t, lb.Opened)
		upload := open("POST /upload HTTP/1.1", "Host: h", "Content-Length: 10", "", "half")
		n.seen.wait(t, lb.Opened)
		waiting := open("GET /waiting HTTP/1.1", "Host: h", "", "")
		headers := open("GET /headers HTTP/1.1", "Host: h")
		synctest.Wait()

		n.stop()
		if got := n.open.Load(); got != 0 {
			t.Errorf("%d connections are open when Run has returned, want 0", got)
		}
		for range 3 { // stream, upload, waiting
			if ended := n.seen.wait(t, lb.Ended); ended.Err != lb.ErrStopped {
				t.Errorf("event is %+v, want %v", ended, lb.ErrStopped)
			}
		}
		n.seen.none(t)
		for _, got := range []<-chan string{silent, stream, upload} {
			if wire := <-got; !strings.HasSuffix(wire, firstChunk) {
				t.Errorf("read %q, want it to end after the first chunk", wire)
			}
		}
		if wire := <-kept; !strings.HasSuffix(wire, "\r\n\r\n") {
			t.Errorf("read %q, want the one response", wire)
		}
		for _, got := range []<-chan string{waiting, headers} {
			if wire := <-got; wire != "" {
				t.Errorf("read %q, want nothing", wire)
			}
		}
	})
}

// A dial ends when Run does, and Run when the dial has.
func TestRunWaitsForADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned time.Time
		n := newNetwork(t, lb.Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			returned = time.Now()
			return nil, ctx.Err()
		}}, nil)
		defer n.close()
		got := make(chan error, 1)
		go func() {
			_, err := n.client.Get("http://h/")
			got <- err
		}()
		synctest.Wait()
		n.stop()
		n.at(t, "Run returns", time.Second)
		if want := n.began.Add(time.Second); returned != want {
			t.Errorf("the dial returned at %v, want %v", returned, want)
		}
		if err := <-got; err == nil {
			t.Error("the client got a response, want its connection closed")
		}
	})
}

func TestRunWaitsForObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Observe: func(e lb.Event) {
			if e.Kind == lb.Ended {
				time.Sleep(time.Second)
			}
		}}, silentStream(make(chan struct{}, 1)))
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		n.stop()
		n.at(t, "Run returns", time.Second)
	})
}

// The same on real sockets, where goleak looks for what is left.
func TestRunEndsOnLoopback(t *testing.T) {
	seen := newEvents()
	cancelled := make(chan struct{}, 8)
	upstream := startUpstream(t, silentStream(cancelled))
	balancer, stop := start(t, lb.Config{Upstream: upstream, Observe: seen.observe})
	var readers []io.Reader
	for i := range 4 {
		_, r := dial(t, balancer.Addr(), "GET / HTTP/1.1", "Host: h")
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		seen.wait(t, lb.Opened)
		if i == 0 {
			balancer.Cut(lb.Silent)
			seen.wait(t, lb.Cut)
		}
		readers = append(readers, r)
	}
	stop()
	for i, r := range readers {
		if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
			t.Errorf("stream %d: read %q, %v, want EOF", i, got, err)
		}
		<-cancelled
	}
	for range 3 {
		if ended := seen.wait(t, lb.Ended); ended.Err != lb.ErrStopped {
			t.Errorf("event is %+v, want %v", ended, lb.ErrStopped)
		}
	}
	seen.none(t)
	if conn, err := net.Dial("tcp", balancer.Addr().String()); err == nil {
		conn.Close()
		t.Error("the port accepts connections after Run")
	}
}

func TestRunsOnce(t *testing.T) {
	balancer, err := lb.New(lb.Config{Listener: memnettest.New(), Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := balancer.Run(ended); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	if err := balancer.Run(ended); err == nil {
		t.Error("second Run() = nil, want an error")
	}
	if err := balancer.Close(); err != nil {
		t.Errorf("Close() after Run = %v, want nil", err)
	}
}

func TestCloseFreesThePort(t *testing.T) {
	balancer, err := lb.New(lb.Config{Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := balancer.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	}
	if err := balancer.Run(t.Context()); err == nil {
		t.Error("Run() after Close = nil, want an error")
	}
	again, err := lb.New(lb.Config{Addr: balancer.Addr().String(), Upstream: "h:1"})
	if err != nil {
		t.Fatalf("New() on the freed port = %v", err)
	}
	again.Close()
}

func TestRunReportsABrokenListener(t *testing.T) {
	listener := memnettest.New()
	balancer, err := lb.New(lb.Config{Listener: listener, Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := balancer.Run(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "lb: ") {
		t.Errorf("Run() = %v, want lb: %v", err, net.ErrClosed)
	}
}
