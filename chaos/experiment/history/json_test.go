package history_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

// whole is a History in which every list has something, with ids that must not
// leave the house.
func whole() (h *history.History, ids []string) {
	s := newStory()
	ids = []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGH-another-of-the-same-beginning"}
	s.begin(ids[0], 1)
	stream := s.get(ids[0], "", 1)
	s.applies(stream, s.store(ids[0], "main", 2), 2)
	s.prompts(stream, s.ask(ids[0], "main", 3), 3)
	s.close(stream, 4)
	s.die(ids[0], 5)
	s.c.Exchanges[stream].Err = "GET of " + ids[0] + " broke"
	s.calls(ids[0], 5, 6, client.SessionError, 0).Err = "session " + ids[0] + " is gone"
	s.told(ids[0], 6, client.ByCall, true)
	s.c.Reports[0].Err = ids[0]
	s.c.Failed = append(s.c.Failed, history.Failed{At: sec(6), Err: "not " + ids[1]})
	s.c.Guard = append(s.c.Guard, history.Decision{At: sec(6), Kind: "session dead", Session: ids[0], Verdict: "dead", Err: ids[0]})
	s.begin(ids[1], 7)
	s.c.Left = append(s.c.Left, history.Began{At: sec(90), Session: ids[1]})
	s.h.Oracle.Requests[0].AnsweredAs = ids[1]
	s.h.Oracle.Answers = append(s.h.Oracle.Answers, history.Answer{At: sec(3), Session: ids[0], ID: "1", Status: 202, Taken: true})
	s.h.Balancers = []history.Balancer{{Name: "lb", Events: []history.BalancerEvent{{At: sec(4), Kind: "cut", Stream: 1, Expiry: 1, Err: ids[0]}}}}
	s.h.Faults = []history.Fault{{Name: "rst", At: sec(4), Undone: new(sec(5))}}
	return s.h, ids
}

func TestJSONHasNoSession(t *testing.T) {
	h, ids := whole()
	before, _ := whole()
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if strings.Contains(string(data), id) {
			t.Errorf("the JSON has the id %q", id)
		}
	}
	// Two ids of the same beginning stay two.
	for _, name := range []string{`"ABCDEFGH…"`, `"ABCDEFGH…2"`, `session ABCDEFGH… is gone`} {
		if !strings.Contains(string(data), name) {
			t.Errorf("the JSON lacks %s: %s", name, data)
		}
	}
	if !reflect.DeepEqual(h, before) {
		t.Error("marshalling has changed the History")
	}
}

func TestJSONReadsBack(t *testing.T) {
	h, _ := whole()
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	read := new(history.History)
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if want := h.Redacted(); !reflect.DeepEqual(read, want) {
		t.Errorf("read back: %+v, want %+v", read, want)
	}
	again, err := json.Marshal(read)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("written again: %s, %v, want the same", again, err)
	}
	for _, m := range history.Measures() {
		if got, want := m.Of(read), m.Of(h); got != want {
			t.Errorf("%s over what was read back = %+v, want %+v", m.Name, got, want)
		}
	}
}

// A History of two clients is the sum of its parts.
func TestOnly(t *testing.T) {
	s, _ := busy()
	other := newStory()
	other.seq = 100 // They are of one server.
	other.busy("C", "D")
	other.c.Name, other.c.Arm = "two", "protected"
	both, of := s.h, other.h.Oracle
	both.Clients = append(both.Clients, *other.c)
	both.Oracle.Sessions = append(both.Oracle.Sessions, of.Sessions...)
	both.Oracle.Events = append(both.Oracle.Events, of.Events...)
	both.Oracle.Requests = append(both.Oracle.Requests, of.Requests...)
	both.Oracle.Asks = append(both.Oracle.Asks, of.Asks...)
	// One that could not begin has no session.
	both.Clients[1].Exchanges = append(both.Clients[1].Exchanges, history.Exchange{Layer: client.Edge, At: sec(50), Method: "POST", RPC: "initialize"})
	of.Requests = append(of.Requests, history.Request{At: sec(50), Method: "POST", RPC: "initialize", Status: 503})
	both.Oracle.Requests = append(both.Oracle.Requests, of.Requests[len(of.Requests)-1])
	both.Oracle.Answers = []history.Answer{{Session: "A"}, {Session: "C"}}
	checkMeasures(t, both, map[string]float64{"sessions_begun": 4, "requests_to_dead_session": 4, "dead_session_events_applied": 2})
	for _, arm := range []string{"control", "protected"} {
		only := both.Only(func(c history.Client) bool { return c.Arm == arm })
		checkMeasures(t, only, map[string]float64{"sessions_begun": 2, "requests_to_dead_session": 2, "dead_session_events_applied": 1})
		o := only.Oracle
		got := []int{len(only.Clients), len(o.Sessions), len(o.Events), len(o.Requests), len(o.Asks), len(o.Answers)}
		want := []int{1, len(of.Sessions), len(of.Events), len(of.Requests), len(of.Asks), 1}
		if !slices.Equal(got, want) {
			t.Errorf("Only(%s) has %v clients, sessions, events, requests, asks and answers, want %v", arm, got, want)
		}
	}
	if len(both.Clients) != 2 || len(both.Oracle.Sessions) != 4 {
		t.Error("Only has changed the History")
	}
}

// The n-th session of each client, and nothing of another.
func TestSession(t *testing.T) {
	s, _ := busy()
	s.c.Left = []history.Began{{At: sec(90), Session: "B"}}
	s.c.Guard = []history.Decision{{Kind: "probe sent", Session: "A"}, {Kind: "probe sent", Session: "B"}, {Kind: "probe sent", Session: "B"}}
	s.calls("B", 20, 21, client.ToolError, 0)
	cases := []map[string]float64{
		{"sessions_begun": 1, "requests_to_dead_session": 2, "dead_session_events_applied": 1, "events_applied": 1, "probes": 1, "calls_failed_rpc": 1, "calls_failed_tool": 0, "prompts": 1, "detected_at_tool_call": 1},
		{"sessions_begun": 1, "requests_to_dead_session": 0, "dead_session_events_applied": 0, "events_applied": 1, "probes": 2, "calls_failed_rpc": 0, "calls_failed_tool": 1, "prompts": 0, "detected_at_tool_call": 0},
		{"sessions_begun": 0, "events_applied": 0, "probes": 0, "calls_failed": 0},
	}
	for i, want := range cases {
		h := s.h.Session(i + 1)
		checkMeasures(t, h, want)
		if left := len(h.Clients[0].Left); (left == 1) != (i == 1) {
			t.Errorf("session %d was left %d times", i+1, left)
		}
	}
	checkMeasures(t, s.h, map[string]float64{"sessions_begun": 2, "probes": 3})
}
