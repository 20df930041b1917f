package history_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

// truth is what a simulated run knows of itself, as it happens.
type truth struct {
	dead, sent, lost, missed, twice, late, falsely, begun, collides, failed, hanging, prompted int
	reconnect, call, never                                                                     int
}

// simulated is a run that writes its own story, and the truth about it, one
// second a step. It goes its own way about everything: it never asks what the
// package under test thinks.
type simulated struct {
	*rapid.T
	*story
	truth
	now     float64
	session string
	alive   bool
	stream  int             // the exchange of the open stream, -1 if it is closed
	cursor  string          // the id of the last event that came
	last    *history.Event  // that event
	pending []history.Event // stored while the client was away, the session alive
	asked   map[int]int     // prompts, by stamp
}

func simulate(t *rapid.T) *simulated {
	w := &simulated{T: t, story: newStory(), asked: map[int]int{}, stream: -1}
	w.begin()
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		w.step()
		w.now++
	}
	w.finish()
	return w
}

func (w *simulated) chance(what string) bool { return rapid.Bool().Draw(w.T, what) }

func (w *simulated) begin() {
	w.now++
	w.begun++
	w.session = fmt.Sprint("S", w.begun)
	w.story.begin(w.session, w.now)
	w.alive, w.cursor, w.last, w.pending = true, "", nil, nil
	w.stream = w.get(w.session, "", w.now)
	w.applies(w.stream, w.note(), w.now)
	w.now++
}

// note stores an event that the client will have.
func (w *simulated) note() history.Event {
	e := w.store(w.session, "main of "+w.session, w.now)
	w.cursor, w.last = e.ID, &e
	return e
}

func (w *simulated) step() {
	switch action := rapid.IntRange(0, 11).Draw(w.T, "action"); {
	case action <= 2:
		w.emit()
	case action == 3 && w.stream >= 0:
		w.close(w.stream, w.now)
		w.stream = -1
	case action <= 5 && w.stream < 0:
		w.comeBack()
	case action == 6 && w.alive:
		w.die(w.session, w.now)
		w.alive = false
	case action == 7:
		w.oneCall()
	case action == 8 && !w.alive:
		n := rapid.IntRange(1, 3).Draw(w.T, "requests")
		for range n {
			w.post(w.session, "tools/call", w.now, 404)
		}
		w.sent += n
	case action == 9:
		w.ask()
	case action == 10 && (!w.alive || w.chance("falsely")):
		w.tell()
	}
}

// emit has the server store an event. With the stream open, it comes, or comes
// late, or never.
func (w *simulated) emit() {
	switch {
	case w.stream < 0 && w.alive:
		w.pending = append(w.pending, w.store(w.session, "main of "+w.session, w.now))
	case w.stream < 0:
	case !w.alive:
		w.applies(w.stream, w.note(), w.now)
		w.dead++
	default:
		switch rapid.IntRange(0, 4).Draw(w.T, "fate") {
		case 0:
			w.store(w.session, "main of "+w.session, w.now)
			w.lost++
		case 1:
			w.applies(w.stream, w.note(), w.now+0.75)
			w.late++
		default:
			w.applies(w.stream, w.note(), w.now)
		}
	}
}

// comeBack opens the stream again, with the cursor or without.
func (w *simulated) comeBack() {
	guarded := !w.alive && w.chance("guarded")
	if !w.alive {
		w.sent++
	}
	if w.cursor == "" || w.chance("without cursor") {
		// A client that has lost its cursor gets no other before the next event.
		w.stream = w.get(w.session, "", w.now)
		w.missed += len(w.pending)
		w.pending, w.cursor, w.last = nil, "", nil
		return
	}
	w.stream = w.get(w.session, w.cursor, w.now)
	if guarded {
		w.missed += len(w.pending)
		w.pending = nil
		w.close(w.stream, w.now)
		w.stream = -1
		return
	}
	if w.alive && w.last != nil && w.chance("inclusive") {
		w.applies(w.stream, *w.last, w.now)
		w.twice++
	}
	for _, e := range w.pending {
		switch {
		case w.alive && w.chance("dropped"):
			w.lost++
			continue
		case !w.alive:
			w.dead++
		}
		w.applies(w.stream, e, w.now)
		w.cursor, w.last = e.ID, &e
	}
	w.pending = nil
}

func (w *simulated) oneCall() {
	how := rapid.SampledFrom([]client.Outcome{client.Result, client.RPCError, client.TransportError, client.ToolError, ""}).Draw(w.T, "outcome")
	k := w.calls(w.session, w.now, w.now+0.5, how, -32603)
	switch how {
	case client.Result:
		k.Stamp = w.store(w.session, fmt.Sprint("call ", k.Ref), w.now).Stamp
		if !w.alive {
			w.dead++
		}
	case "":
		w.hanging++
	default:
		w.failed++
	}
}

// ask has the server ask the person once, and the client show it some times.
func (w *simulated) ask() {
	if w.stream < 0 || !w.alive {
		return
	}
	e := w.story.ask(w.session, "main of "+w.session, w.now)
	w.cursor, w.last = e.ID, nil
	times := rapid.IntRange(1, 3).Draw(w.T, "prompts")
	w.prompted = max(w.prompted, times)
	for range times {
		w.prompts(w.stream, e, w.now)
	}
}

// tell tells the application that its session is over, rightly or not, and has
// it begin another.
func (w *simulated) tell() {
	by := client.ByCall
	if w.chance("at a reconnect") {
		by = client.ByReconnect
	}
	w.told(w.session, w.now, by, true)
	switch {
	case w.alive:
		w.falsely++
	case by == client.ByCall:
		w.call++
	default:
		w.reconnect++
	}
	w.missed += len(w.pending)
	if w.stream >= 0 {
		at := w.now + 0.25
		if w.chance("collides") {
			at = w.now + 2
			w.collides++
		}
		w.close(w.stream, at)
	}
	w.begin()
}

// finish leaves nothing open.
func (w *simulated) finish() {
	if w.stream < 0 && w.alive {
		w.comeBack()
	}
	if !w.alive {
		w.never++
		w.missed += len(w.pending)
	}
	w.h.End = sec(w.now + 10)
}

// The counters count what the simulator knows, and count the same over what
// leaves the house.
func TestCountersAgreeWithASimulator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := simulate(t)
		data, err := json.Marshal(w.h)
		if err != nil {
			t.Fatal(err)
		}
		read := new(history.History)
		if err := json.Unmarshal(data, read); err != nil {
			t.Fatal(err)
		}
		for _, h := range []*history.History{w.h, read} {
			want := map[string]int{
				"dead_session_events_applied": w.dead, "requests_to_dead_session": w.sent, "events_lost": w.lost,
				"events_missed": w.missed, "events_duplicated": w.twice, "events_delayed": w.late, "false_deaths": w.falsely,
				"sessions_begun": w.begun, "reinitialize_collisions": w.collides, "calls_failed": w.failed,
				"calls_hanging": w.hanging, "prompts_for_one_request": w.prompted,
				"detected_at_reconnect": w.reconnect, "detected_at_tool_call": w.call, "detected_never": w.never,
			}
			for name, n := range want {
				m, _ := history.MeasureNamed(name)
				if got := m.Of(h); got.Problem != "" || got.Value != float64(n) {
					t.Errorf("%s = %v (%s), want %d", name, got.Value, got.Problem, n)
				}
			}
		}
	})
}
