package lb_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// errSome stands for an error that has no name.
var errSome = errors.New("some error")

// What the programs tell of an exchange when it is over.
func TestEventsOfThePrograms(t *testing.T) {
	t.Parallel()
	for _, cfg := range []lb.Config{
		{Engine: lb.HAProxy}, {Engine: lb.HAProxy, H2C: true}, {Engine: lb.NGINX}, {Engine: lb.NGINX, H2C: true},
	} {
		t.Run(name(cfg, ""), func(t *testing.T) {
			t.Parallel()
			needs(t, cfg.Engine)
			cut := lb.FIN
			switch {
			case cfg.Engine == lb.HAProxy && cfg.H2C:
				cut = lb.CleanEnd
			case cfg.H2C:
				cut = lb.RST
			}
			seen, waiting := newEvents(), make(chan struct{}, 1)
			cfg.IdleTimeout, cfg.Observe = limit, seen.observe
			balancer := startEngine(t, cfg, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/whole":
					io.WriteString(w, "ok")
				case "/torn":
					send(w, firstEvent)
					panic(http.ErrAbortHandler)
				case "/gone":
					panic(http.ErrAbortHandler)
				case "/waiting":
					waiting <- struct{}{}
					<-r.Context().Done()
				default:
					field(w, r)
				}
			})
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!cfg.H2C)
			protocols.SetUnencryptedHTTP2(cfg.H2C)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: patience}
			for i, want := range []lb.Event{
				{Path: "/whole", Kind: lb.Ended, Status: 200},
				{Path: "/silent", Kind: lb.Cut, Status: 200, Expiry: cut, Err: lb.ErrIdle},
				{Path: "/hang", Kind: lb.Refused, Status: 504, Err: lb.ErrIdle},
				{Path: "/torn", Kind: lb.Ended, Status: 200, Err: errSome},
				{Path: "/gone", Kind: lb.Refused, Status: 502, Err: errSome},
			} {
				if want.Path == "/gone" {
					if cfg.Engine == lb.HAProxy && cfg.H2C {
						continue // it says nothing at all, so that the client tries again
					}
					// Nor does it over HTTP/1.1, but for the first request.
					transport.CloseIdleConnections()
				}
				req, _ := http.NewRequest("GET", balancer.URL()+want.Path+"?q=1", nil)
				if res, err := client.Do(req); err != nil {
					t.Errorf("%s: %v", want.Path, err)
				} else {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
				got := seen.soon(t, want.Kind)
				if got.Status != want.Status || got.Expiry != want.Expiry ||
					got.Method != "GET" || got.Path != want.Path || got.Stream != uint64(i+1) || got.At.IsZero() ||
					(got.Err == nil) != (want.Err == nil) || want.Err != errSome && !errors.Is(got.Err, want.Err) {
					t.Errorf("event is %+v, want %+v", got, want)
				}
				if got.Kind == lb.Cut && got.Bytes < int64(len(firstEvent)) {
					t.Errorf("event is %+v, want at least %d bytes", got, len(firstEvent))
				}
			}

			// The client leaves.
			res, err := client.Get(balancer.URL() + "/pings")
			if err != nil {
				t.Fatal(err)
			}
			expect(t, res.Body, firstEvent)
			res.Body.Close()
			if got := seen.soon(t, lb.Ended); !errors.Is(got.Err, lb.ErrClientLeft) {
				t.Errorf("event is %+v, want %v", got, lb.ErrClientLeft)
			}
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-waiting
				leave()
			}()
			req, _ := http.NewRequestWithContext(ctx, "GET", balancer.URL()+"/waiting", nil)
			if _, err := client.Do(req); err == nil {
				t.Error("a client that left has got a response")
			}
			if cfg.Engine == lb.HAProxy && !cfg.H2C {
				// As it comes it takes the FIN for half of a close, and waits on.
				seen.soon(t, lb.Refused)
			} else if got := seen.soon(t, lb.Ended); !errors.Is(got.Err, lb.ErrClientLeft) || got.Status != 0 {
				t.Errorf("event is %+v, want %v before the response", got, lb.ErrClientLeft)
			}
			seen.none(t)
		})
	}
}

