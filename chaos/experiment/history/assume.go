package history

import (
	"cmp"
	"slices"
	"time"
)

// assumption is what a count takes for granted, and how it is checked.
type assumption struct {
	says  string
	check func(*index, *findings)
}

// skew is by how much two moments of one process may contradict each other. They
// are of one monotonic clock, and read within microseconds of what they are of.
const skew = time.Millisecond

// The assumptions. Each counter names those that it needs.
var (
	complete   = assumption{"nothing is missing", checkComplete}
	clocks     = assumption{"clocks agree", checkClocks}
	sawWire    = assumption{"the oracle saw every request on the wire", checkOracleSawWire}
	sawArrival = assumption{"the wire logs saw every request of the oracle's", checkWireSawOracle}
	stamped    = assumption{"every stamp is known", checkStamps}
	owned      = assumption{"every session is known, and one client's", checkSessions}
)

func checkComplete(x *index, f *findings) {
	if x.Oracle.Dropped > 0 {
		f.add("the oracle has forgotten %d records", x.Oracle.Dropped)
	}
	if x.End <= 0 {
		f.add("the run ends at %v after T+0", x.End)
	}
	for _, c := range x.Clients {
		if c.Dropped > 0 {
			f.add("the log of %s lacks %d records", c.Name, c.Dropped)
		}
		if c.Closed != nil {
			f.add("%s was closed at %v, before the end of the run at %v", c.Name, *c.Closed, x.End)
		}
	}
}

// checkClocks looks whether effects come after their causes.
func checkClocks(x *index, f *findings) {
	before := func(what string, effect, cause time.Duration) {
		if effect < cause-skew {
			f.add("%s at %v, and its cause at %v", what, effect, cause)
		}
	}
	for _, s := range x.Oracle.Sessions {
		if s.Died != nil {
			before("session "+short(s.ID)+" died", *s.Died, s.Created)
		}
	}
	for _, e := range x.Oracle.Events {
		if s, ok := x.firstLife(e.Session); ok {
			before("event "+e.ID+" was stored", e.At, s.Created)
		}
	}
	for i := range x.Clients {
		c := &x.Clients[i]
		for _, b := range c.Began {
			if s, ok := x.firstLife(b.Session); ok {
				before(c.Name+" was connected", b.At, s.Created)
			}
		}
		for _, h := range x.handedTo(i) {
			if e, ok := x.event(h.seq); ok {
				before("event "+e.ID+" was handed to "+c.Name, h.at, e.At)
			}
			if h.at > x.End+skew {
				f.add("%s was handed something at %v, after the end of the run at %v", c.Name, h.at, x.End)
			}
		}
	}
}

func (x *index) firstLife(session string) (Session, bool) {
	if lives := x.lives[session]; len(lives) > 0 {
		return lives[0], true
	}
	return Session{}, false
}

// wireKey is what an exchange on the wire and its arrival have in common.
type wireKey struct{ method, rpc, session, cursor string }

