package demo_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
)

func TestCountSession(t *testing.T) {
	for _, test := range []struct {
		name    string
		rec     *demo.Recording
		session int
		want    demo.SessionTally
	}{
		{"control, part 1", control(), 0, demo.SessionTally{
			SessionID: "one", Died: at(31), Why: mcpserver.WhyExpired, AppliedAlive: 14, Requests: 1, CallsFailed: 4, CallsArrived: 1,
			Place: demo.AtToolCall, After: at(33.01).Sub(at(31)), Err: errMissing,
		}},
		{"control, part 2", control(), 1, demo.SessionTally{
			SessionID: "two", Died: at(38.02), Why: mcpserver.WhyReaped, AppliedAlive: 1, AppliedDead: 10, Lost: 10,
			Requests: 2, CallsFailed: 1, CallsArrived: 1,
			Place: demo.AtToolCall, After: at(41.01).Sub(at(38.02)), Err: errMissing,
		}},
		{"protected, part 1", protected(), 0, demo.SessionTally{
			SessionID: "one", Died: at(31), Why: mcpserver.WhyExpired, AppliedAlive: 14, Requests: 1, CallsFailed: 4, CallsArrived: 1,
			Place: demo.AtToolCall, After: at(33.01).Sub(at(31)), Err: errMissing, Reason: errDead,
		}},
		{"protected, part 2", protected(), 1, demo.SessionTally{
			SessionID: "two", Died: at(38.02), Why: mcpserver.WhyReaped, AppliedAlive: 1, Lost: 10, Requests: 2,
			Place: demo.AtReconnect, After: at(39.02).Sub(at(38.02)), Err: errMissing, Reason: errDead,
		}},
		{"a living session", protected(), 2, demo.SessionTally{SessionID: "three", Place: demo.Nowhere}},
	} {
		if got := demo.CountSession(test.rec, test.rec.Sessions[test.session]); got != test.want {
			t.Errorf("%s:\nCountSession() = %+v\nwant             %+v", test.name, got, test.want)
		}
	}
}

func TestAnEventIsOfADeadSessionFromTheInstantOfItsDeath(t *testing.T) {
	r := run()
	stamp := r.Applied[0].Stamp
	for _, test := range []struct {
		at                time.Time
		alive, dead, lost int
	}{
		{at(31).Add(-1), 1, 0, 13},
		{at(31), 0, 1, 14},
		{at(31).Add(1), 0, 1, 14},
	} {
		r.Applied = []demo.Applied{{Stamp: stamp, At: test.at}}
		got := demo.CountSession(r, r.Sessions[0])
		if got.AppliedAlive != test.alive || got.AppliedDead != test.dead || got.Lost != test.lost {
			t.Errorf("applied at %v: %d alive, %d dead, %d lost, want %d, %d and %d",
				test.at, got.AppliedAlive, got.AppliedDead, got.Lost, test.alive, test.dead, test.lost)
		}
	}
}

func TestAnEventIsItsSessionsWhoeverHandsItOn(t *testing.T) {
	r := control()
	r.Applied = append(r.Applied, demo.Applied{Stamp: r.Applied[0].Stamp, At: at(45)})
	if got := demo.CountSession(r, r.Sessions[0]); got.AppliedDead != 1 || got.Repeated != 0 {
		t.Errorf("an event of the first session, handed on late: %+v, want 1 of a dead session", got)
	}
	if got := demo.CountSession(r, r.Sessions[1]); got.AppliedDead != 10 {
		t.Errorf("AppliedDead of the second session = %d, want 10", got.AppliedDead)
	}
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	r := run()
	again := r.Applied[1]
	again.At = again.At.Add(time.Second)
	r.Applied = append(r.Applied, again, again)
	if got := demo.CountSession(r, r.Sessions[0]); got.Repeated != 2 || got.AppliedAlive != 16 || got.Lost != 0 {
		t.Errorf("CountSession() = %+v, want 2 of 16 repeated", got)
	}
}

