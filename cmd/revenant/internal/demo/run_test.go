package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testScale leaves the pauses of a busy machine room.
const testScale = 200

// A demo whose verdict is always the same shows nothing. These runs have an arm
// that is not what its name says.
func TestRunWithBothArmsAlike(t *testing.T) {
	for _, test := range []struct {
		name    string
		guarded [2]bool
		outcome Outcome
		reason  string
		applied [2]int
	}{
		{"neither has the middleware", [2]bool{false, false}, Deviated, "the protected arm shows the failure", [2]int{missedDead, missedDead}},
		{"both have the middleware", [2]bool{true, true}, Inconclusive, "the control arm does not show the failure", [2]int{0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, err := New(Config{Scale: testScale})
			if err != nil {
				t.Fatal(err)
			}
			d.guarded = test.guarded
			r, err := d.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != test.outcome || len(r.Reasons) == 0 || !strings.HasPrefix(r.Reasons[0], test.reason) {
				t.Errorf("verdict %s because of %q, want %s because %s", r.Verdict, r.Reasons, test.outcome, test.reason)
			}
			got := [2]int{r.Arms.Control.DeadSessionEventsApplied, r.Arms.Protected.DeadSessionEventsApplied}
			if got != test.applied {
				t.Errorf("dead session's events applied: %v, want %v", got, test.applied)
			}
			for _, m := range r.Timeline {
				part := r.Arms.Control.Parts[1]
				if m.Arm == Protected {
					part = r.Arms.Protected.Parts[1]
				}
				if (m.Kind == "session_ended" || m.Kind == "call_failed" && m.Part == 2) && m.SessionID != part.SessionID {
					t.Errorf("%s of part 2 is of session %q, want that which died, %q", m.Kind, m.SessionID, part.SessionID)
				}
			}
		})
	}
}

// Whenever it is interrupted, nothing is left. TestMain looks for goroutines.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, kind := range []string{"initialized", "stream_cut", "reconnected"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var kinds []string
			d, err := New(Config{Scale: MaxScale, Line: func(l Line) {
				kinds = append(kinds, l.Kind)
				if l.Kind == kind {
					cancel(why)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Run(ctx)
			if r != nil || !errors.Is(err, why) {
				t.Errorf("Run() = %v, %v, want the cause of the end", r, err)
			}
			if slices.Contains(kinds, "call_failed") {
				t.Errorf("went on after the end of its context: %q", kinds)
			}
			for _, l := range d.listeners {
				if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept() after Run: %v, want %v", err, net.ErrClosed)
				}
			}
		})
	}
}

func TestRunOfAServerThatFails(t *testing.T) {
	d, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	d.listeners[1].Close() // Serve will not like it.
	r, err := d.Run(t.Context())
	if r != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run() = %v, %v, want the load balancer's error", r, err)
	}
}

func TestSettings(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct {
		cfg   Config
		fault string // "" for none
	}{
		{Config{}, ""},
		{Config{Scale: MinScale, ListenControl: "localhost:0", ListenProtected: "127.8.9.10:0"}, ""},
		{Config{Scale: MaxScale}, ""},
		{Config{Scale: MaxScale + 1}, "--scale 301: want a number from 1 to 300; with 100 a minute takes 600ms"},
		{Config{Scale: 0.5}, "--scale 0.5: want"},
		{Config{ListenControl: "8080"}, `--listen-control "8080": want host:port`},
		{Config{ListenControl: "127.0.0.1:http"}, `--listen-control "127.0.0.1:http": want a port`},
		{Config{ListenControl: ":0"}, `--listen-control ":0": not on loopback`},
		{Config{ListenProtected: "192.0.2.1:0"}, `--listen-protected "192.0.2.1:0": not on loopback`},
		{Config{ListenProtected: "localhost.example:0"}, `--listen-protected "localhost.example:0": not on loopback`},
		{Config{ListenProtected: taken.Addr().String()}, `--listen-protected "` + taken.Addr().String() + `": bind: address already in use`},
		{Config{Scale: -1, ListenControl: "[::]:0", ListenProtected: "x"}, "--scale -1: want a number from 1 to 300; with 100 a minute takes 600ms\n" +
			"--listen-control \"[::]:0\": not on loopback, where it has to be: there is no authentication\n--listen-protected \"x\": want host:port, such as 127.0.0.1:0"},
	} {
		d, err := New(test.cfg)
		if err == nil {
			d.Close()
		}
		if (err == nil) != (test.fault == "") || err != nil && !strings.HasPrefix(err.Error(), test.fault) {
			t.Errorf("New(%+v): %v, want %q", test.cfg, err, test.fault)
		}
		if setting := (*SettingError)(nil); err != nil && !errors.As(err, &setting) {
			t.Errorf("New(%+v): %T, want a *SettingError", test.cfg, err)
		}
	}
}

// A control arm that has anything between client and network is none.
func TestControlArmIsTheBareTransport(t *testing.T) {
	l, err := net.Listen("tcp", DefaultListen)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newArm(Control, false, clock{minute: 1e9}, l)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if _, ok := a.app.client.Transport.(*http.Transport); !ok || a.app.reason != nil {
		t.Errorf("the control arm's transport is a %T", a.app.client.Transport)
	}
}
