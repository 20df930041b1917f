package lb

import (
	"fmt"
	"slices"
	"strings"
)

// Engine is what does the balancing. Its text is its value, and "" is
// [Embedded].
type Engine string

// The engines. What each of them cannot do, [Config.Validate] refuses.
const (
	// Embedded runs in this process. It has every knob, and cuts to the byte.
	Embedded Engine = "embedded"
	// HAProxy runs the program haproxy as a child process.
	HAProxy Engine = "haproxy"
	// NGINX runs the program nginx as a child process, in HTTP mode only.
	NGINX Engine = "nginx"
)

// Mode is the layer at which a load balancer works. Its text is its value, and
// "" is the profile's, or else [HTTP].
type Mode string

const (
	// HTTP balances requests: it reads them and their responses.
	HTTP Mode = "http"
	// TCP balances connections, and knows nothing of what is in them.
	TCP Mode = "tcp"
)

// Balance says which of several upstreams gets a request (in TCP mode: a
// connection). Its text is its value, and "" is [RoundRobin]. An upstream that
// cannot be connected to is passed over.
type Balance string

const (
	// RoundRobin takes the upstreams in turn.
	RoundRobin Balance = "round_robin"
	// CookieAffinity sets a cookie, [AffinityCookie], that names the upstream,
	// and follows it when a client sends it. The upstreams do not see it.
	CookieAffinity Balance = "cookie"
	// SessionAffinity keeps a session with one upstream: the one whose response
	// gave the client its Mcp-Session-Id, and for an id that no response has
	// given, the one that got the id first. It forgets the oldest of more than
	// 100,000 sessions.
	SessionAffinity Balance = "session"
)

// AffinityCookie is the name of the cookie of [CookieAffinity].
const AffinityCookie = "revenant-lb"

// sessionHeader is what [SessionAffinity] goes by.
const sessionHeader = "Mcp-Session-Id"

// maxSessions is how many sessions SessionAffinity remembers.
const maxSessions = 100_000

var (
	engines  = []Engine{Embedded, HAProxy, NGINX}
	modes    = []Mode{HTTP, TCP}
	balances = []Balance{RoundRobin, CookieAffinity, SessionAffinity}
)

// Engines returns all engines, whether or not this machine has their programs:
// see [Available].
func Engines() []Engine { return slices.Clone(engines) }

// UnmarshalText sets e to the engine of this name, "" included. On an error e
// keeps its value.
func (e *Engine) UnmarshalText(text []byte) error { return setName(e, "engine", text, engines) }

// UnmarshalText sets m to the mode of this name, "" included. On an error m
// keeps its value.
func (m *Mode) UnmarshalText(text []byte) error { return setName(m, "mode", text, modes) }

// UnmarshalText sets b to the balance of this name, "" included. On an error b
// keeps its value.
func (b *Balance) UnmarshalText(text []byte) error { return setName(b, "balance", text, balances) }

// UnmarshalText sets p to the profile of this name, "" included. On an error p
// keeps its value.
func (p *Profile) UnmarshalText(text []byte) error { return setName(p, "profile", text, Profiles()) }

func setName[T ~string](dst *T, what string, text []byte, known []T) error {
	if name := T(text); name == "" || slices.Contains(known, name) {
		*dst = name
		return nil
	}
	return fmt.Errorf("lb: %s is %q, want %s", what, text, oneOf(known))
}

// oneOf lists names for an error: "a", "b" or "c".
func oneOf[T ~string](names []T) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
