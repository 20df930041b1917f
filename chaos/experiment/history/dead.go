package history

import (
	"net/http"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// DeadEvents counts what applications were handed of dead sessions: see the
// package comment.
type DeadEvents struct {
	Notifications int `json:"notifications"`
	Prompts       int `json:"prompts"` // put to the person
	Results       int `json:"results"` // of calls
}

// Total is all of them.
func (d DeadEvents) Total() int { return d.Notifications + d.Prompts + d.Results }

// DeadSessionEventsApplied counts the events of dead sessions that applications
// were handed.
func DeadSessionEventsApplied(h *History) (DeadEvents, error) {
	return count(h, []assumption{complete, clocks, stamped, owned, sawWire}, func(x *index) (n DeadEvents, _ Problems) {
		for i := range x.Clients {
			by := x.bearersOf(i)
			for _, one := range x.handedTo(i) {
				if !x.harmful(one, by) {
					continue
				}
				switch one.what {
				case handedNotification:
					n.Notifications++
				case handedPrompt:
					n.Prompts++
				case handedResult:
					n.Results++
				}
			}
		}
		return n, nil
	})
}

// DeadSession is what one client has sent with the id of one session that was
// dead.
type DeadSession struct {
	Client  string `json:"client"`
	Session string `json:"session"`
	// Requests reached the wire at or after the death. Of these, GETs, Probes (a
	// ping, whose the middleware's are) and Deletes are counted apart, and those
	// that were sent after the application had been told.
	Requests int `json:"requests"`
	GETs     int `json:"gets"`
	Probes   int `json:"probes"`
	Deletes  int `json:"deletes"`
	Told     int `json:"told"`
}

// RequestsToDeadSessions counts what was sent with the ids of dead sessions, by
// client and session, those without a request included: each session of each
// client that has died is in it, in the order in which they were begun. A session
// that was adopted later is dead between its lives.
func RequestsToDeadSessions(h *History) ([]DeadSession, error) {
	return count(h, []assumption{complete, clocks, owned, sawWire, sawArrival}, func(x *index) ([]DeadSession, Problems) {
		var all []DeadSession
		for i := range x.Clients {
			c := &x.Clients[i]
			for _, b := range c.Began {
				if !x.hasDied(b.Session) {
					continue
				}
				all = append(all, x.sentDead(c, b.Session))
			}
		}
		return all, nil
	})
}

func (x *index) sentDead(c *Client, session string) DeadSession {
	d := DeadSession{Client: c.Name, Session: session}
	told := x.End + 1
	for _, r := range c.Reports {
		if r.Session == session && r.At < told {
			told = r.At
		}
	}
	for n := range c.Exchanges {
		e := &c.Exchanges[n]
		if !e.wire() || e.Session != session || !x.deadAt(session, e.At) {
			continue
		}
		d.Requests++
		switch {
		case e.Method == http.MethodGet:
			d.GETs++
		case e.Method == http.MethodDelete:
			d.Deletes++
		case e.RPC == "ping":
			d.Probes++
		}
		if e.At > told {
			d.Told++
		}
	}
	return d
}

// FalseDeaths counts how often an application was told that the server does not
// know a session which the oracle says lived.
func FalseDeaths(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			for _, r := range c.Reports {
				if r.Dead && x.aliveAt(r.Session, r.At) {
					n++
				}
			}
		}
		return n, nil
	})
}

// SessionsGivenUp counts how often a client gave up a session that lived, for
// another reason than that the server does not know it. go-sdk deletes such a
// session before it says so.
func SessionsGivenUp(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			for _, r := range c.Reports {
				life, _ := x.life(r.Session, r.At)
				if !r.Dead && (x.aliveAt(r.Session, r.At) || life.Why == mcpserver.WhyDeleted) {
					n++
				}
			}
		}
		return n, nil
	})
}

// SessionsBegun counts the sessions that clients have begun, the first ones
// included.
func SessionsBegun(h *History) (int, error) {
	return count(h, []assumption{complete, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			n += len(c.Began)
		}
		return n, nil
	})
}

// SessionsDied counts the sessions of clients that have died, of what cause ever.
func SessionsDied(h *History) (int, error) {
	return count(h, []assumption{complete, owned}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			for _, b := range c.Began {
				if x.hasDied(b.Session) {
					n++
				}
			}
		}
		return n, nil
	})
}

