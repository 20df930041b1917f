package lb_test

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

func TestNewReportsAllFaultsAtOnce(t *testing.T) {
	_, err := lb.New(lb.Config{Addr: "localhost", IdleTimeout: -time.Second, OnExpiry: 9})
	if err == nil {
		t.Fatal("New() succeeded, want an error")
	}
	for _, want := range []string{
		`lb: Config.Addr is "localhost", want host:port`,
		"lb: Config.Upstream is empty, want host:port",
		"lb: Config.IdleTimeout is -1s",
		"lb: Config.OnExpiry is Expiry(9)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want it to contain %q", err, want)
		}
	}
}

func TestNewRefusesUpstream(t *testing.T) {
	for _, upstream := range []string{"", "host", ":80", "host:0", "host:65536", "host:http", "http://host:80", "a:b:1"} {
		balancer, err := lb.New(lb.Config{Upstream: upstream})
		if err == nil {
			balancer.Close()
			t.Errorf("New(Upstream: %q) succeeded, want an error", upstream)
			continue
		}
		if !strings.HasPrefix(err.Error(), "lb: Config.Upstream ") {
			t.Errorf("New(Upstream: %q) = %v, want a fault of Config.Upstream", upstream, err)
		}
	}
}

func TestNewNamesThePortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	_, err = lb.New(lb.Config{Addr: addr, Upstream: "127.0.0.1:1"})
	if err == nil || !strings.HasPrefix(err.Error(), "lb: ") || !strings.Contains(err.Error(), addr) ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("New(Addr: %q) = %v, want it to say that this address is in use", addr, err)
	}
}

func TestListenerTakesPrecedenceOverAddr(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := lb.New(lb.Config{Listener: listener, Addr: "127.0.0.1:1", Upstream: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := balancer.Addr(); got != listener.Addr() {
		t.Errorf("Addr() = %v, want %v", got, listener.Addr())
	}
	if got, want := balancer.URL(), "http://"+listener.Addr().String(); got != want {
		t.Errorf("URL() = %q, want %q", got, want)
	}
	balancer.Close()
	if err := listener.Close(); err == nil {
		t.Error("the listener was open after Close")
	}
}

func TestFailedNewLeavesTheListenerOpen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lb.New(lb.Config{Listener: listener}); err == nil {
		t.Fatal("New() succeeded, want an error")
	}
	if err := listener.Close(); err != nil {
		t.Errorf("Close of the caller's listener = %v, want nil", err)
	}
}

func TestExpiryNames(t *testing.T) {
	for e, name := range map[lb.Expiry]string{
		lb.FIN: "fin", lb.RST: "rst", lb.CleanEnd: "clean_end", lb.Silent: "silent",
	} {
		if got := e.String(); got != name {
			t.Errorf("String() = %q, want %q", got, name)
		}
		if got, err := lb.ParseExpiry(name); got != e || err != nil {
			t.Errorf("ParseExpiry(%q) = %v, %v, want %v", name, got, err, e)
		}
		text, err := json.Marshal(e)
		if want := `"` + name + `"`; string(text) != want || err != nil {
			t.Errorf("Marshal(%v) = %s, %v, want %s", e, text, err, want)
		}
		var back lb.Expiry
		if err := json.Unmarshal(text, &back); back != e || err != nil {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", text, back, err, e)
		}
	}
}

func TestExpiryRefusesUnknownNames(t *testing.T) {
	for _, name := range []string{"", "FIN", "reset"} {
		_, err := lb.ParseExpiry(name)
		if err == nil || !strings.Contains(err.Error(), `"clean_end"`) {
			t.Errorf("ParseExpiry(%q) = %v, want an error that lists the names", name, err)
		}
	}
	if got, want := lb.Expiry(9).String(), "Expiry(9)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if text, err := lb.Expiry(9).MarshalText(); err == nil {
		t.Errorf("MarshalText() = %q, want an error", text)
	}
	e := lb.Silent
	if err := e.UnmarshalText([]byte("reset")); err == nil || e != lb.Silent {
		t.Errorf("UnmarshalText(reset) = %v and sets %v, want an error and %v", err, e, lb.Silent)
	}
}
