package history

import (
	"net/http"
	"slices"
	"time"
)

// Losses are events that were stored while their session lived and that the
// application was never handed.
type Losses struct {
	// Lost should have come: the client had the stream open for Soon, or came back
	// with a cursor before the event and got later ones, or was brought the event
	// itself.
	Lost int `json:"lost"`
	// Missed is what the protocol lets a client lose: it came back without a
	// cursor, did not come back before its session was over, or had given up the
	// call whose stream it was.
	Missed int `json:"missed"`
}

// EventsLost counts events of living sessions that applications were never
// handed. What is stored, or asked for again, within Soon of the end of the run
// might yet come.
//
// A ping is the client library's own and is never handed on. A message without a
// stamp, which is an error response, is not counted.
func EventsLost(h *History) (Losses, error) {
	return count(h, []assumption{complete, clocks, stamped, owned, sawWire}, func(x *index) (all Losses, _ Problems) {
		early := &findings{assumption: "the run was long enough"}
		for i := range x.Clients {
			x.lossesOf(i, &all, early)
		}
		return all, early.problems()
	})
}

func (x *index) lossesOf(i int, all *Losses, early *findings) {
	c := &x.Clients[i]
	got := map[int]bool{}
	for _, h := range x.handedTo(i) {
		got[h.seq] = true
	}
	conns := x.connsOf(i)
	for place, e := range x.Oracle.Events {
		owner, ok := x.owner[e.Session]
		if !ok || owner != i || !e.Alive || e.Stamp.Seq == 0 || got[e.Stamp.Seq] {
			continue
		}
		if ask, ok := x.asks[e.Stamp.Seq]; ok && x.Oracle.Asks[ask].Method == "ping" {
			continue
		}
		switch x.fate(c, conns, e, place) {
		case fateLost:
			all.Lost++
		case fateMissed:
			all.Missed++
		case fateOpen:
			early.add("event %s of session %s was stored at %v, and %s may yet get it", e.ID, short(e.Session), e.At, c.Name)
		}
	}
}

// fate is what became of an event that was never handed on.
type fate uint8

const (
	fateMissed fate = iota
	fateLost
	fateOpen
)

func (x *index) fate(c *Client, conns []conn, e Event, place int) fate {
	horizon := x.horizon(c, e)
	standalone, back, open := false, false, false
	for _, k := range conns {
		ofStream := k.stream != "" && k.stream == e.Stream
		standalone = standalone || ofStream && k.cursorless
		back = back || ofStream && k.until(x.End) > e.At
		if !k.brings(e, place) {
			continue
		}
		at, brought := k.delivered(e.ID)
		last := min(k.until(x.End), horizon)
		from := max(k.headed, e.At)
		switch {
		case x.overtaken(k, place, horizon):
			return fateLost
		case brought && horizon-at > x.soon():
			// The rest of a call's stream is nobody's when the call is over.
			if k.Method == http.MethodGet && standaloneOf(conns, e) {
				return fateLost
			}
		case brought:
			open = true
		case last-from > x.soon():
			return fateLost
		case last == x.End:
			open = true
		}
	}
	if horizon == x.End && (open || x.End-e.At < x.soon() || standalone && !back) {
		return fateOpen
	}
	return fateMissed
}

// standaloneOf is whether the event is of a standalone stream.
func standaloneOf(conns []conn, e Event) bool {
	return slices.ContainsFunc(conns, func(k conn) bool { return k.cursorless && k.stream == e.Stream })
}

// horizon is until when an event could have been handed on: the death of its
// session, the moment when the application left it or was told that it is over, or
// the end.
func (x *index) horizon(c *Client, e Event) time.Duration {
	horizon := x.End
	if life, ok := x.life(e.Session, e.At); ok && life.Died != nil {
		horizon = min(horizon, *life.Died)
	}
	for _, r := range c.Reports {
		if r.Session == e.Session {
			horizon = min(horizon, r.At)
		}
	}
	for _, l := range c.Left {
		if l.Session == e.Session {
			horizon = min(horizon, l.At)
		}
	}
	return horizon
}

