package lb_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

func TestBytesPassUnchanged(t *testing.T) {
	content := make([]byte, 3<<20+1)
	rand.NewChaCha8([32]byte{1}).Read(content)
	seen := newEvents()
	balancer, client := startTCP(t, lb.Config{Observe: seen.observe}, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Lengths"] = []string{r.Header.Get("Content-Length"), strings.Join(r.TransferEncoding, "")}
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(http.StatusTeapot)
		io.Copy(w, r.Body)
	})
	for _, encoding := range []string{"", "chunked"} {
		var body io.Reader = bytes.NewReader(content)
		if encoding != "" {
			body = io.MultiReader(body) // of a length that nobody knows
		}
		req, _ := http.NewRequest("PUT", balancer.URL(), body)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusTeapot || err != nil || !bytes.Equal(got, content) {
			t.Errorf("encoding %q: %d with %d bytes, %v, want %d with the %d bytes sent",
				encoding, res.StatusCode, len(got), err, http.StatusTeapot, len(content))
		}
		if got := res.Header["X-Lengths"][1]; got != encoding {
			t.Errorf("transfer encoding at the upstream is %q, want %q", got, encoding)
		}
		seen.wait(t, lb.Opened)
		ended := seen.wait(t, lb.Ended)
		if ended.Err != nil || ended.Bytes != int64(len(content)) || ended.Status != http.StatusTeapot || ended.Method != "PUT" {
			t.Errorf("event is %+v, want a PUT that ended in order with all bytes", ended)
		}
	}
}

func TestTargetAndHostPassUnchanged(t *testing.T) {
	var got, host string
	balancer, _ := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) { got, host = r.RequestURI, r.Host })
	for _, target := range []string{"/", "/?", "/mcp?q=1;2&%zz?", "/a%2Fb//c%41/", "//twice"} {
		_, r := dial(t, balancer.Addr(), "GET "+target+" HTTP/1.1", "Host: public.example:81")
		expectStatus(t, r, "HTTP/1.1 200 OK")
		if got != target || host != "public.example:81" {
			t.Errorf("upstream got %q at %q, want %q at public.example:81", got, host, target)
		}
	}
}

func TestEmptyBodyStaysEmpty(t *testing.T) {
	var length int64
	var encoding []string
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		length, encoding = r.ContentLength, r.TransferEncoding
	})
	res, err := client.Post(balancer.URL(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if length != 0 || encoding != nil {
		t.Errorf("upstream got length %d, encoding %q, want 0 and none", length, encoding)
	}
}

func TestRequestHeaders(t *testing.T) {
	var got http.Header
	balancer, _ := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) { got = r.Header })
	_, r := dial(t, balancer.Addr(),
		"GET / HTTP/1.1", "Host: h",
		"Connection: close, X-Private , Upgrade", "X-Private: 1", "Upgrade: websocket",
		"Proxy-Connection: keep-alive", "Keep-Alive: timeout=5", "TE: trailers",
		"Last-Event-ID: 7", "X-Twice: 1", "X-Twice: 2",
		"X-Forwarded-For: 192.0.2.1, 192.0.2.2", "X-Forwarded-For: 192.0.2.3")
	expectStatus(t, r, "HTTP/1.1 200 OK")
	want := http.Header{
		"Last-Event-Id":   {"7"},
		"X-Twice":         {"1", "2"},
		"X-Forwarded-For": {"192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("upstream got %v, want %v", got, want)
	}
}

func TestResponseHeaders(t *testing.T) {
	upstream := rawUpstream(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 202 Right You Are\r\nConnection: x-private\r\nX-Private: 1\r\n"+
			"Keep-Alive: timeout=5\r\nProxy-Connection: close\r\nUpgrade: h2c\r\n"+
			"Mcp-Session-Id: s\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: 2\r\n\r\nok")
	})
	balancer, stop := start(t, lb.Config{Upstream: upstream})
	defer stop()
	_, r := dial(t, balancer.Addr(), "GET / HTTP/1.1", "Host: h")
	got := expectStatus(t, r, "HTTP/1.1 202 Accepted")
	want := textproto.MIMEHeader{
		"Mcp-Session-Id": {"s"},
		"X-Twice":        {"1", "2"},
		"Content-Length": {"2"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("client got %v, want %v", got, want)
	}
	expect(t, r, "ok")
}

