package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// counters are all of them, by name.
var counters = map[string]func(*history.History) error{
	"DeadSessionEventsApplied": drop(history.DeadSessionEventsApplied),
	"RequestsToDeadSessions":   drop(history.RequestsToDeadSessions),
	"FalseDeaths":              drop(history.FalseDeaths),
	"SessionsGivenUp":          drop(history.SessionsGivenUp),
	"SessionsBegun":            drop(history.SessionsBegun),
	"Collisions":               drop(history.Collisions),
	"Detections":               drop(history.Detections),
	"PromptsForOneRequest":     drop(history.PromptsForOneRequest),
	"CallsHanging":             drop(history.CallsHanging),
	"CallsFailed":              drop(history.CallsFailed),
	"EventsLost":               drop(history.EventsLost),
	"EventsApplied":            drop(history.EventsApplied),
	"EventsReordered":          drop(history.EventsReordered),
	"SessionsDied":             drop(history.SessionsDied),
	"Reconnects":               drop(history.Reconnects),
	"CallsAnswered":            drop(history.CallsAnswered),
	"StaleAnswers":             drop(history.StaleAnswers),
	"EventsDuplicated":         drop(history.EventsDuplicated),
	"EventsDelayed":            drop(history.EventsDelayed),
}

func drop[T any](count func(*history.History) (T, error)) func(*history.History) error {
	return func(h *history.History) error {
		_, err := count(h)
		return err
	}
}

// busy is a story with something of everything, and nothing wrong with it.
func busy() (*story, int) {
	s := newStory()
	return s, s.busy("A", "B")
}

// busy tells it of two sessions.
func (s *story) busy(first, second string) (stream int) {
	s.begin(first, 1)
	stream = s.get(first, "", 1)
	s.applies(stream, s.store(first, "main of "+first, 2), 2)
	q := s.ask(first, "main of "+first, 3)
	s.prompts(stream, q, 3)
	s.calls(first, 4, 5, client.RPCError, -32601)
	s.post(first, "tools/call", 4, 200)
	s.close(stream, 10)
	e := s.store(first, "main of "+first, 11)
	s.die(first, 12)
	s.applies(s.get(first, q.ID, 13), e, 13)
	s.post(first, "tools/call", 14, 404)
	s.told(first, 14, client.ByCall, true)
	s.begin(second, 15)
	s.applies(s.get(second, "", 15), s.store(second, "main of "+second, 16), 16)
	return stream
}

func TestEveryCounterCounts(t *testing.T) {
	s, _ := busy()
	for name, count := range counters {
		if err := count(s.h); err != nil {
			t.Errorf("%s: %v, want a number", name, err)
		}
	}
	checkMeasures(t, s.h, map[string]float64{
		"dead_session_events_applied": 1, "requests_to_dead_session": 2, "detected_at_tool_call": 1, "calls_failed_rpc": 1,
		"reinitialize_collisions": 1, "sessions_begun": 2, "prompts_for_one_request": 1,
	})
}

