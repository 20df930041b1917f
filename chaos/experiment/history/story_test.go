package history_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// story writes a small History down: what it tells is in the oracle's part, in
// the edge's and in the wire's, so that nothing speaks against anything else
// unless a test changes it. Times are in seconds.
type story struct {
	h         *history.History
	c         *history.Client // of which the story is
	seq, refs int
}

// newStory is one client's, over 100 seconds.
func newStory() *story {
	h := &history.History{Zero: time.Date(2026, 11, 8, 0, 0, 0, 0, time.UTC), End: sec(100), Scale: 1}
	h.Clients = append(h.Clients, history.Client{Name: "one", Arm: "control", Kind: client.GoSDK})
	return &story{h: h, c: &h.Clients[0]}
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// begin has the client begin a session.
func (s *story) begin(session string, at float64) {
	s.h.Oracle.Sessions = append(s.h.Oracle.Sessions, history.Session{ID: session, Created: sec(at)})
	x := s.exchange("POST", "initialize", "", "", at, 200)
	s.answered(x, session)
	s.close(x, at)
	s.c.Began = append(s.c.Began, history.Began{At: sec(at), Session: session})
}

// die has a session die, of what is not its client's doing.
func (s *story) die(session string, at float64) {
	for i := range s.h.Oracle.Sessions {
		if o := &s.h.Oracle.Sessions[i]; o.ID == session {
			o.Died, o.Why = new(sec(at)), mcpserver.WhyReaped
		}
	}
}

// store has the server store an event on a stream, "main" being the standalone
// one.
func (s *story) store(session, stream string, at float64) history.Event {
	s.seq++
	alive := false
	for _, o := range s.h.Oracle.Sessions {
		alive = alive || o.ID == session && (o.Died == nil || sec(at) < *o.Died)
	}
	e := history.Event{
		Stamp: mcpserver.Stamp{Session: session, Seq: s.seq}, Session: session, ID: fmt.Sprint(s.seq), Stream: stream,
		At: sec(at), Alive: alive,
	}
	s.h.Oracle.Events = append(s.h.Oracle.Events, e)
	return e
}

// ask is store for a request to the client.
func (s *story) ask(session, stream string, at float64) history.Event {
	e := s.store(session, stream, at)
	s.h.Oracle.Asks = append(s.h.Oracle.Asks, history.Ask{
		Session: session, ID: int64(len(s.h.Oracle.Asks) + 1), Method: "elicitation/create", Stamp: e.Stamp, At: e.At,
	})
	return e
}

// exchange is a request that was answered at once, as the edge, the wire and the
// oracle saw it. It returns the place of the edge's; that of the wire follows.
func (s *story) exchange(method, rpc, session, cursor string, at float64, status int) int {
	for _, layer := range []client.Layer{client.Edge, client.Wire} {
		s.refs++
		kind := "application/json"
		if method == "GET" && status == 200 {
			kind = "text/event-stream"
		}
		s.c.Exchanges = append(s.c.Exchanges, history.Exchange{
			Ref: s.refs, Layer: layer, At: sec(at), Method: method, RPC: rpc, Session: session, Cursor: cursor,
			Headed: new(sec(at)), Status: status, Type: kind,
		})
	}
	s.h.Oracle.Requests = append(s.h.Oracle.Requests, history.Request{
		N: len(s.h.Oracle.Requests) + 1, At: sec(at), Method: method, RPC: rpc, Session: session, Cursor: cursor, Status: status,
	})
	return len(s.c.Exchanges) - 2
}

// answered has the response to initialize name its session.
func (s *story) answered(x int, session string) {
	s.c.Exchanges[x].Session, s.c.Exchanges[x+1].Session = session, session
	s.h.Oracle.Requests[len(s.h.Oracle.Requests)-1].Session = session
}

// get opens a stream that stays open until close is called.
func (s *story) get(session, cursor string, at float64) int {
	return s.exchange("GET", "", session, cursor, at, 200)
}

// post sends a request, or something else, that is answered at once.
func (s *story) post(session, rpc string, at float64, status int) int {
	x := s.exchange("POST", rpc, session, "", at, status)
	s.close(x, at)
	return x
}

// close ends an exchange.
func (s *story) close(x int, at float64) {
	s.c.Exchanges[x].Over, s.c.Exchanges[x+1].Over = new(sec(at)), new(sec(at))
}

// brings has an exchange bring an event to the client, which does not look at
// it.
func (s *story) brings(x int, e history.Event, at float64) {
	s.c.Exchanges[x].Delivered = append(s.c.Exchanges[x].Delivered, history.Delivered{At: sec(at), ID: e.ID})
}

// applies has an exchange bring an event that is applied.
func (s *story) applies(x int, e history.Event, at float64) {
	s.brings(x, e, at)
	s.c.Applied = append(s.c.Applied, history.Applied{At: sec(at), Method: "notifications/message", Stamp: e.Stamp})
}

// prompts has an exchange bring a request that the person is asked.
func (s *story) prompts(x int, e history.Event, at float64) {
	s.brings(x, e, at)
	s.c.Prompts = append(s.c.Prompts, history.Prompt{Ref: len(s.c.Prompts) + 1, At: sec(at), Method: "elicitation/create", Stamp: e.Stamp})
}

// calls has a call end in some way, or never, if that is "".
func (s *story) calls(session string, from, to float64, how client.Outcome, code int64) *history.Call {
	k := history.Call{Ref: len(s.c.Calls) + 1, At: sec(from), Tool: "tool", Session: session}
	if how != "" {
		k.Ended, k.How, k.Code = new(sec(to)), how, code
	}
	s.c.Calls = append(s.c.Calls, k)
	return &s.c.Calls[len(s.c.Calls)-1]
}

// told has the application be told that its session is over.
func (s *story) told(session string, at float64, by client.By, dead bool) {
	s.c.Reports = append(s.c.Reports, history.Report{At: sec(at), Session: session, By: by, Dead: dead})
}

// a is the story of most tests: a session from the first second on whose stream
// is open and has brought one event.
func a() (s *story, stream int) {
	s = newStory()
	s.begin("A", 1)
	stream = s.get("A", "", 1)
	s.applies(stream, s.store("A", "main", 2), 2)
	return s, stream
}

// checkProblem checks that nothing can be counted, and why not.
func checkProblem(t *testing.T, err error, want string) {
	t.Helper()
	problems := history.Problems(nil)
	if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want Problems that say %q", err, want)
	}
}

// checkCount checks a count that can be made.
func checkCount[T comparable](t *testing.T, name string, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v, want %+v", name, err, want)
	} else if got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}