// Reconnects counts the GETs of clients for a stream that they had before: with a
// cursor, or not the first one of their session.
func Reconnects(h *History) (int, error) {
	return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
		for _, c := range x.Clients {
			had := map[string]bool{}
			for _, e := range c.Exchanges {
				if e.wire() || e.Method != http.MethodGet {
					continue
				}
				if e.Cursor != "" || had[e.Session] {
					n++
				}
				had[e.Session] = had[e.Session] || e.Cursor == ""
			}
		}
		return n, nil
	})
}

// Collisions counts the initialize requests that were on the wire at the same
// time as a request, or an open stream, that carried the id of a session which
// the same client had begun before.
func Collisions(h *History) (int, error) {
	return count(h, []assumption{complete, clocks, owned, sawWire}, func(x *index) (n int, _ Problems) {
		for i := range x.Clients {
			for k := range x.Clients[i].Exchanges {
				e := &x.Clients[i].Exchanges[k]
				if e.wire() && e.RPC == "initialize" && x.collides(&x.Clients[i], e) {
					n++
				}
			}
		}
		return n, nil
	})
}

func (x *index) collides(c *Client, initialize *Exchange) bool {
	from, to := initialize.At, initialize.until(x.End)
	for n := range c.Exchanges {
		e := &c.Exchanges[n]
		if !e.wire() || e == initialize || e.Session == "" || e.Session == initialize.Session || e.RPC == "initialize" {
			continue
		}
		// What ended or began in the same instant was not there at the same time,
		// but in virtual time an exchange of no length is.
		if e.At < to && e.until(x.End) > from || e.At == to && e.At == from && e.until(x.End) > from {
			return true
		}
	}
	return false
}

// Place is where an application learned that its session was dead. Its text is
// its value.
type Place string

// The places.
const (
	AtReconnect Place = "reconnect"
	AtCall      Place = "tool_call"
	AtNever     Place = "never"
	AtNoDeath   Place = "no_death" // of [DetectedAt]
	AtMixed     Place = "mixed"    // of [DetectedAt]
)

// Detection is how an application learned of the death of its session.
type Detection struct {
	Client  string        `json:"client"`
	Session string        `json:"session"`
	Died    time.Duration `json:"died_ns"`
	Place   Place         `json:"place"`
	// After is how long after the death it was, in the process's time; 0 if it
	// never was.
	After time.Duration `json:"after_ns"`
}

// Detections has one for each session of each client that has died, unless the
// client deleted it, or left it before there was time to be told. Somebody who is not told within
// Soon of the end of the run might yet be.
func Detections(h *History) ([]Detection, error) {
	return count(h, []assumption{complete, clocks, owned}, func(x *index) (all []Detection, _ Problems) {
		early := &findings{assumption: "the run was long enough"}
		for i := range x.Clients {
			c := &x.Clients[i]
			for _, b := range c.Began {
				if d, ok := x.detection(c, b.Session, early); ok {
					all = append(all, d)
				}
			}
		}
		return all, early.problems()
	})
}

func (x *index) detection(c *Client, session string, early *findings) (Detection, bool) {
	life, ok := x.life(session, x.End)
	if !ok || x.aliveAt(session, x.End) || life.Died == nil || life.Why == mcpserver.WhyDeleted {
		return Detection{}, false
	}
	d := Detection{Client: c.Name, Session: session, Died: *life.Died, Place: AtNever}
	for _, r := range c.Reports {
		if r.Session != session {
			continue
		}
		if r.At < d.Died {
			return Detection{}, false // It was told wrongly, and left.
		}
		d.After = r.At - d.Died
		if d.Place = AtReconnect; r.By != client.ByReconnect {
			d.Place = AtCall
		}
		return d, true
	}
	if slices.ContainsFunc(c.Left, func(l Began) bool { return l.Session == session && l.At <= d.Died+x.soon() }) {
		return Detection{}, false
	}
	if x.End-d.Died < x.soon() {
		early.add("session %s of %s died at %v, %v before the end", short(session), c.Name, d.Died, x.End-d.Died)
	}
	return d, true
}

// DetectionError is what an application was told of its dead session, the first
// time that one was told of any; "" if none was. It may have session ids in it:
// see [History.Redacted].
func DetectionError(h *History) (string, error) {
	return count(h, []assumption{complete, clocks, owned}, func(x *index) (text string, _ Problems) {
		first := x.End + 1
		for _, c := range x.Clients {
			for _, r := range c.Reports {
				if r.Dead && r.At < first && x.hasDied(r.Session) {
					first, text = r.At, r.Err
				}
			}
		}
		return text, nil
	})
}
