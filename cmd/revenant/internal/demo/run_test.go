package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// testScale leaves the pauses of a busy machine room.
const testScale = 200

// replay is a run of one record.
func replay(t *testing.T, record *Record, guarded [2]bool) *Report {
	t.Helper()
	d, err := New(Config{Scale: testScale, Records: []*Record{record}})
	if err != nil {
		t.Fatal(err)
	}
	d.guarded = guarded
	r, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A demo whose verdict is always the same shows nothing. These runs have an arm
// that is not what its name says.
func TestSessionRecordWithBothArmsAlike(t *testing.T) {
	for _, test := range []struct {
		name    string
		guarded [2]bool
		outcome Outcome
		reason  string
		applied [2]int
	}{
		{"neither has the middleware", [2]bool{false, false}, Deviated, "session: the protected arm shows the failure", [2]int{missedDead, missedDead}},
		{"both have the middleware", [2]bool{true, true}, Inconclusive, "session: the control arm does not show the failure", [2]int{0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := replay(t, SessionRecord, test.guarded)
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

func TestElicitationRecordWithBothArmsAlike(t *testing.T) {
	for _, test := range []struct {
		name    string
		guarded [2]bool
		outcome Outcome
		reasons []string
		once    [2]bool // which arms prompt once
	}{
		{"neither has the middleware", [2]bool{false, false}, Deviated, []string{
			"elicitation: the protected arm shows the failure: the person was prompted",
			"elicitation: the protected arm shows the failure: its call was open",
		}, [2]bool{false, false}},
		{"both have the middleware", [2]bool{true, true}, Inconclusive, []string{
			"elicitation: the control arm does not show the failure: the person was prompted 1 times",
			"elicitation: the control arm does not show the failure: its call ended: failed with -32001",
		}, [2]bool{true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := replay(t, ElicitationRecord, test.guarded)
			if r.Verdict != test.outcome || !slices.EqualFunc(r.Reasons, test.reasons, strings.HasPrefix) {
				t.Errorf("verdict %s because of %q, want %s because %q", r.Verdict, r.Reasons, test.outcome, test.reasons)
			}
			for i, a := range []ElicitationArm{r.Elicitation.Arms.Control, r.Elicitation.Arms.Protected} {
				if once := a.Prompts == 1; once != test.once[i] || a.Call.Ended != test.once[i] || !a.SessionWorks {
					t.Errorf("arm %d: %d prompts, call ended %t, session works %t", i, a.Prompts, a.Call.Ended, a.SessionWorks)
				}
			}
		})
	}
}

// The records share the addresses, one after the other.
func TestRunOfSeveralRecordsOnOneAddress(t *testing.T) {
	free, err := net.Listen("tcp", DefaultListen)
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	var told []string
	d, err := New(Config{
		Scale: MaxScale, ListenControl: addr, Records: []*Record{ElicitationRecord, ElicitationRecord},
		Begin: func(r *Record) { told = append(told, "begin "+r.Name()) },
		End:   func(f *Findings) { told = append(told, "end "+f.Record.Name()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(told, ", "); got != "begin elicitation, end elicitation, begin elicitation, end elicitation" {
		t.Errorf("told %s", got)
	}
	if len(r.Records) != 2 || r.Records[1].StartedAt.Before(r.Records[0].StartedAt) || r.DurationMS < r.Records[0].DurationMS+r.Records[1].DurationMS {
		t.Errorf("%+v in %v ms, want two, one after the other", r.Records, r.DurationMS)
	}
}

// The middleware's grace is a time of the record's, too: else it would take the
// real minute, and the protected arm would wait as long as the other.
func TestTheElicitationRecordIsScaledAsAWhole(t *testing.T) {
	got := ElicitationRecord.setup(clock{minute: 600 * time.Millisecond})
	if got.guard.StaleGrace != 600*time.Millisecond || got.balancer.IdleTimeout != 600*time.Millisecond || got.server.Retry != 150*time.Millisecond {
		t.Errorf("grace %v, idle timeout %v, retry %v, want 600ms, 600ms, 150ms",
			got.guard.StaleGrace, got.balancer.IdleTimeout, got.server.Retry)
	}
	if real := ElicitationRecord.setup(clock{minute: time.Minute}); real.guard.StaleGrace != middleware.DefaultStaleGrace {
		t.Errorf("grace %v, want the middleware's default, %v", real.guard.StaleGrace, middleware.DefaultStaleGrace)
	}
}

// Whenever it is interrupted, nothing is left. TestMain looks for goroutines.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, test := range []struct {
		record *Record
		kind   string
	}{
		{SessionRecord, "initialized"}, {SessionRecord, "stream_cut"}, {SessionRecord, "reconnected"},
		{ElicitationRecord, "prompted"}, {ElicitationRecord, "request_abandoned"}, {ElicitationRecord, "request_suppressed"},
	} {
		kind := test.kind
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var kinds []string
			d, err := New(Config{Scale: MaxScale, Records: []*Record{test.record}, Line: func(l Line) {
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
			if slices.Contains(kinds, "call_failed") || slices.Contains(kinds, "request_stale") {
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
	a, err := newArm(Control, false, SessionRecord.setup(clock{minute: 1e9}), l)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if _, ok := a.app.client.Transport.(*http.Transport); !ok || a.app.reason != nil {
		t.Errorf("the control arm's transport is a %T", a.app.client.Transport)
	}
}
