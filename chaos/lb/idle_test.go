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

func TestCommentsKeepAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const comments, ping = 100, ": ping\n\n"
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
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
		const silence = comments * (idle - time.Second)
		n.at(t, "the client sees the cut", silence+idle)
		n.seen.wait(t, lb.Opened)
		cut := n.seen.wait(t, lb.Cut)
		if cut.At != n.began.Add(silence+idle) || cut.Expiry != lb.FIN || cut.Bytes != int64(len(want)) {
			t.Errorf("event is %+v, want %v at %v after %d bytes", cut, lb.FIN, n.began.Add(silence+idle), len(want))
		}
	})
}

func TestRequestBytesKeepAStreamAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			send(w, "")
			io.Copy(io.Discard, r.Body)
		})
		defer n.close()
		body, upload := io.Pipe()
		defer upload.Close()
		go func() {
			for range 10 {
				time.Sleep(idle - time.Second)
				io.WriteString(upload, "x")
			}
		}()
		res, err := n.client.Post("http://h/", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); len(got) > 0 || err != io.ErrUnexpectedEOF {
			t.Errorf("read %q, %v, want nothing and %v", got, err, io.ErrUnexpectedEOF)
		}
		n.at(t, "the client sees the cut", 10*(idle-time.Second)+idle)
	})
}

// Each request of a connection has a clock of its own.
func TestIdleClockStartsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(idle - time.Second)
		})
		defer n.close()
		for range 3 {
			res, err := n.client.Get("http://h/")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("status is %d, want 200", res.StatusCode)
			}
			time.Sleep(idle - time.Second)
		}
	})
}

func TestNoIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(24 * time.Hour)
			send(w, firstEvent)
			time.Sleep(24 * time.Hour)
			send(w, firstEvent)
		})
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); string(got) != firstEvent+firstEvent || err != nil {
			t.Errorf("read %q, %v, want two events", got, err)
		}
	})
}

func TestIdleBeforeHeadersIs504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan time.Time, 2)
		n := newNetwork(t, lb.Config{IdleTimeout: idle, OnExpiry: lb.RST}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			cancelled <- time.Now()
		})
		defer n.close()
		for i := range time.Duration(2) { // the connection stays usable
			res, err := n.client.Get("http://h/path")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if res.StatusCode != 504 || string(text) != "504 Gateway Timeout\n" || err != nil {
				t.Errorf("response is %d %q, %v, want a 504", res.StatusCode, text, err)
			}
			res.Body.Close()
			n.at(t, "504", (i+1)*idle)
			if got, want := <-cancelled, n.began.Add((i+1)*idle); got != want {
				t.Errorf("the upstream's request was cancelled at %v, want %v", got, want)
			}
			refused := n.seen.wait(t, lb.Refused)
			if refused.Status != 504 || !errors.Is(refused.Err, lb.ErrIdle) || refused.Path != "/path" {
				t.Errorf("event is %+v, want 504, %v, /path", refused, lb.ErrIdle)
			}
		}
		n.seen.none(t)
	})
}

// The client has stopped in the middle of its request: it gets its answer, and
// what it might still send is not taken for another request.
func TestIdleUploadIs504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		})
		defer n.close()
		conn, r := n.raw(t, "POST / HTTP/1.1", "Host: h", "Content-Length: 100", "", "half")
		defer conn.Close()
		header := expectStatus(t, r, "HTTP/1.1 504 Gateway Timeout")
		n.at(t, "504", idle)
		if got := header.Get("Connection"); got != "close" {
			t.Errorf("Connection is %q, want close", got)
		}
		if got, err := io.ReadAll(r); string(got) != "504 Gateway Timeout\n" || err != nil {
			t.Errorf("read %q, %v, want the text and EOF", got, err)
		}
	})
}

func TestIdleDialIs504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gaveUp := make(chan time.Time, 1)
		n := newNetwork(t, lb.Config{
			IdleTimeout: idle,
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				gaveUp <- time.Now()
				return nil, ctx.Err()
			},
		}, nil)
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 504 {
			t.Errorf("status is %d, want 504", res.StatusCode)
		}
		n.at(t, "504", idle)
		if got := <-gaveUp; got != n.began.Add(idle) {
			t.Errorf("the dial ended after %v, want %v", got.Sub(n.began), idle)
		}
	})
}

