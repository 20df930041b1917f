package mcpserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	// DefaultAddr is where a server listens whose Config names no address.
	DefaultAddr = "127.0.0.1:0"
	// DefaultMaxEvents is how many events the log keeps of one session.
	DefaultMaxEvents = 10_000
)

// Config says how a [Server] behaves. The zero Config is a server whose
// sessions and events stay for as long as it runs.
type Config struct {
	_ struct{}

	// Addr is the TCP address to listen on, as host:port. "" is [DefaultAddr].
	Addr string
	// Listener, if not nil, is used in place of Addr. It belongs to the Server
	// once [New] has returned without an error.
	Listener net.Listener

	// SessionTTL is how long a session lives after its last refresh. A session
	// is dead from that instant on, not some time after it. 0: for ever.
	SessionTTL time.Duration
	// Refresh says what prolongs a session. The zero value is [RefreshPOST].
	Refresh Refresh

	// LogRetention is how long the log keeps an event after it was stored,
	// whether its session lives or not. The cursor that names a forgotten event
	// is unknown. 0: for ever, and with it what belongs to dead sessions.
	LogRetention time.Duration
	// MaxEvents is how many events the log keeps of one session; the oldest go
	// first. 0 is [DefaultMaxEvents].
	MaxEvents int

	// UnknownSession says what a request of a dead or unknown session gets. The
	// zero value is [UnknownNotFound].
	UnknownSession UnknownSession
	// GETChecksSession makes GETs of a dead or unknown session get what its POSTs
	// get, where otherwise they ask the log alone.
	GETChecksSession bool
	// Conflict says what a GET gets for a stream that is attached to another
	// connection. The zero value is [ConflictTakesOver].
	Conflict Conflict
	// Rules make the server misbehave at certain requests.
	Rules []Rule
	// Cookie is the name of a cookie that the server sets with every answer, as
	// load balancers do to find the way back: its value is the number of the
	// replica, which is 0 where there is no [Cluster]. The server itself does
	// nothing with it but to tell the oracle what came. "": none.
	Cookie string

	// Replay says where the replay of a resumed stream begins. The zero value is
	// [ReplayExclusive].
	Replay Replay
	// OnBreak says what becomes of the server-to-client requests that are
	// pending on a stream when that breaks. The zero value is [BreakKeeps].
	OnBreak OnBreak
	// StaleAnswer is the HTTP status for an answer to a server-to-client request
	// that is not pending: any more, or it never was. 0 is what mcp-go does: 400,
	// but 202 for an empty result. Other values hold for every such answer, and
	// are from 200 to 299 (taken and dropped) or from 400 to 499. 404 and 410
	// are refused: they would say that the session is dead. An answer on behalf
	// of a dead session always gets 404.
	StaleAnswer int
	// LivenessToken gives every server-to-client request a token in its params'
	// `_meta`, under [LivenessTokenKey]. When a replay sends the request again
	// while it is pending in a living session, the token is a fresh one;
	// otherwise it is that of the first sending.
	LivenessToken bool

	// Retry is written as the SSE field `retry` at the start of every SSE
	// response: the time after which a client should come back. Whole
	// milliseconds. 0: no such field.
	Retry time.Duration

	// Extend, if not nil, is called by [New] with mcp-go's server, before that
	// serves anybody, and may add tools, prompts and resources. [Server.Restart]
	// makes another mcp-go server, and calls it again with that. A tool gets
	// what it needs to ask the client something from [Server.AskOnCall]. What it
	// sends by mcp-go's own means is not stamped; its results are.
	Extend func(*Server, *server.MCPServer)

	// Observe, if not nil, is told everything that the oracle records, when it
	// happens and in the goroutine that did it. It should return soon. It may
	// ask the oracle and call [Server.Inject], but nothing else of the server's
	// that changes something: a stream waits meanwhile.
	Observe func(Record)
}

// validate reports every fault at once.
func (c Config) validate() error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, fmt.Errorf("mcpserver: %s is %v: want %s", field, value, want))
	}
	if c.Listener == nil && c.Addr != "" && !validAddr(c.Addr) {
		fault("Addr", strconv.Quote(c.Addr), "host:port with a port from 0 to 65535")
	}
	if c.SessionTTL < 0 {
		fault("SessionTTL", c.SessionTTL, "0 (sessions never expire) or more")
	}
	if !refreshes.has(c.Refresh) {
		fault("Refresh", c.Refresh, "RefreshPOST, RefreshAny or RefreshNever")
	}
	if c.LogRetention < 0 {
		fault("LogRetention", c.LogRetention, "0 (events are kept for ever) or more")
	}
	if c.MaxEvents < 0 {
		fault("MaxEvents", c.MaxEvents, fmt.Sprintf("0 (%d) or more", DefaultMaxEvents))
	}
	if !unknowns.has(c.UnknownSession) {
		fault("UnknownSession", c.UnknownSession, "one of UnknownNotFound to UnknownReplace")
	}
	if !conflicts.has(c.Conflict) {
		fault("Conflict", c.Conflict, "ConflictTakesOver or ConflictRefused")
	}
	if c.Cookie != "" && (&http.Cookie{Name: c.Cookie, Value: "0"}).Valid() != nil {
		fault("Cookie", strconv.Quote(c.Cookie), "none, or a name that a cookie may have")
	}
	if err := faultsOf(c.Rules); err != nil {
		faults = append(faults, err)
	}
	if !replays.has(c.Replay) {
		fault("Replay", c.Replay, "ReplayExclusive, ReplayInclusive or ReplayFull")
	}
	if !breaks.has(c.OnBreak) {
		fault("OnBreak", c.OnBreak, "BreakKeeps, BreakCancels or BreakCancelsNoted")
	}
	if !validStaleAnswer(c.StaleAnswer) {
		fault("StaleAnswer", c.StaleAnswer, "0 (400), 200 to 299, or 400 to 499 without 404 and 410, which say that the session is dead")
	}
	if c.Retry < 0 || c.Retry%time.Millisecond != 0 {
		fault("Retry", c.Retry, "0 (no hint) or whole milliseconds")
	}
	return errors.Join(faults...)
}

func validStaleAnswer(status int) bool {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return false
	default:
		return status == 0 || status >= 200 && status <= 299 || status >= 400 && status <= 499
	}
}

func validAddr(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// withDefaults is the Config with its zeros replaced by what they mean.
func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if c.MaxEvents == 0 {
		c.MaxEvents = DefaultMaxEvents
	}
	return c
}