// Each violation of an assumption keeps those from counting that take it for
// granted.
func TestAssumptions(t *testing.T) {
	const (
		dead, sent, falsely, gaveUp, begun = "DeadSessionEventsApplied", "RequestsToDeadSessions", "FalseDeaths", "SessionsGivenUp", "SessionsBegun"
		collides, detects, prompts         = "Collisions", "Detections", "PromptsForOneRequest"
		hang, fail, lost, twice, late      = "CallsHanging", "CallsFailed", "EventsLost", "EventsDuplicated", "EventsDelayed"
		applied, order, died, back         = "EventsApplied", "EventsReordered", "SessionsDied", "Reconnects"
		answered, stale                    = "CallsAnswered", "StaleAnswers"
	)
	all := []string{dead, sent, falsely, gaveUp, begun, collides, detects, prompts, hang, fail, lost, twice, late, applied, order, died, back, answered, stale}
	byClock := []string{dead, sent, falsely, gaveUp, collides, detects, prompts, lost, twice, late, applied, order}
	byStamp := []string{dead, prompts, lost, twice, late, applied, order}
	byOwner := []string{dead, sent, falsely, gaveUp, begun, collides, detects, lost, twice, late, applied, order, died}
	byWire := []string{dead, sent, collides, lost, late}
	cases := []struct {
		name    string
		violate func(s *story)
		say     string
		affects []string
	}{
		{"the oracle has forgotten something", func(s *story) { s.h.Oracle.Dropped = 3 },
			"nothing is missing: the oracle has forgotten 3 records", all},
		{"a log is full", func(s *story) { s.c.Dropped = 2 }, "nothing is missing: the log of one lacks 2 records", all},
		{"there is no end", func(s *story) { s.h.End = 0 }, "nothing is missing: the run ends at 0s after T+0", all},
		{"a client was closed", func(s *story) { s.c.Closed = new(sec(50)) }, "nothing is missing: one was closed at 50s", all},
		{"applied before it was stored", func(s *story) { s.c.Applied[0].At = sec(1.5) },
			"clocks agree: event 1 was handed to one at 1.5s, and its cause at 2s", byClock},
		{"stored before there was a session", func(s *story) { s.h.Oracle.Sessions[0].Created = sec(2.5) },
			"clocks agree: event 1 was stored at 2s, and its cause at 2.5s", byClock},
		{"connected before there was a session", func(s *story) { s.c.Began[1].At = sec(14) },
			"clocks agree: one was connected at 14s, and its cause at 15s", byClock},
		{"died before it lived", func(s *story) { s.h.Oracle.Sessions[0].Died = new(sec(0.5)) },
			"clocks agree: session … died at 500ms, and its cause at 1s", byClock},
		{"applied after the end", func(s *story) { s.c.Applied[2].At = sec(101) },
			"clocks agree: one was handed something at 1m41s, after the end", byClock},
		{"a message without a stamp", func(s *story) { s.c.Applied[0].Stamp = mcpserver.Stamp{} },
			"every stamp is known: one was handed a message without a stamp at 2s", byStamp},
		{"a stamp that nobody gave", func(s *story) { s.c.Applied[0].Stamp.Seq = 77 },
			"every stamp is known: one was handed a message at 2s with the stamp 77", byStamp},
		{"a prompt without a stamp", func(s *story) { s.c.Prompts[0].Stamp = mcpserver.Stamp{} },
			"every stamp is known: one was handed a message without a stamp at 3s", byStamp},
		{"a prompt that is no request's", func(s *story) { s.h.Oracle.Asks = nil },
			"every stamp is known: one was prompted at 3s with the stamp 2, which is that of no request", byStamp},
		{"a session on the wire that the oracle does not know", func(s *story) {
			s.c.Exchanges[len(s.c.Exchanges)-1].Session = "X"
			s.c.Exchanges[len(s.c.Exchanges)-1].Headed = nil // or else sawWire says so, too
		}, "every session is known, and one client's: one has sent a GET at 15s", byOwner},
		{"a report of a session that the oracle does not know", func(s *story) { s.c.Reports[0].Session = "X" },
			"every session is known, and one client's: one was told at 14s", byOwner},
		{"a session of two clients", func(s *story) {
			s.h.Clients = append(s.h.Clients, history.Client{Name: "two", Began: s.c.Began})
		}, "every session is known, and one client's: one and two have begun session …", byOwner},
		{"a session without an id", func(s *story) { s.c.Began[0].Session = "" },
			"every session is known, and one client's: one has begun a session without an id", byOwner},
		{"a request that the oracle did not see", func(s *story) { s.h.Oracle.Requests = s.h.Oracle.Requests[:len(s.h.Oracle.Requests)-1] },
			"the oracle saw every request on the wire: one was answered 200 at 15s to a GET", byWire},
		{"a request that the oracle saw too late", func(s *story) { s.h.Oracle.Requests[0].At = sec(1.01) },
			"the oracle saw every request on the wire: one was answered 200 at 1s to a POST initialize", byWire},
		{"a request that the oracle saw too early", func(s *story) { s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].At = sec(14.9) },
			"the oracle saw every request on the wire: one was answered 200 at 15s to a GET", byWire},
		{"one arrival for two requests", func(s *story) {
			s.post("A", "ping", 20, 404)
			s.post("A", "ping", 20, 404)
			s.h.Oracle.Requests = s.h.Oracle.Requests[:len(s.h.Oracle.Requests)-1]
		}, "the oracle saw every request on the wire: one was answered 404 at 20s to a POST ping", byWire},
		{"a request that went round the wire log", func(s *story) {
			s.h.Oracle.Requests = append(s.h.Oracle.Requests, history.Request{At: sec(40), Method: "POST", RPC: "tools/call", Session: "A", Status: 404})
		}, "the wire logs saw every request of the oracle's: a POST tools/call with session … of one came at 40s", []string{sent}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			affected := map[string]bool{}
			for _, name := range c.affects {
				affected[name] = true
				s, _ := busy()
				c.violate(s)
				t.Run(name, func(t *testing.T) { checkProblem(t, counters[name](s.h), c.say) })
			}
			for name, count := range counters {
				s, _ := busy()
				c.violate(s)
				if err := count(s.h); err != nil && !affected[name] {
					t.Errorf("%s: %v, want a number", name, err)
				}
			}
		})
	}
}

// Two readings of one clock may be a hair apart.
func TestAHairIsNoViolation(t *testing.T) {
	s, _ := busy()
	s.c.Applied[0].At -= 500 * time.Microsecond
	s.h.Oracle.Requests[0].At += 500 * time.Microsecond
	s.h.Oracle.Requests[1].At -= 500 * time.Microsecond
	for name, count := range counters {
		if err := count(s.h); err != nil {
			t.Errorf("%s: %v, want a number", name, err)
		}
	}
}