// A write that waits for the client is no excuse: no byte moves.
func TestClientThatDoesNotReadIsIdle(t *testing.T) {
	for _, test := range []struct {
		expiry, seen lb.Expiry
		grace        time.Duration
	}{
		{lb.FIN, lb.FIN, 0},
		{lb.Silent, lb.Silent, 0},
		{lb.CleanEnd, lb.FIN, 250 * time.Millisecond}, // a chunk is half written
	} {
		t.Run(test.expiry.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{IdleTimeout: idle, OnExpiry: test.expiry}, func(w http.ResponseWriter, r *http.Request) {
					send(w, firstEvent)
					time.Sleep(time.Second)
					send(w, strings.Repeat("x", 1<<20))
				})
				defer n.close()
				conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
				defer conn.Close()
				expectStatus(t, r, "HTTP/1.1 200 OK")
				expect(t, r, firstChunk)

				n.seen.wait(t, lb.Opened)
				cut := n.seen.wait(t, lb.Cut)
				n.at(t, "the cut", time.Second+idle+test.grace)
				if cut.Expiry != test.seen || cut.Bytes != int64(len(firstEvent)) {
					t.Errorf("event is %+v, want %v after %d bytes", cut, test.seen, len(firstEvent))
				}
			})
		})
	}
}

// What the upstream sends after the decision is lost, even if it is read before
// the cut.
func TestNothingPassesAfterTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := memnettest.New()
		upstream := &http.Server{Handler: silentStream(make(chan struct{}, 1))}
		go upstream.Serve(back)
		defer upstream.Close()
		n := newNetwork(t, lb.Config{
			IdleTimeout: idle, OnExpiry: lb.CleanEnd,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := back.DialContext(ctx, network, addr)
				return &lateConn{conn, firstChunk}, err
			},
		}, nil)
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); string(got) != firstEvent || err != nil {
			t.Errorf("read %q, %v, want only %q", got, err, firstEvent)
		}
		n.at(t, "the end", idle)
	})
}

// A piece counts when the client has taken it, too.
func TestIdleClockStartsAfterTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(w http.ResponseWriter, r *http.Request) {
			send(w, firstEvent)
			time.Sleep(80 * time.Second)
			send(w, firstEvent)
		})
		defer n.close()
		conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer conn.Close()
		expectStatus(t, r, "HTTP/1.1 200 OK")
		time.Sleep(40 * time.Second)
		expect(t, r, firstChunk)
		expect(t, r, firstChunk+terminator)
		n.at(t, "the end", 80*time.Second)
	})
}

func TestRSTInMemoryIsFIN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle, OnExpiry: lb.RST}, silentStream(make(chan struct{}, 1)))
		defer n.close()
		conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		defer conn.Close()
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
			t.Errorf("read %q, %v, want EOF", got, err)
		}
		n.at(t, "EOF", idle)
		n.seen.wait(t, lb.Opened)
		if cut := n.seen.wait(t, lb.Cut); cut.Expiry != lb.FIN {
			t.Errorf("event is %+v, want %v", cut, lb.FIN)
		}
	})
}

func TestSilenceEndsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle, OnExpiry: lb.Silent}, silentStream(make(chan struct{}, 1)))
		defer n.close()
		conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)

		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := n.open.Load(); got != 1 {
			t.Errorf("%d connections are open in the silence, want 1, the client's", got)
		}
		if _, err := io.WriteString(conn, "anyone?"); err != nil { // in memory it returns when it has been read
			t.Errorf("write into the silence: %v", err)
		}
		conn.Close()
		synctest.Wait()
		if got := n.open.Load(); got != 0 {
			t.Errorf("%d connections are open after the client has left, want 0", got)
		}
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	for name, request := range map[string][]string{
		"new":        nil,
		"in headers": {"GET / HTTP/1.1", "Host: h"},
		"kept":       {"GET / HTTP/1.1", "Host: h", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{IdleTimeout: idle}, func(http.ResponseWriter, *http.Request) {})
				defer n.close()
				conn, r := n.raw(t, request...)
				defer conn.Close()
				if name == "kept" {
					expectStatus(t, r, "HTTP/1.1 200 OK")
				}
				if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
					t.Errorf("read %q, %v, want EOF", got, err)
				}
				n.at(t, "EOF", idle)
			})
		})
	}
}
