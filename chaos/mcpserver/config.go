package mcpserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	// DefaultAddr is where a server listens whose Config names no address.
	DefaultAddr = "127.0.0.1:0"
	// DefaultMaxEvents is how many events the log keeps of one session.
	DefaultMaxEvents = 10_000
)

// Refresh says which requests give a session its full SessionTTL again.
type Refresh uint8

const (
	// RefreshPOST: the POSTs for which mcp-go asks the session store. It does
	// not for a POST that it refuses first, nor for one with an empty result.
	RefreshPOST Refresh = iota
	// RefreshAny: every request that carries the session's id. What is sent
	// on a stream that is open already refreshes nothing.
	RefreshAny
	// RefreshNever: none; a session ends SessionTTL after its beginning.
	RefreshNever
)

var refreshNames = [...]string{RefreshPOST: "post", RefreshAny: "any", RefreshNever: "never"}

// ParseRefresh is the inverse of [Refresh.String].
func ParseRefresh(text string) (Refresh, error) {
	for r, name := range refreshNames {
		if name == text {
			return Refresh(r), nil
		}
	}
	return 0, fmt.Errorf("mcpserver: refresh is %q: want %q, %q or %q", text, refreshNames[0], refreshNames[1], refreshNames[2])
}

func (r Refresh) valid() bool { return int(r) < len(refreshNames) }

// String is "post", "any" or "never".
func (r Refresh) String() string {
	if !r.valid() {
		return fmt.Sprintf("Refresh(%d)", uint8(r))
	}
	return refreshNames[r]
}

// MarshalText writes what [ParseRefresh] reads. It fails for a value that is
// none of the constants.
func (r Refresh) MarshalText() ([]byte, error) {
	if !r.valid() {
		return nil, fmt.Errorf("mcpserver: %s has no text", r)
	}
	return []byte(r.String()), nil
}

// UnmarshalText is [ParseRefresh].
func (r *Refresh) UnmarshalText(text []byte) error {
	parsed, err := ParseRefresh(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}

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

	// Retry is written as the SSE field `retry` at the start of every SSE
	// response: the time after which a client should come back. Whole
	// milliseconds. 0: no such field.
	Retry time.Duration

	// Observe, if not nil, is told everything that the oracle records, when it
	// happens and in the goroutine that did it. It should return soon. It may
	// ask the oracle, but must not call [Server.Emit]: a stream waits meanwhile.
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
	if !c.Refresh.valid() {
		fault("Refresh", c.Refresh, "RefreshPOST, RefreshAny or RefreshNever")
	}
	if c.LogRetention < 0 {
		fault("LogRetention", c.LogRetention, "0 (events are kept for ever) or more")
	}
	if c.MaxEvents < 0 {
		fault("MaxEvents", c.MaxEvents, fmt.Sprintf("0 (%d) or more", DefaultMaxEvents))
	}
	if c.Retry < 0 || c.Retry%time.Millisecond != 0 {
		fault("Retry", c.Retry, "0 (no hint) or whole milliseconds")
	}
	return errors.Join(faults...)
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
