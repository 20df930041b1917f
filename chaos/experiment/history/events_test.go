package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

func TestEventsLost(t *testing.T) {
	type losses = history.Losses
	cases := []struct {
		name string
		tell func(s *story, stream int)
		want losses
	}{
		{"all applied", func(s *story, stream int) { s.applies(stream, s.store("A", "main", 10), 10) }, losses{}},
		{"replayed", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			s.applies(s.get("A", "1", 30), e, 30)
		}, losses{}},
		{"a gap on an open stream", func(s *story, stream int) {
			s.store("A", "main", 10)
			s.applies(stream, s.store("A", "main", 11), 11)
		}, losses{Lost: 1}},
		{"an open stream brings nothing", func(s *story, stream int) { s.store("A", "main", 10) }, losses{Lost: 1}},
		{"a gap in a replay", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			f := s.store("A", "main", 21)
			back := s.get("A", "1", 30)
			s.applies(back, f, 30)
			s.close(back, 30.2) // It did not last, but it had got past the event.
			s.get("A", f.ID, 32)
		}, losses{Lost: 1}},
		{"a cursor that was put back for another session", func(s *story, stream int) {
			s.begin("B", 25)
			s.close(stream, 10)
			s.store("A", "main", 20)
			back := s.get("A", "", 30)
			s.get("B", "1", 30)
			s.applies(back, s.store("A", "main", 40), 40)
		}, losses{Missed: 1}},
		{"the answer of a call that was given up", func(s *story, stream int) {
			x := s.exchange("POST", "tools/call", "A", "", 20, 200)
			s.c.Exchanges[x].Type = "text/event-stream"
			s.brings(x, s.store("A", "call", 21), 21)
			s.close(x, 21)
			s.calls("A", 20, 20.9, client.TransportError, 0)
		}, losses{Missed: 1}},
		{"a replay of nothing", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			s.get("A", "1", 30)
		}, losses{Lost: 1}},
		{"brought, and never applied", func(s *story, stream int) { s.brings(stream, s.store("A", "main", 10), 10) }, losses{Lost: 1}},
		{"a cut on the way, and a replay", func(s *story, stream int) {
			e := s.store("A", "main", 10)
			s.close(stream, 10.1)
			s.applies(s.get("A", "1", 30), e, 30)
		}, losses{}},
		{"a middleware that loses the cursor", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			s.c.Exchanges[back+1].Cursor = ""
			s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].Cursor = ""
			s.applies(back, s.store("A", "main", 40), 40)
		}, losses{Lost: 1}},
		{"a client that comes back without its cursor", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			s.applies(s.get("A", "", 30), s.store("A", "main", 40), 40)
		}, losses{Missed: 1}},
		{"a cursor that the middleware has put back", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			s.c.Exchanges[back].Cursor = ""
			s.applies(back, s.store("A", "main", 40), 40)
		}, losses{Lost: 1}},
		{"the session dies while the client is away", func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			s.die("A", 25)
			s.get("A", "1", 30)
		}, losses{Missed: 1}},
		{"long before the session died", func(s *story, stream int) {
			s.store("A", "main", 20)
			s.die("A", 25)
		}, losses{Lost: 1}},
		{"an instant before the session died", func(s *story, stream int) {
			s.store("A", "main", 24.9)
			s.die("A", 25)
		}, losses{Missed: 1}},
		{"after the session died", func(s *story, stream int) {
			s.die("A", 25)
			s.store("A", "main", 26)
		}, losses{}},
		{"the application has left", func(s *story, stream int) {
			s.close(stream, 10)
			s.c.Left = []history.Began{{At: sec(15), Session: "A"}}
			s.store("A", "main", 20)
		}, losses{Missed: 1}},
		{"the client has given up", func(s *story, stream int) {
			s.close(stream, 10)
			s.told("A", 15, client.ByReconnect, false)
			s.store("A", "main", 20)
		}, losses{Missed: 1}},
		{"the stream of a call that has failed", func(s *story, stream int) {
			x := s.exchange("POST", "tools/call", "A", "", 20, 200)
			s.c.Exchanges[x].Type = "text/event-stream"
			s.applies(x, s.store("A", "call", 20), 20)
			s.store("A", "call", 21)
			s.close(x, 20.5)
			s.calls("A", 20, 20.5, client.TransportError, 0)
		}, losses{Missed: 1}},
		{"a gap before the answer of a call", func(s *story, stream int) {
			x := s.exchange("POST", "tools/call", "A", "", 20, 200)
			s.c.Exchanges[x].Type = "text/event-stream"
			s.applies(x, s.store("A", "call", 20), 20)
			s.store("A", "call", 21)
			r := s.store("A", "call", 22)
			s.brings(x, r, 22)
			s.close(x, 22)
			s.calls("A", 20, 22, client.Result, 0).Stamp = r.Stamp
		}, losses{Lost: 1}},
		{"a ping", func(s *story, stream int) {
			s.brings(stream, s.ask("A", "main", 10), 10)
			s.h.Oracle.Asks[0].Method = "ping"
		}, losses{}},
		{"a request that nobody was asked", func(s *story, stream int) { s.brings(stream, s.ask("A", "main", 10), 10) }, losses{Lost: 1}},
		{"a message without a stamp", func(s *story, stream int) {
			e := s.store("A", "main", 10)
			s.h.Oracle.Events[1].Stamp.Seq = 0
			s.brings(stream, e, 10)
		}, losses{}},
		{"a stream that nobody ever had", func(s *story, stream int) { s.store("A", "other", 10) }, losses{Missed: 1}},
		{"a session that is no client's", func(s *story, stream int) {
			s.h.Oracle.Sessions = append(s.h.Oracle.Sessions, history.Session{ID: "Z", Created: sec(1)})
			s.store("Z", "z", 10)
		}, losses{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, stream := a()
			c.tell(s, stream)
			got, err := history.EventsLost(s.h)
			checkCount(t, "EventsLost", got, err, c.want)
		})
	}
}

