package lb_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
	// limit is that of the tests in real time: what is measured is how things
	// end, not when.
	limit = time.Second
	// patience is after what a test gives up.
	patience = 20 * time.Second
	// soonAfter the limit comes what is to come: where nothing is expected, this
	// long is waited for it.
	soonAfter = 4 * limit

	ping = ": ping\n\n"
)

// The table is what a client sees of each engine when a limit is reached: at the
// socket, and through Go's clients. A difference from docs/load-balancers.md is
// a fault of one of the two.
var atTheClient = []struct {
	cfg  lb.Config // the limits apart
	path string    // see field
	raw  string    // of what raw returns
	h1   string    // of what overHTTP returns
	h2   string    // the same over h2c, where the engine offers it
}{
	{lb.Config{}, "/silent", "200 event FIN", "200 event, unexpected EOF", ""},
	{lb.Config{OnExpiry: lb.RST}, "/silent", "200 event RST", "200 event, reset", ""},
	{lb.Config{OnExpiry: lb.CleanEnd}, "/silent", "200 event terminator", "200 event, nil", ""},
	{lb.Config{OnExpiry: lb.Silent}, "/silent", "200 event nothing, after a write nothing", "", ""},
	{lb.Config{OnExpiry: lb.SilentThenRST}, "/silent", "200 event nothing, after a write RST", "", ""},
	{lb.Config{OnExpiry: 503}, "/silent", "200 event FIN", "200 event, unexpected EOF", ""},
	{lb.Config{OnExpiry: 503}, "/hang", "503 whole", "503, nil", ""},
	{lb.Config{OnExpiry: lb.RST}, "/hang", "504 whole", "504, nil", ""},
	{lb.Config{HeaderStatus: 524}, "/hang", "524 whole", "524, nil", ""},
	{lb.Config{}, "/pings", "200 event pings terminator", "200 event pings, nil", ""},
	{lb.Config{Buffering: new(true)}, "/silent", "200 FIN", "200, unexpected EOF", ""},
	{lb.Config{Buffering: new(true)}, "/pings", "200 event pings terminator", "200 event pings, nil", ""},
	{lb.Config{Mode: lb.TCP}, "/silent", "200 event FIN", "200 event, unexpected EOF", "200 event, unexpected EOF"},
	{lb.Config{Mode: lb.TCP}, "/hang", "FIN", "EOF", "unexpected EOF"},
	{lb.Config{Mode: lb.TCP}, "/pings", "200 event pings terminator", "200 event pings, nil", "200 event pings, nil"},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.RST}, "/silent", "200 event RST", "200 event, reset", "200 event, reset"},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.RST}, "/hang", "RST", "reset", ""},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.Silent}, "/hang", "nothing", "", ""},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.SilentThenRST}, "/hang", "nothing", "", ""},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.Silent}, "/silent", "200 event nothing, after a write nothing", "", ""},
	{lb.Config{Mode: lb.TCP, OnExpiry: lb.SilentThenRST}, "/silent", "200 event nothing, after a write RST", "", ""},

	{lb.Config{Engine: lb.HAProxy}, "/silent", "200 event FIN", "200 event, unexpected EOF", ""},
	{lb.Config{Engine: lb.HAProxy}, "/hang", "504 whole", "504, nil", ""},
	{lb.Config{Engine: lb.HAProxy}, "/pings", "200 event pings terminator", "200 event pings, nil", ""},
	{lb.Config{Engine: lb.HAProxy, H2C: true}, "/silent", "", "", "200 event, nil"},
	{lb.Config{Engine: lb.HAProxy, H2C: true}, "/hang", "", "", "504, nil"},
	{lb.Config{Engine: lb.HAProxy, H2C: true}, "/pings", "", "", "200 event pings, nil"},
	{lb.Config{Engine: lb.HAProxy, Mode: lb.TCP}, "/silent", "200 event FIN", "200 event, unexpected EOF", "200 event, unexpected EOF"},
	{lb.Config{Engine: lb.HAProxy, Mode: lb.TCP}, "/hang", "FIN", "EOF", "unexpected EOF"},
	{lb.Config{Engine: lb.HAProxy, Mode: lb.TCP}, "/pings", "200 event pings terminator", "200 event pings, nil", "200 event pings, nil"},

	{lb.Config{Engine: lb.NGINX}, "/silent", "200 event FIN", "200 event, unexpected EOF", ""},
	{lb.Config{Engine: lb.NGINX}, "/hang", "504 whole", "504, nil", ""},
	{lb.Config{Engine: lb.NGINX}, "/pings", "200 event pings terminator", "200 event pings, nil", ""},
	{lb.Config{Engine: lb.NGINX, Buffering: new(true)}, "/silent", "200 FIN", "200, unexpected EOF", ""},
	{lb.Config{Engine: lb.NGINX, Buffering: new(true)}, "/hang", "504 whole", "504, nil", ""},
	{lb.Config{Engine: lb.NGINX, Buffering: new(true)}, "/pings", "200 event pings terminator", "200 event pings, nil", ""},
	{lb.Config{Engine: lb.NGINX, H2C: true}, "/silent", "", "", "200 event, RST_STREAM"},
	{lb.Config{Engine: lb.NGINX, H2C: true}, "/hang", "", "", "504, nil"},
	{lb.Config{Engine: lb.NGINX, H2C: true}, "/pings", "", "", "200 event pings, nil"},
}

