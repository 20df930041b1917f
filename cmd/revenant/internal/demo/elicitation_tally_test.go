package demo_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
	"github.com/revenant-mcp/revenant/middleware"
)

var (
	tallyAgain = demo.ElicitationTally{
		SessionID: "s", Cuts: 5, Reconnects: 5, SentAgain: 5, Prompts: 6, Answers: 6, Dropped: 6,
		Open: true, After: at(7).Sub(at(0.01)), Lives: true,
	}
	tallyOnce = demo.ElicitationTally{
		SessionID: "s", Cuts: 2, Reconnects: 2, SentAgain: 2, Prompts: 1, Answers: 1, Dropped: 1, Stale: 1,
		After: at(2.51).Sub(at(0.01)), Err: errStale, Code: -32001, Anew: 1, Done: true, AnewPrompts: 1, Lives: true,
	}
)

func TestCountElicitation(t *testing.T) {
	change := func(tally demo.ElicitationTally, f func(*demo.ElicitationTally)) demo.ElicitationTally {
		f(&tally)
		return tally
	}
	for _, test := range []struct {
		name   string
		rec    *demo.Recording
		change func(*demo.Recording)
		want   demo.ElicitationTally
	}{
		{"control", askedAgain(), func(*demo.Recording) {}, tallyAgain},
		{"protected", askedOnce(), func(*demo.Recording) {}, tallyOnce},
		{"a prompt for another request", askedOnce(), func(r *demo.Recording) {
			r.Prompts = append(r.Prompts, demo.Prompt{Stamp: question(3), At: at(3)}, demo.Prompt{At: at(3)})
		}, tallyOnce},
		{"a cut by hand, a client that leaves, and a cut before the session", askedOnce(), func(r *demo.Recording) {
			r.Balancer = append(r.Balancer,
				lb.Event{Kind: lb.Cut, At: at(3), Method: http.MethodGet, Err: lb.ErrCut},
				lb.Event{Kind: lb.Ended, At: at(3), Method: http.MethodGet, Err: lb.ErrIdle},
				lb.Event{Kind: lb.Cut, At: at(0).Add(-1), Method: http.MethodGet, Err: lb.ErrIdle})
		}, tallyOnce},
		{"a GET without a cursor, one that is refused, and one of another session", askedOnce(), func(r *demo.Recording) {
			r.Server.Requests = append(r.Server.Requests,
				mcpserver.Request{At: at(3), Method: http.MethodGet, SessionID: "s", Status: 200},
				mcpserver.Request{At: at(3), Method: http.MethodGet, SessionID: "s", LastEventID: "1", Status: 400},
				mcpserver.Request{At: at(3), Method: http.MethodGet, SessionID: "t", LastEventID: "1", Status: 200})
		}, tallyOnce},
		{"another request is stale, too", askedOnce(), func(r *demo.Recording) {
			r.Guard = append(r.Guard, middleware.Event{Kind: middleware.Stale, SessionID: "s", RequestID: "2"})
		}, tallyOnce},
		{"an answer in time", askedOnce(), func(r *demo.Recording) { r.Server.Answers[0].Taken = true },
			change(tallyOnce, func(t *demo.ElicitationTally) { t.Dropped = 0 })},
		{"found stale twice", askedOnce(), func(r *demo.Recording) {
			r.Guard = append(r.Guard, middleware.Event{Kind: middleware.Stale, SessionID: "s", RequestID: "1"})
		}, change(tallyOnce, func(t *demo.ElicitationTally) { t.Stale = 2 })},
		{"an error of another kind", askedOnce(), func(r *demo.Recording) { r.Calls[0].Err = errOther },
			change(tallyOnce, func(t *demo.ElicitationTally) { t.Err, t.Code = errOther, 0 })},
		{"the call made anew is open", askedOnce(), func(r *demo.Recording) { r.Calls[1].End = time.Time{} },
			change(tallyOnce, func(t *demo.ElicitationTally) { t.Done = false })},
		{"the call made anew fails", askedOnce(), func(r *demo.Recording) { r.Calls[1].Err = errStale },
			change(tallyOnce, func(t *demo.ElicitationTally) { t.Done = false })},
		{"the other call fails", askedAgain(), func(r *demo.Recording) { r.Calls[1].Err = errOther },
			change(tallyAgain, func(t *demo.ElicitationTally) { t.Lives = false })},
		{"the other call is open", askedAgain(), func(r *demo.Recording) { r.Calls[1].End = time.Time{} },
			change(tallyAgain, func(t *demo.ElicitationTally) { t.Lives = false })},
		{"the call is answered", askedAgain(), func(r *demo.Recording) { r.Calls[0].End = at(1) },
			change(tallyAgain, func(t *demo.ElicitationTally) { t.Open, t.After = false, at(1).Sub(at(0.01)) })},
		{"nothing", &demo.Recording{}, func(*demo.Recording) {}, demo.ElicitationTally{}},
	} {
		test.change(test.rec)
		if got := demo.CountElicitation(test.rec); got != test.want {
			t.Errorf("%s:\nCountElicitation() = %+v\nwant                 %+v", test.name, got, test.want)
		}
	}
}
