package mcpserver_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

func TestNewNamesEveryFaultAtOnce(t *testing.T) {
	_, err := mcpserver.New(mcpserver.Config{
		Addr:           "localhost",
		SessionTTL:     -time.Second,
		Refresh:        9,
		LogRetention:   -time.Minute,
		MaxEvents:      -1,
		UnknownSession: 20,
		Conflict:       6,
		Cookie:         "a b",
		Rules:          []mcpserver.Rule{{Delay: time.Second}, {Status: 99, From: -1}},
		Replay:         8,
		OnBreak:        7,
		StaleAnswer:    404,
		Retry:          1500 * time.Microsecond,
	})
	if err == nil {
		t.Fatal("New() = nil, want an error")
	}
	want := []string{
		`mcpserver: Addr is "localhost": want host:port with a port from 0 to 65535`,
		`mcpserver: SessionTTL is -1s: want 0 (sessions never expire) or more`,
		`mcpserver: Refresh is Refresh(9): want RefreshPOST, RefreshAny or RefreshNever`,
		`mcpserver: LogRetention is -1m0s: want 0 (events are kept for ever) or more`,
		`mcpserver: MaxEvents is -1: want 0 (10000) or more`,
		`mcpserver: UnknownSession is UnknownSession(20): want one of UnknownNotFound to UnknownReplace`,
		`mcpserver: Conflict is Conflict(6): want ConflictTakesOver or ConflictRefused`,
		`mcpserver: Cookie is "a b": want none, or a name that a cookie may have`,
		`mcpserver: Rules[1]: from is -1: want 0 (the first) or more`,
		`mcpserver: Rules[1]: status is 99: want 0 (the request is served), or 200 to 599`,
		`mcpserver: Replay is Replay(8): want ReplayExclusive, ReplayInclusive or ReplayFull`,
		`mcpserver: OnBreak is OnBreak(7): want BreakKeeps, BreakCancels or BreakCancelsNoted`,
		`mcpserver: StaleAnswer is 404: want 0 (400), 200 to 299, or 400 to 499 without 404 and 410, which say that the session is dead`,
		`mcpserver: Retry is 1.5ms: want 0 (no hint) or whole milliseconds`,
	}
	if got := strings.Split(err.Error(), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("New() = \n%s\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestNewRefusesEachFault(t *testing.T) {
	for _, cfg := range []mcpserver.Config{
		{Addr: "127.0.0.1:65536"},
		{Addr: "127.0.0.1:http"},
		{Addr: ":"},
		{Retry: -time.Second},
	} {
		if s, err := mcpserver.New(cfg); err == nil {
			s.Close()
			t.Errorf("New(%+v) = nil, want an error", cfg)
		}
	}
}

func TestListenerWinsAndIsOwnedAfterwards(t *testing.T) {
	l := memnettest.New()
	if _, err := mcpserver.New(mcpserver.Config{Listener: l, MaxEvents: -1}); err == nil {
		t.Fatal("New() = nil, want an error")
	}
	s, err := mcpserver.New(mcpserver.Config{Listener: l, Addr: "not an address"})
	if err != nil {
		t.Fatalf("New() = %v, want nil: the listener of a failed New is still open and Addr does not matter", err)
	}
	if s.Addr() != l.Addr() || s.URL() != "http://127.0.0.1:1/mcp" {
		t.Errorf("Addr() = %v, URL() = %s, want the listener's", s.Addr(), s.URL())
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is open after Close, want it closed")
	}
}

func TestPortInUseNamesTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	s, err := mcpserver.New(mcpserver.Config{Addr: addr})
	if err == nil {
		s.Close()
		t.Fatal("New() = nil, want an error")
	}
	if want := `mcpserver: listen on "` + addr + `": `; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("New() = %v, want %s...", err, want)
	}
}

func TestURLOfAnUnspecifiedAddressIsTheLoopback(t *testing.T) {
	for _, test := range []struct{ addr, want string }{
		{"0.0.0.0:0", "http://127.0.0.1:"},
		{"127.0.0.1:0", "http://127.0.0.1:"},
		{"", "http://127.0.0.1:"},
	} {
		s, err := mcpserver.New(mcpserver.Config{Addr: test.addr})
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(s.Addr().String())
		if want := test.want + port + "/mcp"; s.URL() != want {
			t.Errorf("URL() for %q = %s, want %s", test.addr, s.URL(), want)
		}
		s.Close()
	}
}