func TestTrailersPass(t *testing.T) {
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.Copy(w, r.Body)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
	})
	req, _ := http.NewRequest("POST", balancer.URL(), io.MultiReader(strings.NewReader("body")))
	req.Trailer = http.Header{"X-Sum": {"42"}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, announced := res.Trailer["X-Sum"]; !announced {
		t.Errorf("announced trailers are %v, want X-Sum", res.Trailer)
	}
	io.Copy(io.Discard, res.Body)
	if got := res.Trailer.Get("X-Sum"); got != "42" {
		t.Errorf("trailer is %q, want 42", got)
	}
}

// The upstream sends each piece only when the client has had the one before, so
// nothing arrives if anything is kept back.
func TestNothingIsBuffered(t *testing.T) {
	had := make(chan struct{})
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		send(w, "") // the headers
		for range 3 {
			<-had
			send(w, firstEvent)
		}
	})
	res, err := client.Get(balancer.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for range 3 {
		had <- struct{}{}
		expect(t, res.Body, firstEvent)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	remotes := make(map[string]bool)
	balancer, client := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) { remotes[r.RemoteAddr] = true })
	for i := range 5 {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused != (i > 0) {
				t.Errorf("request %d: client connection reused: %v", i, info.Reused)
			}
		}})
		req, _ := http.NewRequestWithContext(ctx, "POST", balancer.URL(), strings.NewReader("body"))
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if len(remotes) != 1 {
		t.Errorf("upstream saw connections %v, want one", remotes)
	}
}

func TestNoResponseIs502(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, upstream := range map[string]string{
		"unreachable": closed.Addr().String(),
		"no answer":   rawUpstream(t, func(net.Conn) {}),
		"not HTTP":    rawUpstream(t, func(conn net.Conn) { io.WriteString(conn, "+OK\r\n\r\n") }),
		"upgrade": rawUpstream(t, func(conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			seen := newEvents()
			balancer, stop := start(t, lb.Config{Upstream: upstream, Observe: seen.observe})
			defer stop()
			conn, r := dial(t, balancer.Addr(), "GET / HTTP/1.1", "Host: h")
			for range 2 { // the client's connection stays usable
				expectStatus(t, r, "HTTP/1.1 502 Bad Gateway")
				expect(t, r, "502 Bad Gateway\n")
				refused := seen.wait(t, lb.Refused)
				if refused.Status != 502 || !strings.HasPrefix(refused.Err.Error(), "lb: upstream: ") {
					t.Errorf("event is %+v, want 502 and the upstream's error", refused)
				}
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			}
			expectStatus(t, r, "HTTP/1.1 502 Bad Gateway")
		})
	}
}

func TestConnectIsRefused(t *testing.T) {
	seen := newEvents()
	balancer, stop := start(t, lb.Config{Upstream: "127.0.0.1:1", Observe: seen.observe})
	defer stop()
	_, r := dial(t, balancer.Addr(), "CONNECT h:443 HTTP/1.1", "Host: h:443")
	expectStatus(t, r, "HTTP/1.1 501 Not Implemented")
	if refused := seen.wait(t, lb.Refused); refused.Status != 501 || refused.Err == nil {
		t.Errorf("event is %+v, want 501 and an error", refused)
	}
}

func TestOptionsOfTheServerPasses(t *testing.T) {
	upstream := rawUpstream(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n")
	})
	balancer, stop := start(t, lb.Config{Upstream: upstream})
	defer stop()
	_, r := dial(t, balancer.Addr(), "OPTIONS * HTTP/1.1", "Host: h")
	if got := expectStatus(t, r, "HTTP/1.1 204 No Content").Get("Allow"); got != "GET" {
		t.Errorf("Allow is %q, want the upstream's, GET", got)
	}
}

