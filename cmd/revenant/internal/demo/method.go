package demo

import (
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

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

	// length is how long the whole takes.
	length = 41.0
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

// protocolVersion is pinned: the newest version has no sessions.
const protocolVersion = "2025-11-25"

// patience is how long the method waits for something to happen, in minutes
// after the moment for which it is planned, or after it began to wait if that
// is later. It then goes on, and the verdict says what was missing.
const patience = 10.0

func (c clock) serverConfig(observe func(mcpserver.Record)) mcpserver.Config {
	return mcpserver.Config{
		SessionTTL:   c.real(sessionTTL),
		Refresh:      mcpserver.RefreshNever,
		LogRetention: c.real(logRetention),
		Retry:        c.real(retryHint),
		Observe:      observe,
	}
}

func (c clock) balancerConfig(upstream string, observe func(lb.Event)) lb.Config {
	return lb.Config{
		Upstream:    upstream,
		IdleTimeout: c.real(idleTimeout),
		OnExpiry:    lb.FIN,
		Observe:     observe,
	}
}

// clock converts between the record's time and this process's.
type clock struct {
	start  time.Time     // T+0
	minute time.Duration // how long one minute of the record takes
}

// real is how long some minutes of the record take.
func (c clock) real(minutes float64) time.Duration {
	return time.Duration(minutes * float64(c.minute))
}

// at is the moment that is so many minutes after T+0.
func (c clock) at(minutes float64) time.Time { return c.start.Add(c.real(minutes)) }

// record is how long d is in the record's time.
func (c clock) record(d time.Duration) time.Duration {
	return time.Duration(float64(d) * float64(time.Minute) / float64(c.minute))
}

// since is when t was, in the record's time after T+0.
func (c clock) since(t time.Time) time.Duration { return c.record(t.Sub(c.start)) }
