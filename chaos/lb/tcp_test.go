package lb_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

func TestTCPIdleClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const comments = 100
		n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			send(w, firstEvent)
			for range comments {
				time.Sleep(idle - time.Second)
				send(w, ping)
			}
			<-r.Context().Done()
		})
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		want := firstEvent + strings.Repeat(ping, comments)
		if got, err := io.ReadAll(res.Body); string(got) != want || err != io.ErrUnexpectedEOF {
			t.Errorf("read %q, %v, want %q, %v", got, err, want, io.ErrUnexpectedEOF)
		}
		n.at(t, "the client sees the cut", comments*(idle-time.Second)+idle)
		if opened := n.seen.wait(t, lb.Opened); opened.At != n.began || opened.Stream != 1 || opened.Path != "" {
			t.Errorf("event is %+v, want stream 1 at %v", opened, n.began)
		}
		cut := n.seen.wait(t, lb.Cut)
		if !errors.Is(cut.Err, lb.ErrIdle) || cut.Expiry != lb.FIN || cut.Bytes <= int64(len(want)) {
			t.Errorf("event is %+v, want %v, %v and more than %d bytes", cut, lb.ErrIdle, lb.FIN, len(want))
		}
		n.seen.none(t)
	})
}

// What the client sends counts as well.
func TestTCPBytesOfTheClientKeepItAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		})
		defer n.close()
		conn, r := n.raw(t, "POST / HTTP/1.1", "Host: h", "Content-Length: 10", "", "")
		defer conn.Close()
		for range 10 {
			time.Sleep(idle - time.Second)
			if _, err := io.WriteString(conn, "x"); err != nil {
				t.Fatal(err)
			}
		}
		expectStatus(t, r, "HTTP/1.1 200 OK")
	})
}

// A piece counts when it has come, and again when the client has taken it.
func TestTCPIdleClockOfASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(40 * time.Second)
			send(w, firstEvent)
			time.Sleep(80 * time.Second)
			send(w, firstEvent)
		})
		defer n.close()
		conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer conn.Close()
		time.Sleep(80 * time.Second)
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		expect(t, r, firstChunk+terminator)
		n.at(t, "the end", 120*time.Second)
	})
}

func TestTCPMaxDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const whole = 30*time.Second + 500*time.Millisecond
		n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle, MaxDuration: whole}, keptAlive)
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); string(got) != firstEvent+strings.Repeat(ping, 30) || err != io.ErrUnexpectedEOF {
			t.Errorf("read %q, %v, want 30 comments and %v", got, err, io.ErrUnexpectedEOF)
		}
		n.at(t, "the end", whole)
	})
}

// Silent in TCP mode: nothing passes any more, in either direction, and the
// upstream's side is gone.
func TestTCPSilence(t *testing.T) {
	for _, expiry := range []lb.Expiry{lb.Silent, lb.SilentThenRST} {
		t.Run(expiry.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle, OnExpiry: expiry}, silentStream(make(chan struct{}, 1)))
				defer n.close()
				conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
				defer conn.Close()
				expectStatus(t, r, "HTTP/1.1 200 OK")
				expect(t, r, firstChunk)
				n.seen.wait(t, lb.Opened)
				if cut := n.seen.wait(t, lb.Cut); cut.Expiry != expiry {
					t.Errorf("event is %+v, want %v", cut, expiry)
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if got := n.open.Load(); got != 1 {
					t.Errorf("%d connections are open in the silence, want 1, the client's", got)
				}
				if _, err := io.WriteString(conn, "x"); err != nil {
					t.Errorf("write into the silence: %v", err)
				}
				synctest.Wait()
				if got, want := n.open.Load() == 1, expiry == lb.Silent; got != want {
					t.Errorf("the client's connection is open after a write: %v, want %v", got, want)
				}
				conn.Close()
				synctest.Wait()
				if got := n.open.Load(); got != 0 {
					t.Errorf("%d connections are open after the client has left, want 0", got)
				}
			})
		})
	}
}

func TestTCPDialIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{
			Mode: lb.TCP, IdleTimeout: idle,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}, nil)
		defer n.close()
		conn, err := n.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
			t.Errorf("read %q, %v, want EOF", got, err)
		}
		n.at(t, "EOF", idle)
		if cut := n.seen.wait(t, lb.Cut); !errors.Is(cut.Err, lb.ErrIdle) {
			t.Errorf("event is %+v, want %v", cut, lb.ErrIdle)
		}
	})
}

func TestTCPClientThatDoesNotReadIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Mode: lb.TCP, IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				send(w, strings.Repeat("x", 1<<20))
			}
		})
		defer n.close()
		conn, _ := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer conn.Close()
		n.seen.wait(t, lb.Opened)
		if cut := n.seen.wait(t, lb.Cut); !errors.Is(cut.Err, lb.ErrIdle) || cut.Bytes != 0 {
			t.Errorf("event is %+v, want %v after 0 bytes", cut, lb.ErrIdle)
		}
		n.at(t, "the cut", idle)
	})
}

func TestTCPRunEndsWithWorkUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Mode: lb.TCP}, silentStream(make(chan struct{}, 2)))
		defer n.close()
		silent, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer silent.Close()
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		n.seen.wait(t, lb.Opened)
		if got := n.Cut(lb.Silent); got != 1 {
			t.Errorf("Cut() = %d, want 1", got)
		}
		if cut := n.seen.wait(t, lb.Cut); !errors.Is(cut.Err, lb.ErrCut) {
			t.Errorf("event is %+v, want %v", cut, lb.ErrCut)
		}
		if got := n.Cut(lb.CleanEnd); got != 0 {
			t.Errorf("Cut(%v) = %d, want 0", lb.CleanEnd, got)
		}
		conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer conn.Close()
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		n.seen.wait(t, lb.Opened)
		n.stop()
		if got := n.open.Load(); got != 0 {
			t.Errorf("%d connections are open when Run has returned, want 0", got)
		}
		if ended := n.seen.wait(t, lb.Ended); ended.Err != lb.ErrStopped {
			t.Errorf("event is %+v, want %v", ended, lb.ErrStopped)
		}
		if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
			t.Errorf("read %q, %v, want EOF", got, err)
		}
	})
}

// Each side may end its half first, and the other half goes on.
func TestTCPHalfClose(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn) // to the client's end
		conn.Write(all)
	}()
	seen := newEvents()
	balancer := startEngine(t, lb.Config{Mode: lb.TCP, Upstream: listener.Addr().String(), Observe: seen.observe}, nil)
	conn, err := net.Dial("tcp", balancer.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := strings.Repeat("0123456789", 100_000)
	io.WriteString(conn, want)
	conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != want || err != nil {
		t.Errorf("read %d bytes, %v, want the %d that were sent and EOF", len(got), err, len(want))
	}
	seen.wait(t, lb.Opened)
	if ended := seen.wait(t, lb.Ended); ended.Err != nil || ended.Bytes != int64(len(want)) {
		t.Errorf("event is %+v, want an end in order after %d bytes", ended, len(want))
	}
}

func TestTCPUpstreamThatIsReset(t *testing.T) {
	upstream := rawUpstream(t, func(conn net.Conn) { conn.(*net.TCPConn).SetLinger(0) })
	seen := newEvents()
	balancer := startEngine(t, lb.Config{Mode: lb.TCP, Upstream: upstream, Observe: seen.observe}, nil)
	if got := raw(t, balancer.Addr(), "/"); got != "FIN" {
		t.Errorf("client sees %s, want FIN", got)
	}
	seen.wait(t, lb.Opened)
	if ended := seen.wait(t, lb.Ended); !errors.Is(ended.Err, syscall.ECONNRESET) {
		t.Errorf("event is %+v, want %v", ended, syscall.ECONNRESET)
	}
}

func TestTCPReportsABrokenListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := lb.New(lb.Config{Mode: lb.TCP, Listener: listener, Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := balancer.Run(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "lb: ") {
		t.Errorf("Run() = %v, want lb: %v", err, net.ErrClosed)
	}
}