// EventsApplied counts the notifications that applications were handed while
// their session lived.
func EventsApplied(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, stamped, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			for _, a := range c.Applied {
				if x.aliveAt(a.Stamp.Session, a.At) {
					n++
				}
			}
		}
		return n, nil
	})
}

// EventsReordered counts the notifications that an application was handed, while
// their session lived, the first time, after a later one of the same stream.
func EventsReordered(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, stamped, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			latest, seen := map[string]int{}, map[int]bool{}
			for _, a := range c.Applied {
				place := x.bySeq[a.Stamp.Seq]
				e := x.Oracle.Events[place]
				if seen[place] || !x.aliveAt(e.Session, a.At) {
					continue
				}
				seen[place] = true
				if last, ok := latest[e.Stream]; ok && place < last {
					n++
				}
				latest[e.Stream] = max(latest[e.Stream], place)
			}
		}
		return n, nil
	})
}

// EventsDuplicated counts how often an application was handed a notification
// that it had been handed before, while its session lived. For requests there is
// [PromptsForOneRequest].
func EventsDuplicated(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, stamped, owned}, func(x *index) (n int, _ Problems) {
		for i := range x.Clients {
			times := map[int]int{}
			for _, a := range x.Clients[i].Applied {
				if e, ok := x.event(a.Stamp.Seq); ok && !x.aliveAt(e.Session, a.At) {
					continue
				}
				if times[a.Stamp.Seq]++; times[a.Stamp.Seq] > 1 {
					n++
				}
			}
		}
		return n, nil
	})
}

// Delays is how late events were, in the process's time.
type Delays struct {
	// Delayed counts those that were later than Soon.
	Delayed int `json:"delayed"`
	// Max is the longest delay, of those that are not counted, too.
	Max time.Duration `json:"max_ns"`
}

// EventsDelayed counts notifications and prompts that came later than Soon after
// nothing stood in their way any more. What may stand in an event's way is that
// it is not stored yet, that its client is not back yet, and, on a connection
// that the client has come back on, the GETs and the pings on the wire from then
// on: the middleware's attempts to get a replay, and its probes.
func EventsDelayed(h *History) (Delays, error) {
	return count(h, []assumption{complete, clocks, stamped, owned, sawWire}, func(x *index) (d Delays, _ Problems) {
		for i := range x.Clients {
			by, first := x.bearersOf(i), map[int]bool{}
			for _, one := range x.handedTo(i) {
				e, ok := x.event(one.seq)
				b, brought := by.of(e, one.at)
				if !ok || !brought || one.what == handedResult || first[one.seq] {
					continue
				}
				first[one.seq] = true // A duplicate is late by what it is.
				late := one.at - x.free(&x.Clients[i], e, b, one.at)
				d.Max = max(d.Max, late)
				if late > x.soon() {
					d.Delayed++
				}
			}
		}
		return d, nil
	})
}

// free is when nothing stood in an event's way any more.
func (x *index) free(c *Client, e Event, b bearer, by time.Duration) time.Duration {
	free := e.At
	if b.exchange.Method != http.MethodGet {
		return free
	}
	for n := range c.Exchanges {
		w := &c.Exchanges[n]
		ours := w.wire() && w.Session == e.Session && (w.Method == http.MethodGet || w.RPC == "ping")
		if ours && w.At >= b.exchange.At && w.At <= by && w.Headed != nil && *w.Headed <= by {
			free = max(free, *w.Headed)
		}
	}
	return free
}

// StreamsCut counts the responses, and in TCP mode the connections, that a load
// balancer or a link has broken off.
func StreamsCut(h *History) (int, error) {
	return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
		for _, b := range x.Balancers {
			for _, e := range b.Events {
				if e.Kind == "cut" {
					n++
				}
			}
		}
		return n, nil
	})
}
