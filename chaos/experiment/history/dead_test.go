package history_test

import (
	"slices"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestDeadSessionEventsApplied(t *testing.T) {
	type counts = history.DeadEvents
	cases := []struct {
		name string
		tell func(s *story, stream int)
		want counts
	}{
		{"a session that lives", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			s.applies(s.get("A", "1", 30), e, 30)
		}, counts{}},
		{"a replay after the death", func(s *story, stream int) {
			s.close(stream, 10)
			e, f := s.store("A", "main", 20), s.store("A", "main", 21)
			s.die("A", 25)
			back := s.get("A", "1", 30)
			s.applies(back, e, 30)
			s.applies(back, f, 30)
		}, counts{Notifications: 2}},
		{"a replay that the death overtakes", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			s.die("A", 30.5)
			s.applies(back, e, 30.5)
		}, counts{Notifications: 1}},
		{"a replay before the death", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			s.applies(s.get("A", "1", 30), e, 30)
			s.die("A", 31)
		}, counts{}},
		{"on its way when the session died", func(s *story, stream int) {
			e := s.store("A", "main", 20)
			s.die("A", 20.001)
			s.applies(stream, e, 20.002)
		}, counts{}},
		{"stored after the death", func(s *story, stream int) {
			s.die("A", 20)
			s.applies(stream, s.store("A", "main", 21), 21)
		}, counts{Notifications: 1}},
		{"a question and a result", func(s *story, stream int) {
			s.close(stream, 10)
			q, r := s.ask("A", "call", 20), s.store("A", "call", 21)
			s.die("A", 25)
			back := s.get("A", "1", 30)
			s.prompts(back, q, 30)
			s.brings(back, r, 30)
			s.calls("A", 3, 30, client.Result, 0).Stamp = r.Stamp
		}, counts{Prompts: 1, Results: 1}},
		{"a result that is in no log", func(s *story, stream int) {
			s.die("A", 25)
			s.calls("A", 26, 27, client.Result, 0).Stamp = mcpserver.Stamp{Session: "A", Seq: 99}
		}, counts{}},
		{"had already, and once more after the death", func(s *story, stream int) {
			e := s.store("A", "main", 20)
			s.applies(stream, e, 20)
			s.close(stream, 21)
			s.die("A", 25)
			s.applies(s.get("A", "1", 30), e, 30)
		}, counts{Notifications: 1}},
		{"brought, and not applied", func(s *story, stream int) {
			e := s.store("A", "main", 20)
			s.die("A", 25)
			s.brings(s.get("A", "1", 30), e, 30)
		}, counts{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, stream := a()
			c.tell(s, stream)
			got, err := history.DeadSessionEventsApplied(s.h)
			checkCount(t, "DeadSessionEventsApplied", got, err, c.want)
		})
	}
}

// A session that was adopted lives twice. What its first life left is dead in
// its second.
func TestDeadEventsOfAnEarlierLife(t *testing.T) {
	s, stream := a()
	s.close(stream, 10)
	e := s.store("A", "main", 20)
	s.die("A", 25)
	s.h.Oracle.Sessions = append(s.h.Oracle.Sessions, history.Session{ID: "A", Created: sec(28), Adopted: true})
	f := s.store("A", "main", 29)
	back := s.get("A", "1", 30)
	s.applies(back, e, 30)
	s.applies(back, f, 30)
	got, err := history.DeadSessionEventsApplied(s.h)
	checkCount(t, "DeadSessionEventsApplied", got, err, history.DeadEvents{Notifications: 1})
	s.post("A", "ping", 26, 404)
	sent, err := history.RequestsToDeadSessions(s.h)
	if err != nil || len(sent) != 1 || sent[0].Requests != 1 {
		t.Errorf("RequestsToDeadSessions = %+v, %v, want one, between the lives", sent, err)
	}
}