// A tool that outlives its session goes on logging.
func TestAnEventLoggedAfterTheDeathIsNotLost(t *testing.T) {
	r := run()
	r.Server.Events = append(r.Server.Events, mcpserver.Event{Stamp: mcpserver.Stamp{Session: "one", Seq: 99}, SessionID: "one", At: at(32)})
	if got := demo.CountSession(r, r.Sessions[0]); got.Lost != 0 {
		t.Errorf("Lost = %d, want 0", got.Lost)
	}
}

func TestRequestsToTheDeadSession(t *testing.T) {
	r := protected()
	more := func(at time.Time, method, rpc, session string) {
		r.Server.Requests = append(r.Server.Requests, mcpserver.Request{At: at, Method: method, RPC: rpc, SessionID: session})
	}
	more(at(38.02), http.MethodPost, "ping", "two")         // at the instant of the death
	more(at(38.02).Add(-1), http.MethodPost, "ping", "two") // before it
	more(at(40), http.MethodDelete, "", "two")              // after it was noticed
	more(at(40), http.MethodPost, "tools/call", "three")
	got := demo.CountSession(r, r.Sessions[1])
	if got.Requests != 4 || got.RequestsNoticed != 1 || got.Deletes != 1 || got.CallsArrived != 0 {
		t.Errorf("CountSession() = %+v, want 4 requests, 1 of them, a DELETE, after it was noticed", got)
	}
}

func TestWhereADeathIsNoticed(t *testing.T) {
	call := func(start, end float64, err error) demo.Call {
		return demo.Call{SessionID: "two", Start: at(start), End: at(end), Err: err}
	}
	for _, test := range []struct {
		name  string
		ended float64 // 0: the client says nothing
		calls []demo.Call
		place demo.Place
		at    float64
		err   error
	}{
		{"nobody says anything", 0, nil, demo.Nowhere, 0, nil},
		{"the client says it", 39, nil, demo.AtReconnect, 39, errOther},
		{"a call fails", 0, []demo.Call{call(41, 42, errMissing)}, demo.AtToolCall, 42, errMissing},
		{"a call works", 0, []demo.Call{call(41, 42, nil)}, demo.Nowhere, 0, nil},
		{"a call fails, then the client says it", 42.5, []demo.Call{call(41, 42, errMissing)}, demo.AtToolCall, 42, errMissing},
		{"the client says it while the call that found out is under way", 41.5, []demo.Call{call(41, 42, errMissing)}, demo.AtToolCall, 41.5, errMissing},
		{"the client says it, then a call fails", 39, []demo.Call{call(41, 42, errClosed)}, demo.AtReconnect, 39, errOther},
		{"of two calls the first counts", 0, []demo.Call{call(41, 42, errMissing), call(42, 42.1, errClosed)}, demo.AtToolCall, 42, errMissing},
		{"of two calls under way the first to fail counts", 0, []demo.Call{call(41, 42, errMissing), call(41.5, 43, errClosed)}, demo.AtToolCall, 42, errMissing},
		{"a call failed before the death", 0, []demo.Call{call(35, 36, errOther)}, demo.Nowhere, 0, nil},
		{"a call failed before the death, another after it", 0, []demo.Call{call(35, 36, errOther), call(41, 42, errMissing)}, demo.AtToolCall, 42, errMissing},
	} {
		r := run()
		r.Calls = append(r.Calls, test.calls...)
		if test.ended != 0 {
			r.Sessions[1].Ended, r.Sessions[1].Err = at(test.ended), errOther
		}
		var after time.Duration
		if test.at != 0 {
			after = at(test.at).Sub(at(38.02))
		}
		got := demo.CountSession(r, r.Sessions[1])
		if got.Place != test.place || got.After != after || got.Err != test.err {
			t.Errorf("%s: noticed %s, %v after the death, by %v; want %s, %v, %v",
				test.name, got.Place, got.After, got.Err, test.place, after, test.err)
		}
	}
}