func TestClientLeavingCancelsTheUpstream(t *testing.T) {
	for name, opened := range map[string]bool{"/before": false, "/during": true} {
		t.Run(name, func(t *testing.T) {
			seen := newEvents()
			arrived, cancelled := make(chan struct{}), make(chan struct{})
			balancer, client := startTCP(t, lb.Config{Observe: seen.observe}, func(w http.ResponseWriter, r *http.Request) {
				if opened {
					send(w, firstEvent)
				}
				close(arrived)
				<-r.Context().Done()
				close(cancelled)
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				if opened {
					seen.wait(t, lb.Opened)
				}
				cancel()
			}()
			req, _ := http.NewRequestWithContext(ctx, "GET", balancer.URL()+name, nil)
			if res, err := client.Do(req); err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			<-cancelled
			ended := seen.wait(t, lb.Ended)
			if !errors.Is(ended.Err, lb.ErrClientLeft) || ended.Path != name || (ended.Status == 200) != opened {
				t.Errorf("event is %+v, want %v, %s", ended, lb.ErrClientLeft, name)
			}
			seen.none(t)
		})
	}
}

func TestClientLeavingDuringItsRequest(t *testing.T) {
	seen := newEvents()
	read := make(chan error)
	balancer, _ := startTCP(t, lb.Config{Observe: seen.observe}, func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 4))
		read <- nil
		_, err := io.Copy(io.Discard, r.Body)
		read <- err
	})
	conn, _ := dial(t, balancer.Addr(), "POST / HTTP/1.1", "Host: h", "Content-Length: 100")
	io.WriteString(conn, "half")
	<-read
	conn.Close()
	if err := <-read; err == nil {
		t.Error("upstream read a whole request, want an error")
	}
	if ended := seen.wait(t, lb.Ended); !errors.Is(ended.Err, lb.ErrClientLeft) {
		t.Errorf("event is %+v, want %v", ended, lb.ErrClientLeft)
	}
}

// An upstream that breaks off must not look like one that is done.
func TestUpstreamBreakingOff(t *testing.T) {
	seen := newEvents()
	upstream := rawUpstream(t, func(conn net.Conn) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+firstChunk)
	})
	balancer, stop := start(t, lb.Config{Upstream: upstream, Observe: seen.observe})
	defer stop()
	_, r := dial(t, balancer.Addr(), "GET / HTTP/1.1", "Host: h")
	expectStatus(t, r, "HTTP/1.1 200 OK")
	if got, err := io.ReadAll(r); string(got) != firstChunk || err != nil {
		t.Errorf("read %q, %v, want %q and EOF", got, err, firstChunk)
	}
	seen.wait(t, lb.Opened)
	ended := seen.wait(t, lb.Ended)
	if !errors.Is(ended.Err, io.ErrUnexpectedEOF) || ended.Bytes != int64(len(firstEvent)) {
		t.Errorf("event is %+v, want %v after the first event", ended, io.ErrUnexpectedEOF)
	}
}

// The upstream answers before it has read the request. The client gets the whole
// answer, though it is still sending, and the rest of its request is not taken
// for another one.
func TestAnswerBeforeTheRequestHasEnded(t *testing.T) {
	for name, response := range map[string]string{
		"chunked": "HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nno!\r\n0\r\nX-Sum: 42\r\n\r\n",
		"length":  "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!",
	} {
		t.Run(name, func(t *testing.T) {
			var requests int
			done := make(chan struct{})
			upstream := rawUpstream(t, func(conn net.Conn) {
				requests++
				io.WriteString(conn, response)
				<-done
			})
			balancer, stop := start(t, lb.Config{Upstream: upstream})
			conn, r := dial(t, balancer.Addr(), "POST / HTTP/1.1", "Host: h", "Content-Length: 1000000")
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); string(got) != "no!" || err != nil || res.StatusCode != 413 {
				t.Errorf("response is %d %q, %v, want 413 with its body", res.StatusCode, got, err)
			}
			if want := res.Trailer.Get("X-Sum"); name == "chunked" && want != "42" {
				t.Errorf("trailer is %q, want 42", want)
			}
			io.WriteString(conn, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
			if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
				t.Errorf("read %q, %v, want EOF", got, err)
			}
			close(done)
			stop()
			if requests != 1 {
				t.Errorf("upstream got %d requests, want 1", requests)
			}
		})
	}
}

func TestUploadAndResponseAtOnce(t *testing.T) {
	balancer, _ := startTCP(t, lb.Config{}, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			send(w, lines.Text()+"\n")
		}
	})
	conn, r := dial(t, balancer.Addr(), "POST / HTTP/1.1", "Host: h", "Content-Length: 4")
	io.WriteString(conn, "a\n")
	expectStatus(t, r, "HTTP/1.1 200 OK")
	expect(t, r, "2\r\na\n\r\n")
	io.WriteString(conn, "b\n")
	expect(t, r, "2\r\nb\n\r\n"+terminator)
}