func TestRequestsToDeadSessions(t *testing.T) {
	s, stream := a()
	// initialize sets out before there is a session.
	s.c.Exchanges[0].At, s.c.Exchanges[1].At = sec(0.9), sec(0.9)
	s.begin("Z", 18)
	s.told("Z", 18, client.ByCall, false) // says nothing of A
	s.post("A", "tools/call", 19, 200)
	s.die("A", 20)
	s.close(stream, 25)
	s.close(s.get("A", "1", 26), 26)
	s.post("A", "ping", 26, 404)
	s.told("A", 27, client.ByReconnect, true)
	s.post("A", "tools/call", 28, 404)
	s.post("A", "tools/call", 29, 404)
	s.close(s.exchange("DELETE", "", "A", "", 30, 404), 30)
	s.begin("B", 31)
	s.post("B", "tools/call", 32, 200)
	// Only the wire counts: a fenced request has none there.
	fenced := s.post("A", "tools/call", 40, 404)
	s.c.Exchanges = slices.Delete(s.c.Exchanges, fenced+1, fenced+2)
	s.h.Oracle.Requests = s.h.Oracle.Requests[:len(s.h.Oracle.Requests)-1]

	got, err := history.RequestsToDeadSessions(s.h)
	if err != nil || len(got) != 1 {
		t.Fatalf("RequestsToDeadSessions = %+v, %v, want one session", got, err)
	}
	want := history.DeadSession{Client: "one", Session: "A", Requests: 5, GETs: 1, Probes: 1, Deletes: 1, Told: 3}
	checkCount(t, "RequestsToDeadSessions", got[0], err, want)
	s.die("B", 50)
	s.post("B", "tools/call", 51, 404)
	checkMeasures(t, s.h, map[string]float64{
		"requests_to_dead_session": 6, "requests_to_one_dead_session": 5, "requests_after_detection": 3,
	})
}

// The death's instant is dead already: in virtual time much happens at once.
func TestRequestAtTheInstantOfDeath(t *testing.T) {
	s, _ := a()
	s.die("A", 20)
	s.post("A", "tools/call", 20, 404)
	got, err := history.RequestsToDeadSessions(s.h)
	if err != nil || len(got) != 1 || got[0].Requests != 1 {
		t.Errorf("RequestsToDeadSessions = %+v, %v, want one request", got, err)
	}
}

func TestFalseDeaths(t *testing.T) {
	s, _ := a()
	s.told("A", 10, client.ByReconnect, true) // lives
	s.begin("B", 11)
	s.die("B", 20)
	s.told("B", 21, client.ByCall, true) // does not
	s.begin("C", 22)
	s.told("C", 30, client.ByReconnect, false) // lives, and its client only gave up
	s.begin("D", 31)
	s.die("D", 39) // by the client's own DELETE, as the last thing before it says so
	s.h.Oracle.Sessions[3].Why = mcpserver.WhyDeleted
	s.told("D", 40, client.ByReconnect, false)
	s.begin("E", 41)
	s.die("E", 49)
	s.told("E", 50, client.ByReconnect, false) // dead, and its client does not know
	n, err := history.FalseDeaths(s.h)
	checkCount(t, "FalseDeaths", n, err, 1)
	n, err = history.SessionsGivenUp(s.h)
	checkCount(t, "SessionsGivenUp", n, err, 2)
	n, err = history.SessionsBegun(s.h)
	checkCount(t, "SessionsBegun", n, err, 5)
}

func TestCollisions(t *testing.T) {
	cases := []struct {
		name string
		tell func(s *story, stream int)
		want int
	}{
		{"the old stream is open", func(s *story, stream int) { s.begin("B", 30) }, 1},
		{"the old stream is closed", func(s *story, stream int) {
			s.close(stream, 30)
			s.begin("B", 30)
		}, 0},
		{"a call is on the wire", func(s *story, stream int) {
			s.close(stream, 20)
			s.close(s.exchange("POST", "tools/call", "A", "", 29, 404), 31)
			s.begin("B", 30)
		}, 1},
		{"a call sets out while initialize is on the wire", func(s *story, stream int) {
			s.close(stream, 20)
			s.begin("B", 30)
			n := len(s.c.Exchanges) - 1
			s.c.Exchanges[n].Headed, s.c.Exchanges[n].Over = new(sec(32)), new(sec(32))
			s.post("A", "tools/call", 31, 404)
		}, 1},
		{"a call after it", func(s *story, stream int) {
			s.close(stream, 20)
			s.begin("B", 30)
			s.post("A", "tools/call", 31, 404)
		}, 0},
		{"a call sets out in the same instant", func(s *story, stream int) {
			s.close(stream, 20)
			s.close(s.exchange("POST", "tools/call", "A", "", 30, 404), 31)
			s.begin("B", 30)
		}, 1},
		{"the new session's own stream", func(s *story, stream int) {
			s.close(stream, 20)
			s.begin("B", 30)
			s.get("B", "", 30)
		}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, stream := a()
			c.tell(s, stream)
			n, err := history.Collisions(s.h)
			checkCount(t, "Collisions", n, err, c.want)
		})
	}
}