func TestEventsOfHAProxyInTCPMode(t *testing.T) {
	t.Parallel()
	needs(t, lb.HAProxy)
	seen := newEvents()
	balancer := startEngine(t, lb.Config{Engine: lb.HAProxy, Mode: lb.TCP, IdleTimeout: limit, Observe: seen.observe}, field)
	raw(t, balancer.Addr(), "/silent")
	if got := seen.soon(t, lb.Cut); !errors.Is(got.Err, lb.ErrIdle) || got.Expiry != lb.FIN || got.Path != "" {
		t.Errorf("event is %+v, want %v, %v", got, lb.ErrIdle, lb.FIN)
	}
	conn, r := dial(t, balancer.Addr(), "GET / HTTP/1.1", "Host: h", "Connection: close")
	io.ReadAll(r)
	conn.Close()
	if got := seen.soon(t, lb.Ended); got.Err != nil || got.Bytes == 0 {
		t.Errorf("event is %+v, want an end in order", got)
	}
}

// haproxy can be told to cut what is under way, in its own way.
func TestCutByHAProxy(t *testing.T) {
	t.Parallel()
	for cfg, want := range map[*lb.Config]struct {
		how lb.Expiry
		err error
	}{
		{}:             {lb.FIN, io.ErrUnexpectedEOF},
		{H2C: true}:    {lb.CleanEnd, nil},
		{Mode: lb.TCP}: {lb.FIN, io.ErrUnexpectedEOF},
	} {
		cfg.Engine = lb.HAProxy
		t.Run(name(*cfg, ""), func(t *testing.T) {
			t.Parallel()
			needs(t, lb.HAProxy)
			seen := newEvents()
			cfg.Observe = seen.observe
			balancer := startEngine(t, *cfg, field)
			if n := balancer.Cut(want.how); n != 0 {
				t.Errorf("Cut() with no stream = %d, want 0", n)
			}
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!cfg.H2C)
			protocols.SetUnencryptedHTTP2(cfg.H2C)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: patience}
			var bodies []io.Reader
			for range 2 {
				res, err := client.Get(balancer.URL() + "/silent")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				expect(t, res.Body, firstEvent)
				bodies = append(bodies, res.Body)
			}
			if n := balancer.Cut(lb.Silent); n != 0 {
				t.Errorf("Cut(%v) = %d, want 0, for haproxy cannot", lb.Silent, n)
			}
			if n := balancer.Cut(want.how); n != 2 {
				t.Errorf("Cut(%v) = %d, want 2", want.how, n)
			}
			for _, body := range bodies {
				if rest, err := io.ReadAll(body); len(rest) > 0 || err != want.err {
					t.Errorf("client reads %q, %v, want nothing and %v", rest, err, want.err)
				}
				if e := seen.soon(t, lb.Cut); !errors.Is(e.Err, lb.ErrCut) || e.Expiry != want.how {
					t.Errorf("event is %+v, want %v, %v", e, lb.ErrCut, want.how)
				}
			}
		})
	}
}

func TestUnreachableUpstreamInTheEvents(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for engine, status := range map[lb.Engine]int{lb.Embedded: 502, lb.HAProxy: 503, lb.NGINX: 502} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			needs(t, engine)
			seen := newEvents()
			balancer := startEngine(t, lb.Config{Engine: engine, Upstream: closed.Addr().String(), Observe: seen.observe}, nil)
			raw(t, balancer.Addr(), "/")
			if got := seen.soon(t, lb.Refused); got.Status != status || got.Err == nil {
				t.Errorf("event is %+v, want %d and why", got, status)
			}
		})
	}
}
