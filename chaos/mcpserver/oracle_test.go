package mcpserver_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestHistoryTellsWhatHappened(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Minute}, func(t *testing.T, b *bed) {
		t0 := time.Now()
		session := b.initialize()
		stream := b.listen(session)
		stamp := b.emit(session, "one")
		cursor := stream.next().id
		elapse(time.Second)
		stream.cut()
		b.open("POST", session, "", toolCall(1, "emit", `{"count":1}`)).settled()
		b.do("POST", session, "", `{"jsonrpc":"2.0","id":5,"result":{}}`)
		elapse(time.Hour)
		b.ping(session)
		resumed := b.open("GET", session, cursor, "")
		b.do("GET", session, "nonsense", "")
		b.do("DELETE", session, "", "")
		resumed.settled()
		b.do("POST", "", "", strings.Repeat("x", 4<<20+1))
		b.do("GET", "", "", "")

		h := b.server.Oracle().History()
		died := t0.Add(time.Minute + time.Second)
		later := died.Add(time.Hour - time.Minute)
		wantSessions := []mcpserver.Session{{ID: session, Created: t0, Died: died, Why: mcpserver.WhyExpired}}
		if !reflect.DeepEqual(h.Sessions, wantSessions) {
			t.Errorf("sessions %+v, want %+v", h.Sessions, wantSessions)
		}

		if len(h.Events) != 3 || h.Dropped != 0 {
			t.Fatalf("%d events, %d dropped, want 3 and 0", len(h.Events), h.Dropped)
		}
		if e, want := h.Events[0], (mcpserver.Event{Stamp: stamp, SessionID: session, EventID: cursor, StreamID: h.Events[0].StreamID, At: t0, SessionAlive: true}); e != want || e.StreamID == "" {
			t.Errorf("first event %+v, want %+v and a stream", e, want)
		}
		if e, answer := h.Events[1], h.Events[2]; e.StreamID == h.Events[0].StreamID || e.StreamID != answer.StreamID || e.Stamp.Seq != 2 || answer.Stamp.Seq != 3 {
			t.Errorf("the call's events %+v and %+v, want a stream of their own, and stamps 2 and 3", e, answer)
		}

		t1 := t0.Add(time.Second)
		want := []mcpserver.Request{
			{At: t0, Method: "POST", RPC: "initialize", SessionID: session, Status: 200, Ended: t0},
			{At: t0, Method: "POST", RPC: "notifications/initialized", SessionID: session, SessionAlive: true, Status: 202, Ended: t0},
			{At: t0, Method: "GET", SessionID: session, SessionAlive: true, Status: 200, Ended: t1},
			{At: t1, Method: "POST", RPC: "tools/call", SessionID: session, SessionAlive: true, Status: 200, Ended: t1},
			{At: t1, Method: "POST", RPC: "response", SessionID: session, SessionAlive: true, Status: 202, Ended: t1},
			{At: later, Method: "POST", RPC: "ping", SessionID: session, Status: 404, Ended: later},
			{At: later, Method: "GET", SessionID: session, LastEventID: cursor, Status: 200, Ended: later},
			{At: later, Method: "GET", SessionID: session, LastEventID: "nonsense", Status: 400, Ended: later},
			{At: later, Method: "DELETE", SessionID: session, Status: 200, Ended: later},
			{At: later, Method: "POST", Status: 413, Ended: later},
			{At: later, Method: "GET", Status: 400, Ended: later},
		}
		for i := range want {
			want[i].N = i + 1
			if i < len(h.Requests) && h.Requests[i] != want[i] {
				t.Errorf("request %d is %+v, want %+v", i+1, h.Requests[i], want[i])
			}
		}
		if len(h.Requests) != len(want) {
			t.Errorf("%d requests, want %d", len(h.Requests), len(want))
		}
	})
}

func TestObserveIsToldWhatTheHistoryHolds(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Minute}, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		if n := len(b.records(mcpserver.RequestAnswered)); n != 3 {
			t.Errorf("%d requests answered, want 3, the open one among them", n)
		}
		if n := len(b.records(mcpserver.RequestEnded)); n != 2 {
			t.Errorf("%d requests ended, want 2", n)
		}
		elapse(time.Minute)
		b.emitFails(session)
		stream.cut()
		stream.settled()

		h := b.server.Oracle().History()
		var seen mcpserver.History
		for _, r := range b.records(mcpserver.SessionDied) {
			seen.Sessions = append(seen.Sessions, r.Session)
		}
		for _, r := range b.records(mcpserver.EventStored) {
			seen.Events = append(seen.Events, r.Event)
		}
		for _, r := range b.records(mcpserver.RequestEnded) {
			seen.Requests = append(seen.Requests, r.Request)
		}
		if !reflect.DeepEqual(seen, h) {
			t.Errorf("observed at the end\n%+v, want\n%+v", seen, h)
		}
		created := b.records(mcpserver.SessionCreated)
		if len(created) != 1 || created[0].Session != (mcpserver.Session{ID: session, Created: h.Sessions[0].Created}) {
			t.Errorf("sessions created: %+v, want that of %s, alive", created, session)
		}
		if arrived := b.records(mcpserver.RequestArrived); len(arrived) != 3 || arrived[0].Request.RPC != "initialize" || arrived[0].Request.Status != 0 {
			t.Errorf("requests arrived: %+v, want 3, initialize first, without a status", arrived)
		}
	})
}

func (b *bed) emitFails(session string) {
	b.t.Helper()
	if _, err := b.server.Emit(session, "x"); err == nil {
		b.t.Error("Emit() = nil, want an error")
	}
}

func TestHistoryIsTheCallersOwn(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		h := b.server.Oracle().History()
		h.Sessions[0].ID, h.Requests[0].Status = "changed", 999
		again := b.server.Oracle().History()
		if again.Sessions[0].ID != session || again.Requests[0].Status != 200 {
			t.Error("changing a History changed the oracle")
		}
	})
}

func TestDiedAtKnowsNothingOfTheLivingAndTheUnknown(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		for _, id := range []string{b.initialize(), "nobody", ""} {
			if at, dead := b.server.Oracle().DiedAt(id); dead || !at.IsZero() {
				t.Errorf("DiedAt(%q) = %v, %v, want no death", id, at, dead)
			}
		}
	})
}
