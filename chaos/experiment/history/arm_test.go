package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// drawn is a lane in a few words.
func drawn(l journal.Lane) string {
	var words []string
	for _, s := range l.Spans {
		words = append(words, fmt.Sprintf("%s %v-%v", s.State, s.From, s.To))
	}
	for _, m := range l.Marks {
		text := fmt.Sprintf("%s@%v", m.Kind, m.At)
		if m.Count > 0 {
			text += fmt.Sprint("×", m.Count)
		}
		if m.Verdict != "" {
			text += " " + m.Verdict
		}
		if m.Harm {
			text += "!"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

func lanesOf(h *history.History) map[string]string {
	all := map[string]string{}
	for _, l := range history.Lanes(h) {
		all[l.Name] = drawn(l)
	}
	return all
}

func checkLanes(t *testing.T, h *history.History, want map[string]string) {
	t.Helper()
	got := lanesOf(h)
	for name, lane := range want {
		if got[name] != lane {
			t.Errorf("lane %q\n  is   %s\n  want %s", name, got[name], lane)
		}
	}
}

// The picture of a control arm, in the experiment's time: ten times faster.
func TestLanesOfControl(t *testing.T) {
	s, stream := a()
	s.h.Scale = 10
	s.prompts(stream, s.ask("A", "main", 3), 3)
	s.calls("A", 4, 5, client.Result, 0)
	s.c.Calls[0].Stamp = s.store("A", "call", 4).Stamp
	s.close(stream, 10)
	e := s.store("A", "main", 11)
	s.die("A", 12)
	back := s.get("A", "2", 13)
	s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].Replayed = 1
	s.applies(back, e, 13)
	s.close(back, 16)
	s.post("A", "tools/call", 14, 404)
	s.calls("A", 14, 14, client.SessionError, 0)
	s.told("A", 14, client.ByCall, true)
	s.begin("B", 15)
	s.get("B", "", 15)
	s.calls("B", 20, 0, "", 0)
	s.h.Balancers = []history.Balancer{{Name: "lb", Events: []history.BalancerEvent{
		{At: sec(1), Kind: "opened", Stream: 1, Method: "GET"}, {At: sec(4), Kind: "opened", Stream: 2, Method: "POST"},
		{At: sec(4), Kind: "ended", Stream: 2, Method: "POST"}, {At: sec(10), Kind: "cut", Stream: 1, Method: "GET"},
		{At: sec(15), Kind: "opened", Stream: 3, Method: "GET"}, {At: sec(30), Kind: "refused", Stream: 4, Status: 504},
	}}}
	s.h.Faults = []history.Fault{{Name: "latency", At: sec(40), Undone: new(sec(50))}}
	checkLanes(t, s.h, map[string]string{
		"faults":            "fault 6m40s-8m20s, cut@6m40s",
		"lb":                "open 10s-1m40s, open 2m30s-16m40s, cut@1m40s, refused@5m0s",
		"standalone stream": "open 10s-1m40s, closed 1m40s-2m10s, open 2m10s-2m40s, open 2m30s-16m40s, reconnect@2m10s, replay@2m10s×1",
		"streams of calls":  "",
		"session":           "alive 10s-2m0s, dead 2m0s-2m30s, alive 2m30s-16m40s, initialized@10s, died@2m0s, initialized@2m30s, refused@2m20s!",
		"middleware":        "",
		"application":       "waiting 3m20s-16m40s, applied@20s, prompted@30s, applied@2m10s!, called@50s, failed@2m20s!, told@2m20s",
	})
}

func TestLanesOfProtected(t *testing.T) {
	s, stream := a()
	s.close(stream, 10)
	s.store("A", "main", 11)
	s.die("A", 12)
	s.close(s.get("A", "1", 13), 14)
	s.post("A", "ping", 13, 404)
	for _, d := range []history.Decision{
		{At: sec(13), Kind: "held"}, {At: sec(13), Kind: "probe sent"}, {At: sec(14), Kind: "probe answered", Verdict: "dead"},
		{At: sec(14), Kind: "session dead"}, {At: sec(14), Kind: "quarantined", Events: 1}, {At: sec(20), Kind: "fenced"},
		{At: sec(21), Kind: "stale"}, {At: sec(22), Kind: "duplicate suppressed"},
	} {
		d.Session = "A"
		s.c.Guard = append(s.c.Guard, d)
	}
	s.begin("B", 15)
	checkLanes(t, s.h, map[string]string{
		"session":           "alive 1s-12s, dead 12s-14s, fenced 14s-15s, alive 15s-1m40s, initialized@1s, died@12s, initialized@15s",
		"middleware":        "held@13s, probe@14s Dead, quarantined@14s×1, fenced@20s, stale@21s, suppressed@22s",
		"standalone stream": "open 1s-10s, closed 10s-13s, open 13s-14s, held 13s-14s, reconnect@13s",
	})
}

// A second prompt for one request is the harm of the second seed.
func TestLanesOfCalls(t *testing.T) {
	s, _ := a()
	x := s.exchange("POST", "tools/call", "A", "", 20, 200)
	s.c.Exchanges[x].Type = "text/event-stream"
	q := s.ask("A", "call", 20)
	s.prompts(x, q, 20)
	s.close(x, 25)
	s.prompts(s.get("A", q.ID, 30), q, 30)
	checkLanes(t, s.h, map[string]string{
		"streams of calls": "open 20s-25s, closed 25s-30s, open 30s-1m40s, reconnect@30s",
		"application":      "applied@2s, prompted@20s, prompted@30s!",
	})
}

func TestArm(t *testing.T) {
	s, _ := busy()
	arm, problems := history.Arm(s.h, "control", client.GoSDK)
	if len(problems) != 0 || arm.Name != "control" || arm.Client != "gosdk" || len(arm.Measures) != len(history.Measures()) {
		t.Errorf("Arm = %v, %v, %d measures, %v, want all", arm.Name, arm.Client, len(arm.Measures), problems)
	}
	if arm.Measures["dead_session_events_applied"] != 1 {
		t.Errorf("measures: %v, want dead_session_events_applied 1", arm.Measures)
	}
	now := time.Now()
	j := &journal.Journal{
		Name: "x", Start: now, End: now, Scale: 1, Status: journal.Completed, Verdict: journal.Upheld, Arms: []journal.Arm{arm},
	}
	if err := j.Validate(); err != nil {
		t.Errorf("the journal: %v, want it valid", err)
	}
	other, _ := history.Arm(s.h, "protected", client.GoSDK)
	if slices.ContainsFunc(other.Lanes, func(l journal.Lane) bool { return l.Kind != journal.BalancerLane }) {
		t.Errorf("the other arm has lanes: %v", other.Lanes)
	}
	s.h.Oracle.Dropped = 1
	arm, problems = history.Arm(s.h, "control", client.GoSDK)
	if len(arm.Measures) != 0 || len(problems) != len(history.Measures()) || len(arm.Lanes) == 0 {
		t.Errorf("without an assumption: %d measures, %d problems, %d lanes, want 0, all and some", len(arm.Measures), len(problems), len(arm.Lanes))
	}
}

// No id that could be used is in a picture.
func TestLanesHaveNoSession(t *testing.T) {
	h, ids := whole()
	text := fmt.Sprintf("%+v", history.Lanes(h))
	for _, id := range ids {
		if strings.Contains(text, id) {
			t.Errorf("a lane has the id %q", id)
		}
	}
}

// What is held is shown on the stream that the reconnect was for.
func TestHeldIsShownOnItsStream(t *testing.T) {
	s, stream := a()
	e := s.store("A", "main", 2)
	s.brings(stream, e, 2)
	call := s.post("A", "tools/call", 3, 200)
	f := s.store("A", "call", 3)
	s.brings(call, f, 3)
	s.close(call, 4)
	s.close(s.get("A", f.ID, 5), 8)
	s.c.Guard = []history.Decision{
		{At: sec(5), Kind: "held", Session: "A", Cursor: f.ID}, {At: sec(6), Kind: "held", Session: "A", Cursor: e.ID},
		{At: sec(7), Kind: "released", Session: "A", Cursor: f.ID}, {At: sec(8), Kind: "quarantined", Session: "A", Cursor: e.ID},
	}
	lanes := lanesOf(s.h)
	for lane, want := range map[string]string{"standalone stream": "held 6s-8s", "streams of calls": "held 5s-7s"} {
		if got := lanes[lane]; !strings.Contains(got, want) || strings.Count(got, "held") != 1 {
			t.Errorf("lane %q is %s, want %s in it, and nothing else held", lane, got, want)
		}
	}
}
