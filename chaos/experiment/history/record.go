package history

import (
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Source is what a [History] is made of. Zero, End, Scale, Soon, Patience and
// Faults are those of the History, but for End, an instant. All instants are of
// one process: they are compared by their monotonic readings.
type Source struct {
	_ struct{}

	Zero, End      time.Time
	Scale          float64
	Soon, Patience time.Duration

	Oracle    mcpserver.History
	Clients   []ClientSource
	Balancers []BalancerSource
	Faults    []Fault
}

// ClientSource is one client's log.
type ClientSource struct {
	_ struct{}

	Name    string
	Arm     string
	Kind    client.Kind
	Records []client.Record
	Dropped int // of [client.Log]
}

// BalancerSource is what one load balancer has reported.
type BalancerSource struct {
	_ struct{}

	Name   string
	Events []lb.Event
}

// New makes a History of what was recorded until src.End. It shares no memory
// with src.
func New(src Source) *History {
	r := recorder{zero: src.Zero, end: src.End.Sub(src.Zero)}
	h := &History{
		// A round zero has no monotonic reading, which no JSON can have.
		Zero: src.Zero.Round(0).UTC(), End: r.end, Scale: src.Scale, Soon: src.Soon, Patience: src.Patience,
		Oracle: r.oracle(src.Oracle), Faults: slices.Clone(src.Faults),
	}
	for _, c := range src.Clients {
		h.Clients = append(h.Clients, r.client(c))
	}
	for _, b := range src.Balancers {
		out := Balancer{Name: b.Name}
		for _, e := range b.Events {
			if at := r.at(e.At); at <= r.end {
				out.Events = append(out.Events, BalancerEvent{
					At: at, Kind: e.Kind.String(), Stream: e.Stream, Method: e.Method, Status: e.Status, Bytes: e.Bytes,
					Expiry: e.Expiry, Err: text(e.Err),
				})
			}
		}
		h.Balancers = append(h.Balancers, out)
	}
	return h
}

// recorder turns instants into moments.
type recorder struct {
	zero time.Time
	end  time.Duration
}

func (r recorder) at(t time.Time) time.Duration { return t.Sub(r.zero) }

// by is the moment of what happened by the end, else nil.
func (r recorder) by(t time.Time) *time.Duration {
	if at := r.at(t); !t.IsZero() && at <= r.end {
		return &at
	}
	return nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (r recorder) oracle(in mcpserver.History) Oracle {
	out := Oracle{Dropped: in.Dropped}
	for _, s := range in.Sessions {
		if at := r.at(s.Created); at <= r.end {
			life := Session{ID: s.ID, Created: at, Died: r.by(s.Died), Replica: s.Replica, Adopted: s.Adopted}
			if life.Died != nil {
				life.Why = s.Why
			}
			out.Sessions = append(out.Sessions, life)
		}
	}
	for _, e := range in.Events {
		if at := r.at(e.At); at <= r.end {
			out.Events = append(out.Events, Event{
				Stamp: e.Stamp, Session: e.SessionID, ID: e.EventID, Stream: e.StreamID, At: at, Alive: e.SessionAlive,
			})
		}
	}
	for _, q := range in.Requests {
		if at := r.at(q.At); at <= r.end {
			out.Requests = append(out.Requests, Request{
				N: q.N, At: at, Ended: r.by(q.Ended), Method: q.Method, RPC: q.RPC, Session: q.SessionID, Cursor: q.LastEventID,
				Alive: q.SessionAlive, Status: q.Status, Replica: q.Replica, Rule: q.Rule, Replayed: q.Replayed, AnsweredAs: q.AnsweredAs,
			})
		}
	}
	for _, a := range in.Asks {
		if at := r.at(a.At); at <= r.end {
			ask := Ask{
				Session: a.SessionID, ID: a.ID, Method: a.Method, Call: a.CallID, Stamp: a.Stamp, At: at,
				SentAgain: a.SentAgain, Answered: r.by(a.Answered), Cancelled: r.by(a.Cancelled),
			}
			if ask.Cancelled != nil {
				ask.Why = a.Why
			}
			out.Asks = append(out.Asks, ask)
		}
	}
	for _, a := range in.Answers {
		if at := r.at(a.At); at <= r.end {
			out.Answers = append(out.Answers, Answer{
				At: at, Request: a.Request, Session: a.SessionID, ID: a.ID, Status: a.Status, Taken: a.Taken,
			})
		}
	}
	return out
}

// client sorts a client's records by what they are about.
func (r recorder) client(src ClientSource) Client {
	c := Client{Name: src.Name, Arm: src.Arm, Kind: src.Kind, Dropped: src.Dropped}
	calls, prompts, exchanges := map[int]int{}, map[int]int{}, map[int]int{}
	for _, rec := range src.Records {
		at := r.at(rec.At)
		if at > r.end {
			break
		}
		switch rec.Kind {
		case client.Connected:
			c.Began = append(c.Began, Began{at, rec.SessionID})
		case client.ConnectFailed:
			c.Failed = append(c.Failed, Failed{at, text(rec.Err)})
		case client.Left:
			c.Left = append(c.Left, Began{at, rec.SessionID})
		case client.SessionOver:
			c.Reports = append(c.Reports, Report{at, rec.SessionID, rec.By, rec.Dead, text(rec.Err)})
		case client.Applied:
			c.Applied = append(c.Applied, Applied{at, rec.Method, rec.Stamp})
		case client.Prompted:
			prompts[rec.Ref] = len(c.Prompts)
			c.Prompts = append(c.Prompts, Prompt{Ref: rec.Ref, At: at, Method: rec.Method, Stamp: rec.Stamp})
		case client.Answered, client.Withdrawn:
			if i, ok := prompts[rec.Ref]; ok && rec.Kind == client.Answered {
				c.Prompts[i].Answered, c.Prompts[i].Action = &at, rec.Action
			} else if ok {
				c.Prompts[i].Withdrawn = &at
			}
		case client.CallBegun:
			calls[rec.Ref] = len(c.Calls)
			c.Calls = append(c.Calls, Call{Ref: rec.Ref, At: at, Tool: rec.Tool, Session: rec.SessionID})
		case client.CallEnded:
			if i, ok := calls[rec.Ref]; ok {
				call := &c.Calls[i]
				call.Ended, call.How, call.Code, call.Err, call.Stamp = &at, rec.How, rec.Code, text(rec.Err), rec.Stamp
				call.Session = rec.SessionID
			}
		case client.Asked:
			exchanges[rec.Ref] = len(c.Exchanges)
			c.Exchanges = append(c.Exchanges, Exchange{
				Ref: rec.Ref, Layer: rec.Layer, At: at, Method: rec.HTTPMethod, RPC: rec.Method, Session: rec.SessionID, Cursor: rec.Cursor,
			})
		case client.Headed, client.Delivered, client.Over:
			if i, ok := exchanges[rec.Ref]; ok {
				c.Exchanges[i].add(rec, at)
			}
		case client.Decided:
			c.Guard = append(c.Guard, decision(at, *rec.Guard))
		case client.Closed:
			c.Closed = &at
		}
	}
	return c
}

// add is what became of an exchange.
func (x *Exchange) add(rec client.Record, at time.Duration) {
	switch rec.Kind {
	case client.Headed:
		x.Headed, x.Status, x.Type = &at, rec.Status, rec.ContentType
		if x.Session == "" {
			x.Session = rec.SessionID
		}
	case client.Delivered:
		x.Delivered = append(x.Delivered, Delivered{at, rec.EventID})
	case client.Over:
		x.Over, x.Bytes, x.Err = &at, rec.Bytes, text(rec.Err)
	}
}

func decision(at time.Duration, e middleware.Event) Decision {
	d := Decision{
		At: at, Kind: e.Kind.String(), Session: e.SessionID, Cursor: e.LastEventID, Method: e.Method,
		Request: e.RequestID, RPC: e.RPCMethod, Status: e.StatusCode,
		Events: e.Events, Bytes: e.Bytes, Took: e.Duration, Err: text(e.Err),
	}
	switch e.Kind {
	case middleware.ProbeAnswered, middleware.Released, middleware.Quarantined, middleware.SessionDead:
		d.Verdict = e.Verdict.String()
	}
	return d
}
