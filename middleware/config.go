package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"time"
)

// Defaults of [Config]: what a zero field means.
const (
	DefaultSessionHeader   = "Mcp-Session-Id"
	DefaultProbeTimeout    = 5 * time.Second
	DefaultProbeBudget     = 15 * time.Second
	DefaultAmbiguousRounds = 3
	DefaultMaxHeldBytes    = 1 << 20
	DefaultMaxEventBytes   = 16 << 20
	DefaultMaxSessions     = 4096
	DefaultStaleGrace      = time.Minute
)

// Bounds of [Config]. They keep a slip of the keyboard from switching the
// middleware off or from making it hang.
const (
	maxProbeBudget     = 10 * time.Minute
	maxAmbiguousRounds = 1000
	minEventBytes      = 256
	maxEventBytes      = 1 << 30
	maxLease           = 24 * time.Hour
	maxMaxSessions     = 1 << 24
	maxStaleGrace      = 24 * time.Hour
)

// Terminal says how a client learns that its session is over.
type Terminal uint8

const (
	// TerminalResponse, the zero value, answers 404 with a body of type
	// application/problem+json: the answer on which the specification tells
	// clients to initialize again, and on which the Go SDKs do.
	TerminalResponse Terminal = iota
	// TerminalError returns the [*SessionResumptionError] from RoundTrip. Most
	// SDKs take an error for a broken network and retry.
	TerminalError
)

// Config is the settings of a [Transport]. The zero Config is safe and
// complete. A Config is copied by [New] and may be changed afterwards.
type Config struct {
	_ struct{}

	// Base sends every request, the probe's included. nil:
	// [http.DefaultTransport]. A Base that allows a single connection to a
	// host (MaxConnsPerHost: 1 over HTTP/1.1) leaves none for the probe, which
	// then ends undecided.
	Base http.RoundTripper

	// SessionHeader names the header that carries the session id. "":
	// [DefaultSessionHeader].
	SessionHeader string

	// Probe is the request that the server must check against its session
	// store. The zero value is a JSON-RPC ping by POST.
	Probe Probe

	// ProbeTimeout bounds one attempt of a probe. 0: [DefaultProbeTimeout].
	// At most ProbeBudget.
	ProbeTimeout time.Duration

	// ProbeBudget bounds all attempts of one hold, and also all attempts of
	// one reconnecting GET before its replay opens. 0: [DefaultProbeBudget],
	// or ProbeTimeout if that is longer. At most 10 minutes.
	ProbeBudget time.Duration

	// AmbiguousRounds is how many reconnects in a row may end without a
	// verdict before the session is declared unusable. 0:
	// [DefaultAmbiguousRounds]. 1 to 1000. go-sdk gives a stream up after 5
	// rounds without progress of its own.
	AmbiguousRounds int

	// MaxHeldBytes bounds what is held of one replay. What comes after that is
	// left on the connection until there is a verdict; it is not dropped. 0:
	// [DefaultMaxHeldBytes]. 256 bytes to 1 GiB.
	MaxHeldBytes int

	// MaxEventBytes bounds one event, held or not: an event is handed on whole
	// and so has to fit into memory. 0: [DefaultMaxEventBytes]. 256 bytes to
	// 1 GiB.
	MaxEventBytes int

	// LivenessLease, if not 0, lets events through only within that time of
	// the last proof of life: a Live probe, or a 200 answer to a request of
	// the client's. When it has run out, what arrives next is held and the
	// session probed. A probe prolongs a session on many servers. At most 24
	// hours.
	LivenessLease time.Duration

	// Pending says what becomes of server-to-client requests that come again.
	Pending Pending

	// StaleGrace is how long after the server has taken the answer to a
	// request, or to a later one of the same call, that request must still be
	// replayed, at least twice and with nothing else on its stream, before the
	// server is held to have stopped waiting. While the application has another
	// request of the call to answer, it is not. 0: [DefaultStaleGrace]. At most
	// 24 hours.
	StaleGrace time.Duration

	// LivenessAssertion reports whether a replayed request says by itself that
	// the server still waits for it. It is asked about a request whose answer
	// was lost on the way, and with PendingStrict about every one that has come
	// before; if so, the request is delivered once more. It must be safe for
	// concurrent use. nil: the `_meta` entry revenant/livenessToken is there
	// and differs from the one that was first delivered.
	LivenessAssertion func(ReplayedRequest) bool

	// Terminal says how a client learns that its session is over.
	Terminal Terminal

	// Observe, if not nil, is told everything that the middleware decides. It
	// is called synchronously on the goroutine that decides, never under a
	// lock, and from several goroutines at once. It delays the stream for as
	// long as it runs.
	Observe func(Event)

	// MaxSessions bounds the sessions of which state is kept, and, apart from
	// them, the fences. The least recently used is forgotten first; a
	// forgotten session is guarded again from its next reconnect that carries
	// a cursor, and a forgotten fence costs the wire one request. 0:
	// [DefaultMaxSessions]. At most 16,777,216.
	MaxSessions int
}

