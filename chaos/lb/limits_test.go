package lb_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// keptAlive is a stream with a comment each second, for ever.
func keptAlive(w http.ResponseWriter, r *http.Request) {
	send(w, firstEvent)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			send(w, ping)
		case <-r.Context().Done():
			return
		}
	}
}

// Keepalives do not help against a limit on the whole.
func TestMaxDuration(t *testing.T) {
	for expiry, end := range map[lb.Expiry]error{lb.FIN: io.ErrUnexpectedEOF, lb.CleanEnd: nil, 503: io.ErrUnexpectedEOF} {
		t.Run(expiry.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const whole = 30*time.Second + 500*time.Millisecond
				n := newNetwork(t, lb.Config{IdleTimeout: idle, MaxDuration: whole, OnExpiry: expiry}, keptAlive)
				defer n.close()
				res, err := n.client.Get("http://h/")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				want := firstEvent + strings.Repeat(ping, 30)
				if got, err := io.ReadAll(res.Body); string(got) != want || err != end {
					t.Errorf("read %q, %v, want %q, %v", got, err, want, end)
				}
				n.at(t, "the end", whole)
				n.seen.wait(t, lb.Opened)
				how := expiry
				if end != nil {
					how = lb.FIN // also for a status, which is too late
				}
				if cut := n.seen.wait(t, lb.Cut); !errors.Is(cut.Err, lb.ErrMaxDuration) || cut.Expiry != how {
					t.Errorf("event is %+v, want %v, %v", cut, lb.ErrMaxDuration, how)
				}
			})
		})
	}
}

// The whole includes the wait for the headers.
func TestLimitsBeforeTheHeaders(t *testing.T) {
	for _, test := range []struct {
		cfg    lb.Config
		status int
		at     time.Duration
		why    error
	}{
		{lb.Config{HeaderTimeout: 30 * time.Second, IdleTimeout: idle}, 504, 30 * time.Second, lb.ErrHeaderTimeout},
		{lb.Config{HeaderTimeout: 2 * idle, IdleTimeout: idle}, 504, idle, lb.ErrIdle},
		{lb.Config{MaxDuration: 10 * time.Second, OnExpiry: lb.CleanEnd}, 504, 10 * time.Second, lb.ErrMaxDuration},
		{lb.Config{HeaderTimeout: time.Second, HeaderStatus: 599, OnExpiry: lb.Silent}, 599, time.Second, lb.ErrHeaderTimeout},
		{lb.Config{IdleTimeout: time.Second, OnExpiry: 502}, 502, time.Second, lb.ErrIdle},
		{lb.Config{Profile: lb.Heroku}, 503, 30 * time.Second, lb.ErrHeaderTimeout},
		{lb.Config{Profile: lb.Cloudflare}, 524, 120 * time.Second, lb.ErrIdle},
		{lb.Config{Profile: lb.Envoy}, 504, 15 * time.Second, lb.ErrMaxDuration},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, test.cfg, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			defer n.close()
			res, err := n.client.Get("http://h/")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != test.status || err != nil || strings.Contains(string(text), " \n") {
				t.Errorf("%s: response is %d %q, %v, want %d", name(test.cfg, ""), res.StatusCode, text, err, test.status)
			}
			n.at(t, name(test.cfg, ""), test.at)
			if refused := n.seen.wait(t, lb.Refused); refused.Status != test.status || !errors.Is(refused.Err, test.why) {
				t.Errorf("%s: event is %+v, want %d, %v", name(test.cfg, ""), refused, test.status, test.why)
			}
		})
	}
}

// Once there are headers their limit is of no concern.
func TestHeaderTimeoutEndsWithTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{HeaderTimeout: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			send(w, firstEvent)
			time.Sleep(time.Hour)
		})
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got, err := io.ReadAll(res.Body); string(got) != firstEvent || err != nil {
			t.Errorf("read %q, %v, want %q and its end", got, err, firstEvent)
		}
	})
}

// The body of the request does not prolong the wait for the headers.
func TestHeaderTimeoutCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{HeaderTimeout: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		})
		defer n.close()
		conn, r := n.raw(t, "POST / HTTP/1.1", "Host: h", "Content-Length: 100", "", "")
		defer conn.Close()
		go func() {
			for range 12 {
				time.Sleep(time.Second)
				io.WriteString(conn, "x")
			}
		}()
		expectStatus(t, r, "HTTP/1.1 504 Gateway Timeout")
		n.at(t, "504", 10*time.Second)
		io.Copy(io.Discard, r)
		time.Sleep(5 * time.Second)
	})
}

