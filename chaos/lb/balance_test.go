package lb_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

const sessionHeader = "Mcp-Session-Id"

// upstreams starts n servers that answer with their number. To a request without
// a session they add one.
func upstreams(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for i := range n {
		name := string(rune('A' + i))
		addrs = append(addrs, startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			if id := r.Header.Get(sessionHeader); id == "" {
				w.Header().Set(sessionHeader, "session-of-"+name)
			}
			if cookies := r.Header.Get("Cookie"); cookies != "" {
				w.Header().Set("X-Cookies", cookies)
			}
			io.WriteString(w, name)
		}))
	}
	return addrs
}

// get returns who has answered.
func get(t *testing.T, client *http.Client, url, session string) (string, http.Header) {
	t.Helper()
	req, _ := http.NewRequest("GET", url, nil)
	if session != "" {
		req.Header.Set(sessionHeader, session)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	who, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("response is %d %q, %v, want 200", res.StatusCode, who, err)
	}
	return string(who), res.Header
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// perEngine runs a test for each engine, in HTTP mode and, where that is said, in
// TCP mode.
func perEngine(t *testing.T, cfgs []lb.Config, test func(t *testing.T, cfg lb.Config)) {
	t.Helper()
	t.Parallel()
	for _, cfg := range cfgs {
		t.Run(name(cfg, ""), func(t *testing.T) {
			t.Parallel()
			needs(t, cfg.Engine)
			test(t, cfg)
		})
	}
}

func TestRoundRobin(t *testing.T) {
	perEngine(t, []lb.Config{
		{}, {Mode: lb.TCP}, {Engine: lb.HAProxy}, {Engine: lb.HAProxy, Mode: lb.TCP}, {Engine: lb.NGINX},
	}, func(t *testing.T, cfg lb.Config) {
		cfg.Upstreams = upstreams(t, 3)
		balancer, client := startEngine(t, cfg, nil), newClient(t)
		var order strings.Builder
		for range 6 {
			who, _ := get(t, client, balancer.URL(), "")
			order.WriteString(who)
		}
		// The first is anyone.
		if got := order.String(); !strings.Contains("ABCABCABC", got) {
			t.Errorf("upstreams were %s, want them in turn", got)
		}
	})
}

func TestCookieAffinity(t *testing.T) {
	perEngine(t, []lb.Config{{}, {Engine: lb.HAProxy}}, func(t *testing.T, cfg lb.Config) {
		cfg.Upstreams, cfg.Balance = upstreams(t, 3), lb.CookieAffinity
		balancer := startEngine(t, cfg, nil)
		others := newClient(t)
		for range 4 { // clients
			client := newClient(t)
			client.Jar, _ = cookiejar.New(nil)
			first, header := get(t, client, balancer.URL(), "")
			if got := header.Get("Set-Cookie"); !strings.HasPrefix(got, lb.AffinityCookie+"=s") {
				t.Errorf("Set-Cookie is %q, want %s", got, lb.AffinityCookie)
			}
			client.Jar.SetCookies(mustParse(t, balancer.URL()), []*http.Cookie{{Name: "own", Value: "1"}})
			for range 3 {
				get(t, others, balancer.URL(), "")
				who, header := get(t, client, balancer.URL(), "")
				if who != first {
					t.Errorf("upstream is %s, want %s as before", who, first)
				}
				if got := header.Get("X-Cookies"); got != "own=1" {
					t.Errorf("upstream got cookies %q, want the client's own", got)
				}
				if got := header.Get("Set-Cookie"); got != "" {
					t.Errorf("Set-Cookie is %q, want it once", got)
				}
			}
		}
		client := newClient(t)
		client.Jar, _ = cookiejar.New(nil)
		client.Jar.SetCookies(mustParse(t, balancer.URL()), []*http.Cookie{{Name: lb.AffinityCookie, Value: "s9"}})
		if _, header := get(t, client, balancer.URL(), ""); header.Get("Set-Cookie") == "" {
			t.Error("no Set-Cookie after a cookie of no upstream, want one")
		}
	})
}

func TestSessionAffinity(t *testing.T) {
	perEngine(t, []lb.Config{{}, {Engine: lb.HAProxy}}, func(t *testing.T, cfg lb.Config) {
		cfg.Upstreams, cfg.Balance = upstreams(t, 3), lb.SessionAffinity
		balancer, client := startEngine(t, cfg, nil), newClient(t)
		sessions := make(map[string]string)
		for range 3 {
			who, header := get(t, client, balancer.URL(), "")
			sessions[header.Get(sessionHeader)] = who
		}
		for range 2 {
			for session, want := range sessions {
				if got, _ := get(t, client, balancer.URL(), session); got != want {
					t.Errorf("%s was sent to %s, want %s, which began it", session, got, want)
				}
			}
		}
		// One that nobody is known to have begun.
		first, _ := get(t, client, balancer.URL(), "unknown")
		for range 3 {
			if got, _ := get(t, client, balancer.URL(), "unknown"); got != first {
				t.Errorf("the unknown session was sent to %s, want %s as before", got, first)
			}
		}
	})
}

func TestAffinityForgetsTheOldestSessions(t *testing.T) {
	t.Parallel()
	learn, knows := lb.SessionTable()
	const more = 10
	for i := range lb.MaxSessions + more {
		learn(fmt.Sprint(i))
		learn(fmt.Sprint(i)) // again: it is no older, nor another
	}
	for i := range 2 * more {
		if got, want := knows(fmt.Sprint(i)), i >= more; got != want {
			t.Errorf("session %d is known: %v, want %v", i, got, want)
		}
	}
}

// An upstream that cannot be connected to is passed over, and an affinity to it is
// given up.
func TestUnreachableUpstreamIsPassedOver(t *testing.T) {
	perEngine(t, []lb.Config{
		{}, {Mode: lb.TCP}, {Balance: lb.SessionAffinity},
		{Engine: lb.HAProxy}, {Engine: lb.HAProxy, Mode: lb.TCP}, {Engine: lb.NGINX},
	}, func(t *testing.T, cfg lb.Config) {
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		cfg.Upstreams = append(upstreams(t, 1), closed.Addr().String())
		balancer, client := startEngine(t, cfg, nil), newClient(t)
		for range 4 {
			if got, _ := get(t, client, balancer.URL(), "some"); got != "A" {
				t.Errorf("upstream is %s, want A", got)
			}
		}
	})
}

// An upstream whose streams are silent is not put aside.
func TestSilenceIsNoReasonToPassOver(t *testing.T) {
	perEngine(t, []lb.Config{{}, {Engine: lb.HAProxy}, {Engine: lb.NGINX}}, func(t *testing.T, cfg lb.Config) {
		var hangs atomic.Int64
		for i := range 2 {
			cfg.Upstreams = append(cfg.Upstreams, startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					io.WriteString(w, string(rune('A'+i)))
					return
				}
				if r.URL.Path == "/hang" {
					hangs.Add(1)
				}
				field(w, r)
			}))
		}
		cfg.IdleTimeout = limit
		balancer, client := startEngine(t, cfg, nil), newClient(t)
		if got := raw(t, balancer.Addr(), "/hang"); got != "504 whole" {
			t.Errorf("at the socket: %s, want 504 whole", got)
		}
		if got := hangs.Load(); got != 1 {
			t.Errorf("%d upstreams got the request, want one", got)
		}
		if got := raw(t, balancer.Addr(), "/silent"); got != "200 event FIN" {
			t.Errorf("at the socket: %s, want 200 event FIN", got)
		}
		var order strings.Builder
		for range 4 {
			who, _ := get(t, client, balancer.URL()+"/", "")
			order.WriteString(who)
		}
		if got := order.String(); !strings.Contains("ABABA", got) {
			t.Errorf("upstreams were %s, want them in turn", got)
		}
	})
}