func TestDetections(t *testing.T) {
	cases := []struct {
		name string
		tell func(s *story)
		want []history.Detection
	}{
		{"at a reconnect", func(s *story) {
			s.die("A", 20)
			s.told("A", 25, client.ByReconnect, true)
		}, []history.Detection{{Client: "one", Session: "A", Died: sec(20), Place: history.AtReconnect, After: sec(5)}}},
		{"at a call", func(s *story) {
			s.die("A", 20)
			s.told("A", 50, client.ByCall, true)
		}, []history.Detection{{Client: "one", Session: "A", Died: sec(20), Place: history.AtCall, After: sec(30)}}},
		{"never", func(s *story) { s.die("A", 20) },
			[]history.Detection{{Client: "one", Session: "A", Died: sec(20), Place: history.AtNever}}},
		{"a session that lives", func(s *story) {}, nil},
		{"deleted by its client", func(s *story) {
			s.die("A", 20)
			s.h.Oracle.Sessions[0].Why = mcpserver.WhyDeleted
		}, nil},
		{"left by the application", func(s *story) {
			s.c.Left = []history.Began{{At: sec(15), Session: "A"}}
			s.die("A", 20)
		}, nil},
		{"left long after it died", func(s *story) {
			s.c.Left = []history.Began{{At: sec(2), Session: "Z"}, {At: sec(50), Session: "A"}}
			s.die("A", 20)
		}, []history.Detection{{Client: "one", Session: "A", Died: sec(20), Place: history.AtNever}}},
		{"left before it died", func(s *story) {
			s.told("A", 15, client.ByReconnect, true)
			s.begin("B", 15)
			s.die("A", 20)
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, _ := a()
			c.tell(s)
			got, err := history.Detections(s.h)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("Detections = %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	t.Run("the run is too short", func(t *testing.T) {
		s, _ := a()
		s.die("A", 99.9)
		_, err := history.Detections(s.h)
		checkProblem(t, err, "the run was long enough: session … of one died")
	})
}

// The delay is in the experiment's own time.
func TestDetectionDelayIsScaled(t *testing.T) {
	s, _ := a()
	s.h.Scale = 60
	s.die("A", 20)
	s.told("A", 22, client.ByCall, true)
	s.begin("C", 23)
	s.die("C", 24)
	s.told("C", 25, client.ByCall, true)
	checkMeasures(t, s.h, map[string]float64{
		"detection_delay": 120, "detected_at_tool_call": 2, "detected_at_reconnect": 0, "detected_never": 0,
	})
	place, err := history.DetectedAt(s.h)
	checkCount(t, "DetectedAt", place, err, history.AtCall)
	s.begin("B", 30)
	s.die("B", 40)
	place, err = history.DetectedAt(s.h)
	checkCount(t, "DetectedAt", place, err, history.AtMixed)
}

func TestNoDeathIsDetected(t *testing.T) {
	s, _ := a()
	place, err := history.DetectedAt(s.h)
	checkCount(t, "DetectedAt", place, err, history.AtNoDeath)
}

func TestSessionsDiedAndReconnects(t *testing.T) {
	s, stream := a()
	s.close(stream, 10)
	s.close(s.get("A", "1", 20), 21) // a reconnect
	s.close(s.get("A", "", 30), 31)  // another
	s.begin("B", 40)
	s.get("B", "", 40) // none
	s.die("A", 50)
	s.begin("C", 60)
	s.die("C", 70)
	s.h.Oracle.Sessions[2].Why = mcpserver.WhyDeleted
	n, err := history.SessionsDied(s.h)
	checkCount(t, "SessionsDied", n, err, 2)
	n, err = history.Reconnects(s.h)
	checkCount(t, "Reconnects", n, err, 2)
}
