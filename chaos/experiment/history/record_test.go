package history_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Everything is on one time base, and what happened after the end is not in it.
func TestNew(t *testing.T) {
	zero := time.Date(2026, 11, 8, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return zero.Add(sec(s)) }
	stamp := mcpserver.Stamp{Session: "A", Seq: 1}
	broken := errors.New("broken")
	src := history.Source{
		Zero: zero, End: at(100), Scale: 2, Soon: sec(1), Patience: sec(2),
		Oracle: mcpserver.History{
			Sessions: []mcpserver.Session{
				{ID: "A", Created: at(-1), Died: at(50), Why: mcpserver.WhyExpired},
				{ID: "B", Created: at(60), Died: at(101), Why: mcpserver.WhyReaped},
				{ID: "C", Created: at(101)},
			},
			Events: []mcpserver.Event{{Stamp: stamp, SessionID: "A", EventID: "1", StreamID: "s", At: at(2), SessionAlive: true}, {At: at(101)}},
			Requests: []mcpserver.Request{
				{N: 1, At: at(1), Method: "POST", RPC: "ping", SessionID: "A", LastEventID: "0", SessionAlive: true, Status: 200, Ended: at(101), Replica: 1, Rule: 2, AnsweredAs: "B", Replayed: 3},
				{N: 2, At: at(101)},
			},
			Asks: []mcpserver.Ask{
				{SessionID: "A", ID: 1, Method: "ping", CallID: "2", Stamp: stamp, At: at(2), SentAgain: 1, Answered: at(3), Cancelled: at(101), Why: mcpserver.WhyAsker},
				{At: at(101)},
			},
			Answers: []mcpserver.Answer{{At: at(3), Request: 1, SessionID: "A", ID: "1", Status: 202, Taken: true}, {At: at(101)}},
			Dropped: 4,
		},
		Clients: []history.ClientSource{{Name: "one", Arm: "control", Kind: client.Naive, Dropped: 5, Records: []client.Record{
			{At: at(0), Kind: client.Asked, Layer: client.Wire, Ref: 1, HTTPMethod: "POST", Method: "initialize"},
			{At: at(1), Kind: client.Headed, Ref: 1, Status: 200, ContentType: "text/event-stream", SessionID: "A"},
			{At: at(2), Kind: client.Delivered, Ref: 1, EventID: "1"},
			{At: at(2), Kind: client.Connected, SessionID: "A"},
			{At: at(3), Kind: client.Over, Ref: 1, Bytes: 7, Err: broken},
			{At: at(4), Kind: client.ConnectFailed, Err: broken},
			{At: at(5), Kind: client.Left, SessionID: "A"},
			{At: at(5), Kind: client.SessionOver, SessionID: "A", By: client.ByCall, Dead: true, Err: broken},
			{At: at(6), Kind: client.Applied, SessionID: "A", Method: "m", Stamp: stamp},
			{At: at(7), Kind: client.Prompted, Ref: 1, Method: "e", Stamp: stamp},
			{At: at(7), Kind: client.Prompted, Ref: 2, Method: "e", Stamp: stamp},
			{At: at(8), Kind: client.Answered, Ref: 2, Action: client.Decline},
			{At: at(9), Kind: client.Withdrawn, Ref: 1, Err: broken},
			{At: at(10), Kind: client.CallBegun, Ref: 1, Tool: "t"},
			{At: at(10), Kind: client.CallBegun, Ref: 2, Tool: "u", SessionID: "A"},
			{At: at(11), Kind: client.CallEnded, Ref: 1, Tool: "t", SessionID: "A", How: client.RPCError, Code: -1, Err: broken, Stamp: stamp},
			{At: at(12), Kind: client.Decided, Guard: &middleware.Event{
				Kind: middleware.ProbeAnswered, SessionID: "A", Verdict: middleware.Dead, StatusCode: 404, Duration: sec(1), Err: broken,
			}},
			{At: at(12), Kind: client.Decided, Guard: &middleware.Event{Kind: middleware.Held, SessionID: "A", LastEventID: "1"}},
			{At: at(101), Kind: client.CallEnded, Ref: 2, How: client.Hanging},
			{At: at(101), Kind: client.Closed},
		}}},
		Balancers: []history.BalancerSource{{Name: "lb", Events: []lb.Event{
			{At: at(1), Kind: lb.Cut, Stream: 1, Method: "GET", Status: 200, Bytes: 9, Expiry: lb.RST, Err: lb.ErrIdle}, {At: at(101)},
		}}},
		Faults: []history.Fault{{Name: "f", At: sec(1)}},
	}
	want := &history.History{
		Zero: zero, End: sec(100), Scale: 2, Soon: sec(1), Patience: sec(2),
		Oracle: history.Oracle{
			Sessions: []history.Session{
				{ID: "A", Created: sec(-1), Died: new(sec(50)), Why: mcpserver.WhyExpired}, {ID: "B", Created: sec(60)},
			},
			Events: []history.Event{{Stamp: stamp, Session: "A", ID: "1", Stream: "s", At: sec(2), Alive: true}},
			Requests: []history.Request{
				{N: 1, At: sec(1), Method: "POST", RPC: "ping", Session: "A", Cursor: "0", Alive: true, Status: 200, Replica: 1, Rule: 2, AnsweredAs: "B", Replayed: 3},
			},
			Asks:    []history.Ask{{Session: "A", ID: 1, Method: "ping", Call: "2", Stamp: stamp, At: sec(2), SentAgain: 1, Answered: new(sec(3))}},
			Answers: []history.Answer{{At: sec(3), Request: 1, Session: "A", ID: "1", Status: 202, Taken: true}},
			Dropped: 4,
		},
		Clients: []history.Client{{
			Name: "one", Arm: "control", Kind: client.Naive, Dropped: 5,
			Began:   []history.Began{{At: sec(2), Session: "A"}},
			Failed:  []history.Failed{{At: sec(4), Err: "broken"}},
			Left:    []history.Began{{At: sec(5), Session: "A"}},
			Reports: []history.Report{{At: sec(5), Session: "A", By: client.ByCall, Dead: true, Err: "broken"}},
			Applied: []history.Applied{{At: sec(6), Method: "m", Stamp: stamp}},
			Prompts: []history.Prompt{
				{Ref: 1, At: sec(7), Method: "e", Stamp: stamp, Withdrawn: new(sec(9))},
				{Ref: 2, At: sec(7), Method: "e", Stamp: stamp, Answered: new(sec(8)), Action: client.Decline},
			},
			Calls: []history.Call{
				{Ref: 1, At: sec(10), Tool: "t", Session: "A", Ended: new(sec(11)), How: client.RPCError, Code: -1, Err: "broken", Stamp: stamp},
				{Ref: 2, At: sec(10), Tool: "u", Session: "A"},
			},
			Exchanges: []history.Exchange{{
				Ref: 1, Layer: client.Wire, At: 0, Method: "POST", RPC: "initialize", Session: "A", Headed: new(sec(1)), Status: 200,
				Type: "text/event-stream", Delivered: []history.Delivered{{At: sec(2), ID: "1"}}, Over: new(sec(3)), Bytes: 7, Err: "broken",
			}},
			Guard: []history.Decision{
				{At: sec(12), Kind: "probe answered", Session: "A", Verdict: "dead", Status: 404, Took: sec(1), Err: "broken"},
				{At: sec(12), Kind: "held", Session: "A", Cursor: "1"},
			},
		}},
		Balancers: []history.Balancer{{Name: "lb", Events: []history.BalancerEvent{
			{At: sec(1), Kind: "cut", Stream: 1, Method: "GET", Status: 200, Bytes: 9, Expiry: lb.RST, Err: lb.ErrIdle.Error()},
		}}},
		Faults: []history.Fault{{Name: "f", At: sec(1)}},
	}
	if got := history.New(src); !reflect.DeepEqual(got, want) {
		t.Errorf("New:\n is   %+v\n want %+v", got, want)
	}
}

// What the wall clock does in between is nobody's business: instants of one
// process are told apart by their monotonic readings, and none of these is in a
// History.
func TestNewHasNoMonotonicReading(t *testing.T) {
	now := time.Now()
	h := history.New(history.Source{Zero: now, End: now.Add(time.Second)})
	if h.Zero != now.Round(0).UTC() || h.End != time.Second {
		t.Errorf("Zero is %v and End %v, want %v and 1s", h.Zero, h.End, now.UTC())
	}
}