// checkOracleSawWire looks for the arrival of every exchange that the server has
// answered. An answer of 500 or more, or one that a load balancer gave, may not
// be the server's.
func checkOracleSawWire(x *index, f *findings) {
	refused := map[int]bool{}
	for _, b := range x.Balancers {
		for _, e := range b.Events {
			if e.Kind == "refused" {
				refused[e.Status] = true
			}
		}
	}
	arrivals := map[wireKey][]time.Duration{}
	for _, q := range x.Oracle.Requests {
		k := wireKey{q.Method, q.RPC, q.Session, q.Cursor}
		arrivals[k] = append(arrivals[k], q.At)
	}
	for _, all := range arrivals {
		slices.Sort(all)
	}
	// Each takes the earliest arrival that can be its own, those first that have
	// the least choice.
	type sent struct {
		client string
		*Exchange
	}
	var all []sent
	for i := range x.Clients {
		c := &x.Clients[i]
		for n := range c.Exchanges {
			if e := &c.Exchanges[n]; e.wire() && e.Headed != nil {
				all = append(all, sent{c.Name, e})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b sent) int { return cmp.Compare(*a.Headed, *b.Headed) })
	for _, e := range all {
		k := wireKey{e.Method, e.RPC, e.Session, e.Cursor}
		n := slices.IndexFunc(arrivals[k], func(at time.Duration) bool { return at >= e.At-skew && at <= *e.Headed+skew })
		switch {
		case n >= 0:
			arrivals[k] = slices.Delete(arrivals[k], n, n+1)
		case e.Status < 500 && !refused[e.Status]:
			f.add("%s was answered %d at %v to a %s %s of %v with session %s", e.client, e.Status, *e.Headed, e.Method, e.RPC, e.At, short(e.Session))
		}
	}
}

// checkWireSawOracle looks for the exchange of every arrival of a client's
// session. More arrivals than exchanges are no fault: net/http sends a GET again
// whose connection was closed. Nor is an arrival after the exchange's end, if the
// client gave it up before it had an answer: it was on its way then, and its body
// may not have come.
func checkWireSawOracle(x *index, f *findings) {
	type span struct{ from, to time.Duration }
	sent := map[wireKey][]span{}
	for _, c := range x.Clients {
		for n := range c.Exchanges {
			if e := &c.Exchanges[n]; e.wire() {
				k := wireKey{e.Method, e.RPC, e.Session, e.Cursor}
				to := x.End
				if e.Headed != nil {
					to = e.until(x.End)
				}
				sent[k] = append(sent[k], span{e.At - skew, to + skew})
				if e.Headed == nil && e.RPC != "" {
					k.rpc = "" // Its body may never have come.
					sent[k] = append(sent[k], span{e.At - skew, to + skew})
				}
			}
		}
	}
	for _, q := range x.Oracle.Requests {
		i, ours := x.owner[q.Session]
		if !ours {
			continue
		}
		within := func(s span) bool { return q.At >= s.from && q.At <= s.to }
		if !slices.ContainsFunc(sent[wireKey{q.Method, q.RPC, q.Session, q.Cursor}], within) {
			f.add("a %s %s with session %s of %s came at %v", q.Method, q.RPC, short(q.Session), x.Clients[i].Name, q.At)
		}
	}
}

// checkStamps looks for what each stamp belongs to. An answer to a call that
// needed no stream is in no log.
func checkStamps(x *index, f *findings) {
	for i := range x.Clients {
		name := x.Clients[i].Name
		for _, h := range x.handedTo(i) {
			switch _, ok := x.event(h.seq); {
			case h.seq <= 0:
				f.add("%s was handed a message without a stamp at %v", name, h.at)
			case !ok && h.what != handedResult:
				f.add("%s was handed a message at %v with the stamp %d, which the oracle does not have", name, h.at, h.seq)
			}
		}
	}
	for _, c := range x.Clients {
		for _, p := range c.Prompts {
			if _, ok := x.asks[p.Stamp.Seq]; !ok && p.Stamp.Seq > 0 {
				f.add("%s was prompted at %v with the stamp %d, which is that of no request", c.Name, p.At, p.Stamp.Seq)
			}
		}
	}
}

func checkSessions(x *index, f *findings) {
	began := map[string]string{}
	for _, c := range x.Clients {
		for _, b := range c.Began {
			if other, ok := began[b.Session]; ok {
				f.add("%s and %s have begun session %s", other, c.Name, short(b.Session))
			}
			began[b.Session] = c.Name
			if b.Session == "" {
				f.add("%s has begun a session without an id at %v", c.Name, b.At)
			}
		}
		for n := range c.Exchanges {
			if e := &c.Exchanges[n]; e.wire() && e.Session != "" && len(x.lives[e.Session]) == 0 {
				f.add("%s has sent a %s at %v with session %s, which the oracle does not know", c.Name, e.Method, e.At, short(e.Session))
			}
		}
		for _, r := range c.Reports {
			if len(x.lives[r.Session]) == 0 {
				f.add("%s was told at %v that session %s is over, which the oracle does not know", c.Name, r.At, short(r.Session))
			}
		}
	}
}