// What a load balancer answers is not the oracle's.
func TestAnswersOfALoadBalancer(t *testing.T) {
	lone := func(s *story, status int) {
		s.post("A", "tools/call", 40, status)
		s.h.Oracle.Requests = s.h.Oracle.Requests[:len(s.h.Oracle.Requests)-1]
	}
	s, _ := busy()
	lone(s, 504)
	if err := counters["RequestsToDeadSessions"](s.h); err != nil {
		t.Errorf("after a 504 of nobody knows whom: %v, want a number", err)
	}
	s, _ = busy()
	lone(s, 408)
	checkProblem(t, counters["RequestsToDeadSessions"](s.h), "was answered 408")
	s.h.Balancers = []history.Balancer{{Name: "lb", Events: []history.BalancerEvent{{At: sec(40), Kind: "refused", Status: 408}}}}
	if err := counters["RequestsToDeadSessions"](s.h); err != nil {
		t.Errorf("after a 408 of a load balancer: %v, want a number", err)
	}
	// One that was never answered may never have arrived.
	s, _ = busy()
	lone(s, 200)
	x := len(s.c.Exchanges) - 1
	s.c.Exchanges[x].Headed, s.c.Exchanges[x].Status = nil, 0
	if err := counters["RequestsToDeadSessions"](s.h); err != nil {
		t.Errorf("after a request without an answer: %v, want a number", err)
	}
}

// A request that its client has given up may still be on its way, to a load
// balancer or a server that is busy. One that was answered has arrived.
func TestArrivalAfterAClientGaveUp(t *testing.T) {
	for _, answered := range []bool{false, true} {
		s, _ := busy()
		x := s.post("A", "tools/call", 20, 404) + 1
		s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].At = sec(22)
		if !answered {
			s.c.Exchanges[x].Headed, s.c.Exchanges[x].Status = nil, 0
		}
		err := counters["RequestsToDeadSessions"](s.h)
		if answered {
			checkProblem(t, err, "the wire logs saw every request of the oracle's: a POST tools/call with session … of one came at 22s")
		} else if err != nil {
			t.Errorf("after one that was given up: %v, want a number", err)
		}
	}
}

// Of a request that its client has given up, no more than the header may have come.
func TestArrivalWithoutABody(t *testing.T) {
	for _, answered := range []bool{false, true} {
		s, _ := busy()
		x := s.post("A", "ping", 20, 404) + 1
		s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].RPC = ""
		if !answered {
			s.c.Exchanges[x].Headed, s.c.Exchanges[x].Status = nil, 0
		}
		err := counters["RequestsToDeadSessions"](s.h)
		if answered {
			checkProblem(t, err, "the wire logs saw every request of the oracle's: a POST  with session … of one came at 20s")
		} else if err != nil {
			t.Errorf("of one that was given up: %v, want a number", err)
		}
	}
}

// Of many violations only some are told.
func TestProblemsAreFew(t *testing.T) {
	s, stream := a()
	for range 50 {
		e := s.store("A", "main", 10)
		e.Stamp.Seq = -1
		s.applies(stream, e, 10)
	}
	err := counters["EventsLost"](s.h)
	checkProblem(t, err, "and 47 more like it")
	if problems := err.(history.Problems); len(problems) != 4 {
		t.Errorf("%d problems, want 4: %v", len(problems), err)
	}
}

func TestACounterThatPanicsIsAProblem(t *testing.T) {
	for _, m := range history.Measures() {
		if r := m.Of(nil); r.Problem == "" {
			t.Errorf("%s of nothing = %v, want a problem", m.Name, r.Value)
		}
	}
	checkProblem(t, counters["EventsLost"](nil), "the counter works: it panics: ")
}

func TestMeasures(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range history.Measures() {
		if seen[m.Name] || m.Name == "" || m.About == "" {
			t.Errorf("measure %+v, want a name of its own and a clause about it", m)
		}
		seen[m.Name] = true
		if got, ok := history.MeasureNamed(m.Name); !ok || got.Name != m.Name {
			t.Errorf("MeasureNamed(%q) = %v, %v, want it", m.Name, got.Name, ok)
		}
	}
	if _, ok := history.MeasureNamed("nonsense"); ok {
		t.Error(`MeasureNamed("nonsense") is there`)
	}
	s, _ := busy()
	s.h.Oracle.Dropped = 1
	m, _ := history.MeasureNamed("events_lost")
	if r := m.Of(s.h); r.Problem == "" || r.Value != 0 || fmt.Sprint(r.Name, r.Unit) != "events_lost" {
		t.Errorf("events_lost = %+v, want a problem", r)
	}
}