// compile returns c with its defaults filled in, or every fault of it.
func (c Config) compile() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("middleware: Config."+format, args...))
	}

	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	if c.SessionHeader == "" {
		c.SessionHeader = DefaultSessionHeader
	}
	if !validToken(c.SessionHeader) {
		fault("SessionHeader is %q, want a header name such as %q", c.SessionHeader, DefaultSessionHeader)
	}
	c.SessionHeader = textproto.CanonicalMIMEHeaderKey(c.SessionHeader)

	if c.ProbeTimeout < 0 {
		fault("ProbeTimeout is %v, want 0 for %v, or more", c.ProbeTimeout, DefaultProbeTimeout)
	}
	if c.ProbeBudget < 0 || c.ProbeBudget > maxProbeBudget {
		fault("ProbeBudget is %v, want 0 for %v, or up to %v", c.ProbeBudget, DefaultProbeBudget, maxProbeBudget)
	}
	switch {
	case c.ProbeTimeout == 0 && c.ProbeBudget == 0:
		c.ProbeTimeout, c.ProbeBudget = DefaultProbeTimeout, DefaultProbeBudget
	case c.ProbeTimeout == 0:
		c.ProbeTimeout = min(DefaultProbeTimeout, c.ProbeBudget)
	case c.ProbeBudget == 0:
		c.ProbeBudget = min(max(DefaultProbeBudget, c.ProbeTimeout), maxProbeBudget)
	}
	if c.ProbeTimeout > c.ProbeBudget && c.ProbeBudget > 0 {
		fault("ProbeTimeout is %v, want at most ProbeBudget, %v", c.ProbeTimeout, c.ProbeBudget)
	}

	number := func(name string, v *int, def, least, most int) {
		if *v == 0 {
			*v = def
		}
		if *v < least || *v > most {
			fault("%s is %d, want 0 for %d, or %d to %d", name, *v, def, least, most)
		}
	}
	number("AmbiguousRounds", &c.AmbiguousRounds, DefaultAmbiguousRounds, 1, maxAmbiguousRounds)
	number("MaxHeldBytes", &c.MaxHeldBytes, DefaultMaxHeldBytes, minEventBytes, maxEventBytes)
	number("MaxEventBytes", &c.MaxEventBytes, DefaultMaxEventBytes, minEventBytes, maxEventBytes)
	number("MaxSessions", &c.MaxSessions, DefaultMaxSessions, 1, maxMaxSessions)

	if c.LivenessLease < 0 || c.LivenessLease > maxLease {
		fault("LivenessLease is %v, want 0 for off, or up to %v", c.LivenessLease, maxLease)
	}
	if c.Pending > PendingOff {
		fault("Pending is %d, want PendingReconcile, PendingStrict or PendingOff", c.Pending)
	}
	if c.StaleGrace == 0 {
		c.StaleGrace = DefaultStaleGrace
	}
	if c.StaleGrace < 0 || c.StaleGrace > maxStaleGrace {
		fault("StaleGrace is %v, want 0 for %v, or up to %v", c.StaleGrace, DefaultStaleGrace, maxStaleGrace)
	}
	if c.LivenessAssertion == nil {
		c.LivenessAssertion = freshToken
	}
	if c.Terminal > TerminalError {
		fault("Terminal is %d, want TerminalResponse or TerminalError", c.Terminal)
	}
	faults = append(faults, c.Probe.faults()...)
	c.Probe.LiveErrorCodes = slices.Clone(c.Probe.LiveErrorCodes)
	c.Probe.DeadStatusCodes = slices.Clone(c.Probe.DeadStatusCodes)
	return c, errors.Join(faults...)
}

// validToken reports whether s is a token of RFC 9110 section 5.6.2, which a
// header name must be.
func validToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case c == '-', c == '_', c == '.', c == '!', c == '#', c == '$', c == '%', c == '&',
			c == '\'', c == '*', c == '+', c == '^', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return s != ""
}