// What may yet come is not lost.
func TestEventsLostWantsTime(t *testing.T) {
	cases := map[string]func(s *story, stream int){
		"stored a moment before the end": func(s *story, stream int) { s.store("A", "main", 99.8) },
		"cut a moment before the end": func(s *story, stream int) {
			s.store("A", "main", 99.8)
			s.close(stream, 99.9)
		},
		"brought a moment before the end": func(s *story, stream int) {
			s.brings(stream, s.store("A", "main", 99), 99.8)
		},
		"the client is away at the end": func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
		},
		"the client is back a moment before the end": func(s *story, stream int) {
			s.close(stream, 10)
			s.store("A", "main", 20)
			s.get("A", "1", 99.8)
		},
	}
	for name, tell := range cases {
		t.Run(name, func(t *testing.T) {
			s, stream := a()
			tell(s, stream)
			_, err := history.EventsLost(s.h)
			checkProblem(t, err, "the run was long enough: event 2 of session …")
		})
	}
}

func TestEventsAppliedAndReordered(t *testing.T) {
	s, stream := a()
	e, f := s.store("A", "main", 10), s.store("A", "main", 11)
	g := s.store("A", "call", 12)
	s.applies(stream, f, 12)
	s.applies(stream, e, 12) // after a later one
	s.applies(stream, g, 13) // the first of another stream
	s.applies(stream, f, 14) // once more, which is no new disorder
	s.applies(stream, e, 15)
	n, err := history.EventsApplied(s.h)
	checkCount(t, "EventsApplied", n, err, 6)
	n, err = history.EventsReordered(s.h)
	checkCount(t, "EventsReordered", n, err, 1)
	s.die("A", 12) // What was handed on then, was a dead session's.
	n, err = history.EventsApplied(s.h)
	checkCount(t, "EventsApplied", n, err, 1)
	n, err = history.EventsReordered(s.h)
	checkCount(t, "EventsReordered", n, err, 0)
}

