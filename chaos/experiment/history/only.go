package history

import (
	"slices"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Only is the History of some of the clients: what the others did, and what
// happened to their sessions, is not in it. It shares memory with h.
func (h *History) Only(keep func(Client) bool) *History {
	others := map[string]bool{}
	out := *h
	out.Clients = nil
	for _, c := range h.Clients {
		if keep(c) {
			out.Clients = append(out.Clients, c)
			continue
		}
		for _, b := range c.Began {
			others[b.Session] = true
		}
		for _, x := range c.Exchanges {
			others[x.Session] = true
		}
	}
	delete(others, "")
	out.Oracle = h.Oracle.without(func(id string) bool { return others[id] })
	return &out
}

// without is the oracle's part without that of some sessions.
func (o Oracle) without(drop func(session string) bool) Oracle {
	return Oracle{
		Dropped:  o.Dropped,
		Sessions: without(o.Sessions, func(s Session) bool { return drop(s.ID) }),
		Events:   without(o.Events, func(e Event) bool { return drop(e.Session) }),
		Requests: without(o.Requests, func(q Request) bool { return drop(q.Session) }),
		Asks:     without(o.Asks, func(a Ask) bool { return drop(a.Session) }),
		Answers:  without(o.Answers, func(a Answer) bool { return drop(a.Session) }),
	}
}

func without[T any](all []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), drop)
}

// Session is the History of the n-th session of each client, from 1: what else
// they did is not in it. Clients that have not begun so many are without one. It
// shares memory with h.
func (h *History) Session(n int) *History {
	ours := map[string]bool{}
	out := *h
	out.Clients = nil
	for _, c := range h.Clients {
		if n >= 1 && n <= len(c.Began) {
			id := c.Began[n-1].Session
			ours[id] = true
			c = c.session(n - 1)
		} else {
			c = Client{Name: c.Name, Arm: c.Arm, Kind: c.Kind, Closed: c.Closed, Dropped: c.Dropped}
		}
		out.Clients = append(out.Clients, c)
	}
	out.Oracle = h.Oracle.without(func(id string) bool { return !ours[id] })
	return &out
}

// session is what a client has of its n-th session, from 0.
func (c Client) session(n int) Client {
	id := c.Began[n].Session
	other := func(s string) bool { return s != id }
	stamped := func(s mcpserver.Stamp) bool { return s.Session != id }
	return Client{
		Name: c.Name, Arm: c.Arm, Kind: c.Kind, Closed: c.Closed, Dropped: c.Dropped,
		Began:     c.Began[n : n+1 : n+1],
		Left:      without(c.Left, func(b Began) bool { return other(b.Session) }),
		Reports:   without(c.Reports, func(r Report) bool { return other(r.Session) }),
		Applied:   without(c.Applied, func(a Applied) bool { return stamped(a.Stamp) }),
		Prompts:   without(c.Prompts, func(p Prompt) bool { return stamped(p.Stamp) }),
		Calls:     without(c.Calls, func(k Call) bool { return other(k.Session) }),
		Exchanges: without(c.Exchanges, func(x Exchange) bool { return other(x.Session) }),
		Guard:     without(c.Guard, func(d Decision) bool { return other(d.Session) }),
	}
}