func TestWhatAClientSees(t *testing.T) {
	t.Parallel()
	for _, test := range atTheClient {
		cfg := test.cfg
		t.Run(name(cfg, test.path), func(t *testing.T) {
			t.Parallel()
			needs(t, cfg.Engine)
			cfg.IdleTimeout = limit
			balancer := startEngine(t, cfg, field)
			if test.raw != "" {
				if got := raw(t, balancer.Addr(), test.path); got != test.raw {
					t.Errorf("at the socket: %s, want %s", got, test.raw)
				}
			}
			if test.h1 != "" {
				if got := overHTTP(t, balancer.URL()+test.path, false); got != test.h1 {
					t.Errorf("over HTTP/1.1: %s, want %s", got, test.h1)
				}
			}
			if test.h2 != "" {
				if got := overHTTP(t, balancer.URL()+test.path, true); got != test.h2 {
					t.Errorf("over h2c: %s, want %s", got, test.h2)
				}
			}
		})
	}
}

// name is that of a test of cfg.
func name(cfg lb.Config, path string) string {
	text, _ := json.Marshal(cfg)
	return string(text) + path
}

// A limit on the whole exchange is reached by a busy stream, too.
func TestMaxDurationAtTheClient(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		cfg  lb.Config
		path string
		want string
	}{
		{lb.Config{}, "/busy", "200 event pings FIN"},
		{lb.Config{OnExpiry: lb.CleanEnd}, "/busy", "200 event pings terminator"},
		{lb.Config{}, "/hang", "504 whole"},
		{lb.Config{Mode: lb.TCP, OnExpiry: lb.RST}, "/busy", "200 event pings RST"},
		{lb.Config{Mode: lb.TCP}, "/hang", "FIN"},
	} {
		t.Run(name(test.cfg, test.path), func(t *testing.T) {
			t.Parallel()
			seen := newEvents()
			test.cfg.MaxDuration, test.cfg.Observe = limit, seen.observe
			balancer := startEngine(t, test.cfg, field)
			if got := raw(t, balancer.Addr(), test.path); got != test.want {
				t.Errorf("at the socket: %s, want %s", got, test.want)
			}
			for event := range seen {
				if event.Kind != lb.Opened {
					if !errors.Is(event.Err, lb.ErrMaxDuration) {
						t.Errorf("event is %+v, want %v", event, lb.ErrMaxDuration)
					}
					break
				}
			}
		})
	}
}

// An engine speaks what it was asked to, and nothing else.
func TestH2COnlyWhereAskedFor(t *testing.T) {
	t.Parallel()
	for _, cfg := range []lb.Config{
		{}, {Engine: lb.HAProxy}, {Engine: lb.HAProxy, H2C: true}, {Engine: lb.NGINX}, {Engine: lb.NGINX, H2C: true},
	} {
		t.Run(name(cfg, ""), func(t *testing.T) {
			t.Parallel()
			needs(t, cfg.Engine)
			balancer := startEngine(t, cfg, field)
			for _, h2c := range []bool{false, true} {
				got := overHTTP(t, balancer.URL(), h2c)
				if strings.HasPrefix(got, "200") != (h2c == cfg.H2C) {
					t.Errorf("with H2C %v, h2c client %v: %s", cfg.H2C, h2c, got)
				}
			}
		})
	}
}

// field is an upstream in every situation that is measured.
func field(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hang" {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send(w, firstEvent)
	switch r.URL.Path {
	case "/silent":
		<-r.Context().Done()
	case "/pings", "/busy": // 1.5 times the limit, or until it is cut
		tick := time.NewTicker(limit / 10)
		defer tick.Stop()
		for n := 0; n < 15 || r.URL.Path == "/busy"; n++ {
			select {
			case <-tick.C:
				send(w, ping)
			case <-r.Context().Done():
				return
			}
		}
	}
}

