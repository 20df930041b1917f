package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Kind says which client it is. Its text is its value.
type Kind string

// The kinds.
const (
	GoSDK Kind = "gosdk" // github.com/modelcontextprotocol/go-sdk
	MCPGo Kind = "mcpgo" // github.com/mark3labs/mcp-go
	Naive Kind = "naive" // plain net/http, of ours
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{GoSDK, MCPGo, Naive} }

// ProtocolVersion is what all clients are pinned to: the latest version of MCP
// that has sessions.
const ProtocolVersion = "2025-11-25"

const (
	// DefaultRetry is how long [Naive] waits before a reconnect where the server
	// does not say.
	DefaultRetry = time.Second
	// DefaultCloseTimeout is how long [Client.Close] lets a client end in order.
	DefaultCloseTimeout = 2 * time.Second
)

// Config says what a [Client] is and whom it talks to.
type Config struct {
	_ struct{}

	// Kind is which client it is. Required.
	Kind Kind
	// Endpoint is the absolute URL of the MCP endpoint. Required.
	Endpoint string
	// Transport sends the requests: the middleware or a bare transport, over
	// [Log.Wire]. Required. It is the caller's, who closes its idle connections.
	Transport http.RoundTripper
	// Log is told everything. Required, and of this client alone.
	Log *Log
	// Person answers what the server asks. The zero Person accepts at once.
	Person Person
	// CallsOnly leaves out the standalone stream.
	CallsOnly bool
	// Cookies has the client keep cookies, as affinity by cookie needs it.
	Cookies bool
	// Reinitialize has the client begin a new session when it is told that its
	// session is over: once for each, and without a retry if that fails. Calls
	// made meanwhile wait for it. The old session is closed after that, as by an
	// application whose other goroutines do not know yet.
	Reinitialize bool
	// Retry is how long [Naive] waits before a reconnect where the server does
	// not say. 0: [DefaultRetry]. The others have delays of their own.
	Retry time.Duration
	// CloseTimeout is how long [Client.Close] lets a client end in order, which
	// for a living session is one DELETE. 0: [DefaultCloseTimeout].
	CloseTimeout time.Duration
}

// validate reports every fault at once.
func (c Config) validate() error {
	var faults []error
	fault := func(wrong bool, field string, value any, want string) {
		if wrong {
			faults = append(faults, fmt.Errorf("client: %s is %v: want %s", field, value, want))
		}
	}
	fault(!slices.Contains(Kinds(), c.Kind), "Kind", fmt.Sprintf("%q", c.Kind), fmt.Sprintf("one of %q", Kinds()))
	u, err := url.Parse(c.Endpoint)
	fault(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https", "Endpoint", fmt.Sprintf("%q", c.Endpoint), "an absolute URL of http or https")
	fault(c.Transport == nil, "Transport", nil, "the middleware, or a bare transport")
	fault(c.Log == nil, "Log", nil, "one of NewLog")
	fault(c.Retry < 0, "Retry", c.Retry, fmt.Sprintf("0 (%v) or more", DefaultRetry))
	fault(c.CloseTimeout < 0, "CloseTimeout", c.CloseTimeout, fmt.Sprintf("0 (%v) or more", DefaultCloseTimeout))
	if err := c.Person.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// withDefaults is the Config with its zeros replaced by what they mean.
func (c Config) withDefaults() Config {
	if c.Retry == 0 {
		c.Retry = DefaultRetry
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	c.Person.Replies = slices.Clone(c.Person.Replies)
	return c
}