func TestEventsDuplicated(t *testing.T) {
	s, stream := a()
	e := s.store("A", "main", 10)
	s.applies(stream, e, 10)
	s.close(stream, 20)
	for _, at := range []float64{30, 40} {
		back := s.get("A", "1", at)
		s.applies(back, e, at)
		s.close(back, at+1)
	}
	n, err := history.EventsDuplicated(s.h)
	checkCount(t, "EventsDuplicated", n, err, 2)
	s.die("A", 35) // The last one is a dead session's.
	n, err = history.EventsDuplicated(s.h)
	checkCount(t, "EventsDuplicated", n, err, 1)
}

func TestEventsDelayed(t *testing.T) {
	cases := []struct {
		name    string
		tell    func(s *story, stream int)
		delayed int
		max     float64
	}{
		{"at once", func(s *story, stream int) { s.applies(stream, s.store("A", "main", 10), 10) }, 0, 0},
		{"a little late", func(s *story, stream int) { s.applies(stream, s.store("A", "main", 10), 10.4) }, 0, 0.4},
		{"late", func(s *story, stream int) { s.applies(stream, s.store("A", "main", 10), 13) }, 1, 3},
		{"the client was away", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			s.applies(s.get("A", "1", 30), e, 30.25)
		}, 0, 0.25},
		{"the probe took its time", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			x := s.post("A", "ping", 30, 200)
			s.c.Exchanges = slices.Delete(s.c.Exchanges, x, x+1) // Nobody asked for it at the edge.
			s.c.Exchanges[x].Headed, s.c.Exchanges[x].Over = new(sec(35)), new(sec(35))
			s.applies(back, e, 35.25)
		}, 0, 0.25},
		{"the GET was tried again", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			again := s.get("A", "1", 33)
			s.c.Exchanges = slices.Delete(s.c.Exchanges, again, again+1)
			s.applies(back, e, 33.25)
		}, 0, 0.25},
		{"late after the probe", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			s.post("A", "ping", 30, 200)
			s.applies(back, e, 32)
		}, 1, 2},
		{"a duplicate is not late", func(s *story, stream int) {
			e := s.store("A", "main", 10)
			s.applies(stream, e, 10)
			s.close(stream, 20)
			s.applies(s.get("A", "1", 30), e, 30)
		}, 0, 0},
		{"nor once more on the same stream", func(s *story, stream int) {
			e := s.store("A", "main", 10)
			s.applies(stream, e, 10)
			s.applies(stream, e, 15)
		}, 0, 0},
		{"a result is a call's", func(s *story, stream int) {
			x := s.exchange("POST", "tools/call", "A", "", 20, 200)
			r := s.store("A", "call", 20)
			s.brings(x, r, 20)
			s.calls("A", 20, 25, client.Result, 0).Stamp = r.Stamp
		}, 0, 0},
		{"a probe does not stand in the way of a call's stream", func(s *story, stream int) {
			x := s.exchange("POST", "tools/call", "A", "", 20, 200)
			e := s.store("A", "call", 21)
			s.post("A", "ping", 23, 200)
			s.applies(x, e, 23)
		}, 1, 2},
		{"a prompt", func(s *story, stream int) { s.prompts(stream, s.ask("A", "main", 10), 12) }, 1, 2},
		{"another's ping", func(s *story, stream int) {
			s.close(stream, 10)
			e := s.store("A", "main", 20)
			back := s.get("A", "1", 30)
			s.begin("B", 31.5)
			s.post("B", "ping", 32, 200)
			s.applies(back, e, 32)
		}, 1, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, stream := a()
			c.tell(s, stream)
			got, err := history.EventsDelayed(s.h)
			checkCount(t, "EventsDelayed", got, err, history.Delays{Delayed: c.delayed, Max: sec(c.max)})
		})
	}
	t.Run("soon is the run's", func(t *testing.T) {
		s, stream := a()
		s.applies(stream, s.store("A", "main", 10), 13)
		s.h.Soon = 5 * time.Second
		got, err := history.EventsDelayed(s.h)
		checkCount(t, "EventsDelayed", got, err, history.Delays{Max: sec(3)})
	})
}