// needs skips a test whose engine this machine does not have.
func needs(t *testing.T, engine lb.Engine) {
	t.Helper()
	if err := lb.Available(engine); err != nil {
		t.Skipf("SKIPPED, and so NOT TESTED: %v; scripts/install-engines.sh installs it", err)
	}
}

// startEngine runs a load balancer in front of handler, which serves HTTP/1 and
// h2c, until the test ends, and returns when clients are served.
func startEngine(t *testing.T, cfg lb.Config, handler http.HandlerFunc) *lb.LoadBalancer {
	t.Helper()
	if cfg.Upstream == "" && len(cfg.Upstreams) == 0 {
		cfg.Upstream = startUpstreamH2C(t, handler)
	}
	balancer, stop := start(t, cfg)
	t.Cleanup(stop)
	select {
	case <-balancer.Ready():
	case <-time.After(patience):
		t.Fatal("not ready")
	}
	return balancer
}

func startUpstreamH2C(t *testing.T, handler http.HandlerFunc) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return listener.Addr().String()
}

// raw gets path over a bare connection, and says what comes and how it ends.
func raw(t *testing.T, addr net.Addr, path string) string {
	t.Helper()
	conn, r := dial(t, addr, "GET "+path+" HTTP/1.1", "Host: h")
	conn.SetReadDeadline(time.Now().Add(patience))
	if path == "/hang" {
		conn.SetReadDeadline(time.Now().Add(soonAfter))
	}
	res, err := http.ReadResponse(r, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "nothing"
	}
	if err != nil {
		return atTheSocket(err)
	}
	seen := res.Status[:3]
	if res.ContentLength >= 0 {
		if _, err := io.ReadAll(res.Body); err != nil {
			return seen + " " + atTheSocket(err)
		}
		// Is the connection of use for another request?
		conn.SetReadDeadline(time.Now().Add(limit / 4))
		if _, err := r.ReadByte(); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return seen + " " + atTheSocket(err)
		}
		return seen + " whole"
	}
	// Chunks are read by hand: their end is what matters.
	var body strings.Builder
	for {
		size, err := r.ReadString('\n')
		if err == nil && size == "0\r\n" {
			return seen + content(body.String()) + " terminator"
		}
		if err == nil {
			err = copyChunk(&body, r, size)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return seen + content(body.String()) + " " + atTheSocket(err)
		}
		if body.String() == firstEvent && strings.HasSuffix(path, "/silent") {
			conn.SetReadDeadline(time.Now().Add(soonAfter))
		}
	}
	seen += content(body.String()) + " nothing, after a write "
	if _, err := io.WriteString(conn, "x"); err != nil {
		return seen + atTheSocket(err)
	}
	conn.SetReadDeadline(time.Now().Add(soonAfter / 2))
	if _, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return seen + atTheSocket(err)
	}
	return seen + "nothing"
}

func copyChunk(w io.Writer, r *bufio.Reader, size string) error {
	n := 0
	for _, c := range strings.TrimSpace(size) {
		n = n*16 + strings.IndexRune("0123456789abcdef", c)
	}
	if _, err := io.CopyN(w, r, int64(n)); err != nil {
		return err
	}
	_, err := r.Discard(len("\r\n"))
	return err
}

// overHTTP gets url with a Go client, and says what it makes of the answer.
func overHTTP(t *testing.T, url string, h2c bool) string {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	res, err := client.Get(url)
	if err != nil {
		return howItEnded(err)
	}
	defer res.Body.Close()
	seen := res.Status[:3]
	body, err := io.ReadAll(res.Body)
	if res.StatusCode == 200 {
		seen += content(string(body))
	}
	return seen + ", " + howItEnded(err)
}

// content says what of the upstream's stream has come.
func content(body string) string {
	rest, ok := strings.CutPrefix(body, firstEvent)
	switch {
	case body == "":
		return ""
	case ok && rest == "":
		return " event"
	case ok && strings.ReplaceAll(rest, ping, "") == "":
		return " event pings"
	}
	return " " + body
}

// atTheSocket names what was the last of a connection.
func atTheSocket(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "FIN"
	case errors.Is(err, syscall.ECONNRESET):
		return "RST"
	}
	return fmt.Sprint(err)
}

// howItEnded names the end of a response to a Go client.
func howItEnded(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case strings.Contains(err.Error(), "INTERNAL_ERROR"):
		return "RST_STREAM"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected EOF"
	case errors.Is(err, io.EOF):
		return "EOF"
	}
	return err.Error()
}
