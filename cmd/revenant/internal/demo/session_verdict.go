package demo

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

var sessionCriteria = criteria{
	unplanned: unplannedSession,
	harmless:  harmlessSession,
	failures:  sessionFailures,
}

// parts is the tallies of the two sessions that the parts are about.
func parts(r *Recording) (one, two SessionTally) {
	if s, ok := r.session(0); ok {
		one = CountSession(r, s)
	}
	if s, ok := r.session(1); ok {
		two = CountSession(r, s)
	}
	return one, two
}

func unplannedSession(arm string, r *Recording) (reasons []string) {
	wrong := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }

	if r.Server.Dropped > 0 {
		wrong("has an incomplete record: %d entries are missing", r.Server.Dropped)
	}
	if slices.ContainsFunc(r.Applied, func(a Applied) bool { return a.Stamp == mcpserver.Stamp{} }) {
		wrong("was handed an event that the server had not stamped")
	}
	if len(r.Sessions) < 2 {
		wrong("began %d sessions, not one for each part", len(r.Sessions))
		return reasons
	}

	for n, want := range []struct {
		missed int
		alive  bool
		why    mcpserver.Why
	}{
		{missedAlive, true, mcpserver.WhyExpired},
		{missedDead, false, mcpserver.WhyReaped},
	} {
		s, part := r.Sessions[n], n+1
		died, why := r.died(s.ID)
		cut := r.cut(s)
		get, reconnected := r.reconnect(s)
		switch {
		case cut.IsZero():
			wrong("was not cut off by the load balancer in part %d", part)
			continue
		case !reconnected:
			wrong("did not reconnect with its cursor in part %d", part)
			continue
		case get.At.Before(cut):
			wrong("reconnected in part %d before the load balancer had cut the stream", part)
			continue
		}
		if got := len(r.missed(s, cut, get.At)); got != want.missed {
			wrong("missed %d events while it was away in part %d, not %d", got, part, want.missed)
		}
		if get.Status != http.StatusOK {
			wrong("was answered %d to the reconnect of part %d, not 200", get.Status, part)
		}
		if why != want.why {
			wrong("has a session that is %s at the end of part %d, not %s", lifeOf(why), part, want.why)
			continue
		}
		if alive := get.At.Before(died); alive != want.alive {
			wrong("reconnected in part %d %s its session had died", part, map[bool]string{true: "before", false: "after"}[alive])
		}
	}

	first := r.Sessions[0].ID
	died, _ := r.died(first)
	i := slices.IndexFunc(r.Calls, func(c Call) bool { return c.SessionID == first })
	refused := slices.ContainsFunc(r.Server.Requests, func(q mcpserver.Request) bool {
		return q.SessionID == first && q.RPC == "tools/call" && !q.SessionAlive && q.Status == http.StatusNotFound
	})
	switch {
	case i < 0:
		wrong("called no tool in part 1")
	case died.IsZero() || r.Calls[i].Start.Before(died):
		wrong("called the tool of part 1 before its session had died")
	case !refused:
		wrong("was not answered 404 to the tool call of part 1")
	}
	if one, _ := parts(r); arm == Control && one.garbled() != "" {
		// Without the middleware that is the server's doing.
		wrong("%s", one.garbled())
	}
	return reasons
}

func lifeOf(why mcpserver.Why) string {
	if why == "" {
		return "alive"
	}
	return string(why)
}

func harmlessSession(r *Recording) (reasons []string) {
	_, two := parts(r)
	if two.AppliedDead == 0 {
		reasons = append(reasons, "does not show the failure: its application was given no event of a dead session")
	}
	if two.Place != AtToolCall {
		reasons = append(reasons, fmt.Sprintf("does not show the failure: the death of part 2 was noticed %s", two.Place.words()))
	}
	return reasons
}

// Of a dead session the wire may see the tool call of part 1, and one GET and
// one probe in part 2.
const (
	maxRequestsOne = 1
	maxRequestsTwo = 2
)

func sessionFailures(r *Recording) (reasons []string) {
	wrong := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	one, two := parts(r)

	if n := one.AppliedDead + two.AppliedDead; n > 0 {
		wrong("shows the failure: its application was given %d events of a dead session", n)
	}
	if two.Place != AtReconnect {
		wrong("shows the failure: the death of part 2 was noticed %s", two.Place.words())
	}
	if text := one.garbled(); text != "" {
		wrong("%s", text)
	}
	for n, t := range []SessionTally{one, two} {
		part, limit := n+1, []int{maxRequestsOne, maxRequestsTwo}[n]
		if t.Requests > limit {
			wrong("sent %d requests to the dead session of part %d, more than %d", t.Requests, part, limit)
		}
		if t.RequestsNoticed > 0 {
			wrong("sent %d requests to the dead session of part %d after it had noticed", t.RequestsNoticed, part)
		}
		if t.Deletes > 0 {
			wrong("sent a DELETE to the dead session of part %d", part)
		}
		if t.Place == Nowhere {
			continue
		}
		if !errors.Is(t.Reason, middleware.ErrSessionDead) {
			wrong("has no typed error for the death of part %d: %v", part, t.Reason)
		}
		if !errors.Is(t.Err, mcp.ErrSessionMissing) {
			wrong("was not told by its client that the session of part %d is missing: %v", part, t.Err)
		}
	}
	s, again := r.session(2)
	if died, _ := r.died(s.ID); !again || slices.ContainsFunc(r.Calls, func(c Call) bool {
		return c.SessionID == s.ID && c.Err != nil && (died.IsZero() || c.Start.Before(died))
	}) {
		wrong("had no working session after part 2")
	}
	return reasons
}

// garbled is what is wrong with what the application got of a living session,
// "" for nothing.
func (t SessionTally) garbled() string {
	if t.Lost == 0 && t.Repeated == 0 && t.Misplaced == 0 {
		return ""
	}
	return fmt.Sprintf("got the events of the living session wrong: %d lost, %d repeated, %d out of order", t.Lost, t.Repeated, t.Misplaced)
}

// words is the place in a sentence: "noticed ...".
func (p Place) words() string {
	switch p {
	case AtReconnect:
		return "at the reconnect"
	case AtToolCall:
		return "at a tool call"
	}
	return "not at all"
}
