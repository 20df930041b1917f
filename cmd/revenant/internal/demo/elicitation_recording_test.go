package demo_test

import (
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
	"github.com/revenant-mcp/revenant/middleware"
)

var errStale = fmt.Errorf("calling: %w", &jsonrpc.Error{Code: -32001, Message: "stale"})

// question is the stamp of the n-th request of the server's, from 1.
func question(n int) mcpserver.Stamp { return mcpserver.Stamp{Session: "s", Seq: 10 * n} }

// asking is a recording of an arm up to the answer for which nobody waits: the
// session is "s", the call is the first, and so is the request.
func asking() *demo.Recording {
	r := &demo.Recording{}
	r.Server.Sessions = []mcpserver.Session{{ID: "s", Created: at(0), Died: at(8), Why: mcpserver.WhyDeleted}}
	r.Server.Asks = []mcpserver.Ask{{
		SessionID: "s", ID: 1, Method: "elicitation/create", Stamp: question(1), At: at(0.01),
		Cancelled: at(1.01), Why: mcpserver.WhyBroken,
	}}
	r.Sessions = []demo.Session{{ID: "s", Began: at(0)}}
	r.Calls = []demo.Call{{Tool: "confirm", SessionID: "s", Start: at(0.01)}}
	r.Prompts = []demo.Prompt{{Stamp: question(1), At: at(0.02)}}
	r.Balancer = []lb.Event{{Kind: lb.Cut, At: at(1), Method: http.MethodPost, Err: lb.ErrIdle}}
	answer(r, 1.02, false)
	return r
}

func answer(r *demo.Recording, when float64, taken bool) {
	r.Server.Answers = append(r.Server.Answers, mcpserver.Answer{
		At: at(when), SessionID: "s", ID: fmt.Sprint(len(r.Server.Asks)), Status: http.StatusAccepted, Taken: taken,
	})
}

// resume adds a reconnect that replays the first request.
func resume(r *demo.Recording, when float64) {
	r.Server.Requests = append(r.Server.Requests, mcpserver.Request{
		At: at(when), Method: http.MethodGet, SessionID: "s", LastEventID: "1", SessionAlive: true, Status: http.StatusOK,
	})
	r.Server.Asks[0].SentAgain++
}

func called(r *demo.Recording, tool string, when float64) {
	r.Calls = append(r.Calls, demo.Call{Tool: tool, SessionID: "s", Start: at(when), End: at(when + 0.02)})
}

// askedAgain is asking, and then the failure.
func askedAgain() *demo.Recording {
	r := asking()
	for when := 1.25; when < 7; when += 1.25 {
		resume(r, when)
		r.Prompts = append(r.Prompts, demo.Prompt{Stamp: question(1), At: at(when + 0.01)})
		answer(r, when+0.02, false)
		if when < 6 {
			r.Balancer = append(r.Balancer, lb.Event{Kind: lb.Cut, At: at(when + 1), Method: http.MethodGet, Err: lb.ErrIdle})
		}
	}
	called(r, "echo", 7)
	return r
}

// askedOnce is asking, and then what the middleware makes of it.
func askedOnce() *demo.Recording {
	r := asking()
	resume(r, 1.25)
	r.Guard = append(r.Guard, middleware.Event{Kind: middleware.DuplicateSuppressed, SessionID: "s", RequestID: "1", Time: at(1.26)})
	r.Balancer = append(r.Balancer, lb.Event{Kind: lb.Cut, At: at(2.25), Method: http.MethodGet, Err: lb.ErrIdle})
	resume(r, 2.5)
	r.Guard = append(r.Guard, middleware.Event{Kind: middleware.Stale, SessionID: "s", RequestID: "1", Time: at(2.51)})
	r.Calls[0].End, r.Calls[0].Err = at(2.51), errStale

	called(r, "confirm", 2.52)
	r.Server.Asks = append(r.Server.Asks, mcpserver.Ask{
		SessionID: "s", ID: 2, Method: "elicitation/create", Stamp: question(2), At: at(2.52), Answered: at(2.53),
	})
	r.Prompts = append(r.Prompts, demo.Prompt{Stamp: question(2), At: at(2.52)})
	answer(r, 2.53, true)
	called(r, "echo", 7)
	return r
}