func TestAllUpstreamsUnreachable(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for cfg, want := range map[*lb.Config]string{
		{}:                                 "502 whole",
		{Mode: lb.TCP}:                     "FIN",
		{Engine: lb.HAProxy}:               "503 whole",
		{Engine: lb.HAProxy, Mode: lb.TCP}: "FIN",
		{Engine: lb.NGINX}:                 "502 whole",
	} {
		t.Run(name(*cfg, ""), func(t *testing.T) {
			t.Parallel()
			needs(t, cfg.Engine)
			cfg.Upstreams = []string{closed.Addr().String(), "127.0.0.1:1"}
			balancer := startEngine(t, *cfg, nil)
			if got := raw(t, balancer.Addr(), "/"); got != want {
				t.Errorf("at the socket: %s, want %s", got, want)
			}
		})
	}
}

// The upstream sends each piece when the client has had the one before. The length
// is known: a program could wait for the whole.
func TestNoEngineKeepsAnythingBack(t *testing.T) {
	perEngine(t, []lb.Config{
		{}, {Mode: lb.TCP}, {Engine: lb.HAProxy}, {Engine: lb.HAProxy, Mode: lb.TCP}, {Engine: lb.NGINX},
	}, func(t *testing.T, cfg lb.Config) {
		had := make(chan struct{})
		balancer := startEngine(t, cfg, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "30")
			for range 3 {
				send(w, "0123456789")
				select {
				case <-had:
				case <-r.Context().Done():
					return
				}
			}
		})
		client := newClient(t)
		client.Timeout = patience
		res, err := client.Get(balancer.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for range 3 {
			expect(t, res.Body, "0123456789")
			had <- struct{}{}
		}
	})
}

// What an upstream gets of a request is the same behind every engine.
func TestRequestsPassThroughEveryEngine(t *testing.T) {
	perEngine(t, []lb.Config{
		{}, {Engine: lb.HAProxy}, {Engine: lb.HAProxy, H2C: true},
		{Engine: lb.NGINX}, {Engine: lb.NGINX, H2C: true}, {Engine: lb.NGINX, Buffering: new(true)},
	}, func(t *testing.T, cfg lb.Config) {
		var got, body string
		balancer := startEngine(t, cfg, func(w http.ResponseWriter, r *http.Request) {
			content, _ := io.ReadAll(r.Body)
			body = string(content)
			got = strings.Join([]string{r.Method, r.RequestURI, r.Host, r.Header.Get("X-Forwarded-For"),
				r.Header.Get("Last-Event-ID"), r.Header.Get(sessionHeader)}, " ")
		})
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!cfg.H2C)
		protocols.SetUnencryptedHTTP2(cfg.H2C)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		req, _ := http.NewRequest("POST", balancer.URL()+"/a%2Fb//c?q=1", strings.NewReader(strings.Repeat("x", 100_000)))
		req.Host = "public.example"
		req.Header.Set("Last-Event-ID", "7")
		req.Header.Set(sessionHeader, "s")
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if want := "POST /a%2Fb//c?q=1 public.example 127.0.0.1 7 s"; res.StatusCode != 200 || got != want || len(body) != 100_000 {
			t.Errorf("%d, upstream got %s with %d bytes, want %s with 100000", res.StatusCode, got, len(body), want)
		}
	})
}
