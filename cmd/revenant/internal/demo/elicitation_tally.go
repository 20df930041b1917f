package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// ElicitationTally is what became of one request to the client, and of the call
// for which it was made.
type ElicitationTally struct {
	SessionID string

	// Cuts counts the streams of the call that the load balancer cut, Reconnects
	// those that the client resumed and that were answered 200, and SentAgain the
	// replays that had the request in them.
	Cuts, Reconnects, SentAgain int
	// Prompts counts how often the person was asked.
	Prompts int
	// Answers counts the answers that the server got, and Dropped those for
	// which it did not wait.
	Answers, Dropped int
	// Stale counts how often the middleware found the request stale.
	Stale int

	// Open is whether the call was open when the run ended, After how long it
	// was until its end, or was open. Err is what the application was told, Code
	// the code of the JSON-RPC error in it, 0 for none.
	Open  bool
	After time.Duration
	Err   error
	Code  int64

	// Anew is how often the call was made once more, Done whether the last of
	// these was answered, and AnewPrompts how often the person was asked for it.
	Anew        int
	Done        bool
	AnewPrompts int
	// Lives is whether another call was answered at the end.
	Lives bool
}

// CountElicitation counts what a recording has of the first request.
func CountElicitation(r *Recording) ElicitationTally {
	var t ElicitationTally
	s, _ := r.session(0)
	t.SessionID = s.ID
	ask := r.asked(0)
	t.SentAgain, t.Prompts = ask.SentAgain, len(r.promptsFor(ask))
	t.Cuts = len(r.cuts(s))
	for _, q := range r.reconnects(s) {
		if q.Status == 200 {
			t.Reconnects++
		}
	}
	for _, a := range r.Server.Answers {
		if a.ID != fmt.Sprint(ask.ID) {
			continue
		}
		t.Answers++
		if !a.Taken {
			t.Dropped++
		}
	}
	for _, e := range r.Guard {
		if e.Kind == middleware.Stale && e.RequestID == fmt.Sprint(ask.ID) {
			t.Stale++
		}
	}

	asks := 0
	var last time.Time
	for i, c := range r.Calls {
		last = c.Start
		ended := !c.End.IsZero()
		switch {
		case i == 0:
			t.Open, t.Err, t.Code = !ended, c.Err, errorCode(c.Err)
			t.After = c.End.Sub(c.Start)
		case c.Tool == confirmTool:
			asks++
			t.Anew++
			t.Done = ended && c.Err == nil
			t.AnewPrompts = len(r.promptsFor(r.asked(asks)))
		default:
			t.Lives = ended && c.Err == nil
		}
	}
	if t.Open {
		t.After = last.Sub(r.callOf(0).Start)
	}
	return t
}

// asked is the n-th request of the server's, from 0, or a zero Ask.
func (r *Recording) asked(n int) mcpserver.Ask {
	if n >= len(r.Server.Asks) {
		return mcpserver.Ask{}
	}
	return r.Server.Asks[n]
}

// callOf is the n-th call, from 0, or a zero Call.
func (r *Recording) callOf(n int) Call {
	if n >= len(r.Calls) {
		return Call{}
	}
	return r.Calls[n]
}

// promptsFor is the prompts for one request.
func (r *Recording) promptsFor(a mcpserver.Ask) []Prompt {
	var all []Prompt
	for _, p := range r.Prompts {
		if p.Stamp == a.Stamp && p.Stamp != (mcpserver.Stamp{}) {
			all = append(all, p)
		}
	}
	return all
}

// promptedAfter is whether the person has been prompted since a moment.
func (r *Recording) promptedAfter(at time.Time) bool {
	return len(r.Prompts) > 0 && !r.Prompts[len(r.Prompts)-1].At.Before(at)
}

// errorCode is the code of a JSON-RPC error, 0 for any other error.
func errorCode(err error) int64 {
	if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
		return wire.Code
	}
	return 0
}

// codeOf is that code in words.
func codeOf(err error) string {
	if code := errorCode(err); code != 0 {
		return fmt.Sprintf("error %d", code)
	}
	return "no JSON-RPC error"
}
