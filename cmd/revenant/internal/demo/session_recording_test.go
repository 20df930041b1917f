package demo_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
	"github.com/revenant-mcp/revenant/middleware"
)

// at is a moment of the record.
func at(minutes float64) time.Time {
	return time.Date(2026, 11, 12, 10, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute)))
}

var (
	errMissing = fmt.Errorf("calling: %w", mcp.ErrSessionMissing)
	errClosed  = mcp.ErrConnectionClosed
	errDead    = &middleware.SessionResumptionError{SessionID: "two", Verdict: middleware.Dead, Err: middleware.ErrSessionDead}
	errOther   = errors.New("something else")
)

// run is a recording of an arm in which everything goes as it should up to the
// reconnect of part 2. Its sessions are "one", "two" and "three".
func run() *demo.Recording {
	r := &demo.Recording{}
	r.Server.Sessions = []mcpserver.Session{
		{ID: "one", Created: at(1), Died: at(31), Why: mcpserver.WhyExpired},
		{ID: "two", Created: at(34), Died: at(38.02), Why: mcpserver.WhyReaped},
		{ID: "three"},
	}
	seq := 0
	event := func(session string, logged, applied float64) {
		seq++
		stamp := mcpserver.Stamp{Session: session, Seq: seq}
		r.Server.Events = append(r.Server.Events, mcpserver.Event{
			Stamp: stamp, SessionID: session, EventID: strconv.Itoa(seq), At: at(logged), SessionAlive: true,
		})
		if applied > 0 {
			r.Applied = append(r.Applied, demo.Applied{Stamp: stamp, At: at(applied)})
		}
	}
	event("one", 1.01, 1.02)
	event("one", 5.01, 6.02)
	event("one", 5.01, 6.02)
	for m := 9.5; m < 30; m += 2 {
		event("one", m, m+0.01)
	}
	event("two", 34.01, 34.02)
	for range 10 {
		event("two", 38.01, 0)
	}
	r.Balancer = []lb.Event{
		{Kind: lb.Ended, At: at(1), Method: http.MethodPost},
		{Kind: lb.Cut, At: at(5), Method: http.MethodGet, Err: lb.ErrIdle},
		{Kind: lb.Cut, At: at(38), Method: http.MethodGet, Err: lb.ErrIdle},
	}
	r.Server.Requests = []mcpserver.Request{
		{At: at(1), Method: http.MethodGet, SessionID: "one", SessionAlive: true, Status: 200},
		{At: at(6), Method: http.MethodGet, SessionID: "one", LastEventID: "1", SessionAlive: true, Status: 200},
		{At: at(33), Method: http.MethodPost, RPC: "tools/call", SessionID: "one", Status: 404},
		{At: at(34), Method: http.MethodGet, SessionID: "two", SessionAlive: true, Status: 200},
		{At: at(39), Method: http.MethodGet, SessionID: "two", LastEventID: "15", Status: 200},
	}
	r.Sessions = []demo.Session{
		{ID: "one", Began: at(0.99), Ended: at(33.01), Err: errMissing},
		{ID: "two", Began: at(33.99)},
		{ID: "three"},
	}
	r.Calls = []demo.Call{{SessionID: "one", Start: at(32.99), End: at(33.02), Err: errMissing}}
	for range 3 {
		r.Calls = append(r.Calls, demo.Call{SessionID: "one", Start: at(33.03), End: at(33.04), Err: errClosed})
	}
	return r
}

// control is run, and then the failure.
func control() *demo.Recording {
	r := run()
	for _, e := range r.Server.Events {
		if e.SessionID == "two" && e.At.Equal(at(38.01)) {
			r.Applied = append(r.Applied, demo.Applied{Stamp: e.Stamp, At: at(39.01)})
		}
	}
	r.Server.Requests = append(r.Server.Requests,
		mcpserver.Request{At: at(41), Method: http.MethodPost, RPC: "tools/call", SessionID: "two", Status: 404})
	r.Calls = append(r.Calls, demo.Call{SessionID: "two", Start: at(40.99), End: at(41.02), Err: errMissing})
	r.Sessions[1].Ended, r.Sessions[1].Err = at(41.01), errMissing
	return r
}

// protected is run, and then what the middleware makes of it.
func protected() *demo.Recording {
	r := run()
	r.Server.Requests = append(r.Server.Requests,
		mcpserver.Request{At: at(39.01), Method: http.MethodPost, RPC: "ping", SessionID: "two", Status: 404})
	for i := range r.Calls {
		r.Calls[i].Reason = errDead
	}
	r.Sessions[0].Reason = errDead
	r.Sessions[1].Ended, r.Sessions[1].Err, r.Sessions[1].Reason = at(39.02), errMissing, errDead
	r.Calls = append(r.Calls, demo.Call{SessionID: "three", Start: at(41), End: at(41.01)})
	return r
}