func TestBuffering(t *testing.T) {
	const half = 4 << 10
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Buffering: new(true)}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/exempt" {
				w.Header().Set("X-Accel-Buffering", "no")
			}
			for range 5 {
				send(w, strings.Repeat("x", half))
				time.Sleep(time.Second)
			}
		})
		defer n.close()
		res, err := n.client.Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		n.at(t, "the headers come with the first full buffer", time.Second)
		for _, at := range []time.Duration{time.Second, 3 * time.Second} {
			expect(t, res.Body, strings.Repeat("x", 2*half))
			n.at(t, "a full buffer", at)
		}
		expect(t, res.Body, strings.Repeat("x", half))
		n.at(t, "the rest comes with the end", 5*time.Second)
		res.Body.Close()

		if res, err = n.client.Get("http://h/exempt"); err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		expect(t, res.Body, strings.Repeat("x", half))
		n.at(t, "what is exempt comes at once", 5*time.Second)
		if got := res.Header.Get("X-Accel-Buffering"); got != "" {
			t.Errorf("X-Accel-Buffering is %q at the client, want none", got)
		}
		io.Copy(io.Discard, res.Body)
	})
}

// What is kept back when a limit is reached is lost, and the client sees the
// headers at last. The upstream's bytes do count.
func TestBufferingUntilTheLimit(t *testing.T) {
	for _, test := range []struct {
		expiry lb.Expiry
		status string // "": the client sees nothing
		rest   string
	}{
		{lb.FIN, "HTTP/1.1 200 OK", ""},
		{lb.CleanEnd, "HTTP/1.1 200 OK", terminator},
		{lb.Silent, "", ""},
	} {
		t.Run(test.expiry.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, lb.Config{Buffering: new(true), IdleTimeout: idle, OnExpiry: test.expiry},
					func(w http.ResponseWriter, r *http.Request) {
						send(w, firstEvent)
						time.Sleep(idle / 2)
						send(w, firstEvent)
						<-r.Context().Done()
					})
				defer n.close()
				conn, r := n.raw(t, "GET / HTTP/1.1", "Host: h", "", "")
				defer conn.Close()
				if test.status == "" {
					n.seen.wait(t, lb.Cut)
					n.at(t, "the cut", idle+idle/2)
					conn.SetReadDeadline(time.Now().Add(time.Hour))
					if _, err := r.ReadByte(); err == nil {
						t.Error("the client reads something, want silence")
					}
					return
				}
				expectStatus(t, r, test.status)
				n.at(t, "the headers", idle+idle/2)
				if test.rest != "" {
					expect(t, r, test.rest)
				} else if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
					t.Errorf("read %q, %v, want EOF", got, err)
				}
				n.seen.wait(t, lb.Opened)
				if cut := n.seen.wait(t, lb.Cut); cut.Expiry != test.expiry || cut.Bytes != 0 {
					t.Errorf("event is %+v, want %v after 0 bytes", cut, test.expiry)
				}
			})
		})
	}
}

func TestBufferingOfShortResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{Buffering: new(true)}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/empty" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			io.WriteString(w, "ok")
		})
		defer n.close()
		for path, want := range map[string]string{"/": "200 ok", "/empty": "204 "} {
			res, err := n.client.Get("http://h" + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if got := res.Status[:4] + string(body); got != want || err != nil {
				t.Errorf("%s: %s, %v, want %s", path, got, err, want)
			}
		}
	})
}

// A client that is silenced and still sending is answered with a reset, which in
// memory is a FIN.
func TestSilenceThenResetOfAnUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, lb.Config{IdleTimeout: idle, OnExpiry: lb.SilentThenRST}, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			send(w, firstEvent)
			io.Copy(io.Discard, r.Body) // it notices the end only as a reader
		})
		defer n.close()
		conn, r := n.raw(t, "POST / HTTP/1.1", "Host: h", "Content-Length: 100", "", "half")
		defer conn.Close()
		expectStatus(t, r, "HTTP/1.1 200 OK")
		expect(t, r, firstChunk)
		n.seen.wait(t, lb.Opened)
		if cut := n.seen.wait(t, lb.Cut); cut.Expiry != lb.SilentThenRST {
			t.Errorf("event is %+v, want %v", cut, lb.SilentThenRST)
		}
		time.Sleep(24 * time.Hour)
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Errorf("the first write into the silence: %v, want nil", err)
		}
		if got, err := io.ReadAll(r); len(got) > 0 || err != nil {
			t.Errorf("read %q, %v, want EOF", got, err)
		}
		n.at(t, "the end", idle+24*time.Hour)
	})
}
