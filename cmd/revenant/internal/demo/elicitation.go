package demo

import (
	"fmt"
	"net/http"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// ElicitationRecord is the second record: a request to the client that is
// replayed long after the server has stopped to wait for its answer.
var ElicitationRecord = &Record{
	name:  "elicitation",
	title: "A question that comes back looking open",
	intro: fmt.Sprintf("A tool is about to delete something and asks a person first, by elicitation/create. The load balancer "+
		"cuts a stream that is idle for %.0f s, and the person takes a little longer than that. The server then no longer "+
		"waits and does not say so; whenever the client resumes the stream, it replays the request. The session lives all "+
		"the time.", askIdle*60),
	length:   askLength,
	patience: 3,

	setup:    askSetup,
	method:   askMethod,
	criteria: askCriteria,
	detail:   askDetail,
}

// The record's settings and moments, in minutes after T+0. The idle timeout is
// the record's, which does not say how long its client stayed away.
const (
	askIdle  = 1.0
	askRetry = 0.25
	askGrace = 1.0 // middleware.DefaultStaleGrace

	// askRounds is how many reconnects there are. go-sdk gives its session up
	// when a stream has brought no new event id in six of them, and the record
	// ends before that.
	askRounds = 5
	askLength = 7.0
)

// staleAnswer is what the server says to an answer for which it does not wait.
const staleAnswer = http.StatusAccepted

// confirmTool is the tool that asks, with what it is called with, and otherTool
// one that does not.
const (
	confirmTool = "confirm"
	otherTool   = "echo"
)

var confirmText = map[string]any{"message": "Delete 1204 customers?"}

func askSetup(c clock) setup {
	return setup{
		server: mcpserver.Config{
			Replay:      mcpserver.ReplayInclusive,
			OnBreak:     mcpserver.BreakCancels,
			StaleAnswer: staleAnswer,
			Retry:       c.real(askRetry).Round(time.Millisecond),
		},
		balancer:  lb.Config{IdleTimeout: c.real(askIdle), OnExpiry: lb.FIN},
		guard:     middleware.Config{StaleGrace: c.real(askGrace)},
		callsOnly: true, // so that every stream is the call's
	}
}

func askMethod(s *script) []move {
	moves := []move{
		{1, 0, true, "servers and load balancers are up", s.ask},
		{1, askIdle, false, "the person thinks: the load balancer's idle clock runs", s.stopWaiting},
		{1, askIdle, false, "the person decides", s.answer},
	}
	for n := 1; n <= askRounds; n++ {
		moves = append(moves, move{1, float64(n) * (askIdle + askRetry), false,
			"silence; then the load balancer cuts, and the clients come back", s.comeBack(n)})
	}
	return append(moves, move{1, askLength, true, "the control arm's call is open", s.look})
}
