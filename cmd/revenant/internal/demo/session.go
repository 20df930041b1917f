package demo

import (
	"fmt"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// SessionRecord is the record that this project began with: a session that is
// dead while its log lives.
var SessionRecord = &Record{
	name:  "session",
	title: "A session that comes back looking alive",
	intro: fmt.Sprintf("The sessions live %.0f minutes, the event log keeps %.0f, and the load balancer cuts a stream that is "+
		"idle for %.0f minutes.", sessionTTL, logRetention, idleTimeout),
	headings: map[int]string{
		1: "Part 1. The record: the session outlives a reconnect and expires later",
		2: "Part 2. The session dies while its client is away",
	},
	length:   secondToolCall,
	patience: 10,

	setup:    sessionSetup,
	method:   sessionMethod,
	criteria: sessionCriteria,
	detail:   sessionDetail,
}

// The record's settings and moments, in its own minutes. The moments count from
// T+0.
//
// The record has a session TTL of 30 minutes that ran out at T+31, so the
// session begins at T+1. Nothing prolongs it: a server that refreshes a session
// with every POST would give the protected arm, which probes by POST, more time
// than the control arm, and the arms could not be compared. The record does
// not say what the load balancer's idle timeout was. 4 minutes, a usual value,
// has the cut at T+5, where the record has it.
const (
	sessionTTL   = 30.0
	logRetention = 60.0
	idleTimeout  = 4.0
	retryHint    = 1.0

	// Part 1. The events keep the stream from being idle, and the last one
	// leaves the expiry and the tool call more than a minute before and after
	// it, so that a slow machine does not change what happens.
	firstInitialize = 1.0
	firstEvent      = 9.5
	lastEvent       = 29.5
	eventInterval   = 2.0
	firstToolCall   = 33.0

	// Part 2.
	secondInitialize = 34.0
	secondToolCall   = 41.0
)

const (
	// missedAlive is how many events the reconnect of part 1 replays: the
	// record's 4472 and 4473.
	missedAlive = 2
	// missedDead is how many events of a dead session the reconnect of part 2
	// replays.
	missedDead = 10
	// retries is how often the application repeats a tool call that failed.
	retries = 3
)

// echoText is what the application calls its tool with.
var echoText = map[string]any{"text": "hello"}

func sessionSetup(c clock) setup {
	return setup{
		server: mcpserver.Config{
			SessionTTL:   c.real(sessionTTL),
			Refresh:      mcpserver.RefreshNever,
			LogRetention: c.real(logRetention),
			Retry:        c.real(retryHint),
		},
		balancer: lb.Config{IdleTimeout: c.real(idleTimeout), OnExpiry: lb.FIN},
	}
}

func sessionMethod(s *script) []move {
	const (
		idling = "silence: the load balancer's idle clock runs"
		away   = "the clients wait as long as the server has asked them to"
	)
	cut1, cut2 := firstInitialize+idleTimeout, secondInitialize+idleTimeout
	moves := []move{
		{1, firstInitialize, true, "servers and load balancers are up", s.begin},
		{1, cut1, false, idling, s.away(missedAlive, false)},
		{1, cut1 + retryHint, false, away, s.back(missedAlive)},
	}
	for at := firstEvent; at <= lastEvent; at += eventInterval {
		moves = append(moves, move{1, at, true, "the server sends an event every 2 minutes", s.event})
	}
	return append(moves, []move{
		{1, firstInitialize + sessionTTL, false, "silence: the session's time is running out", s.expire},
		{1, firstToolCall, true, "nothing passes on the wire: nobody can know", s.callInVain},

		{2, secondInitialize, true, "the applications give their sessions up", s.begin},
		{2, cut2, false, idling, s.away(missedDead, true)},
		{2, cut2 + retryHint, false, away, s.back(missedDead)},
		{2, secondToolCall, true, "the control arm believes itself connected", s.callAgain},
	}...)
}
