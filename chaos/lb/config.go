package lb

import (
	"context"
	"net"
	"time"
)

// DefaultAddr is where a [LoadBalancer] listens if its [Config] does not say: a
// free port on loopback.
const DefaultAddr = "127.0.0.1:0"

// Unlimited says of a limit that there is none, though the profile has one.
const Unlimited time.Duration = -1

// Config is the settings of a [LoadBalancer]: the same ones for every engine.
// Only an upstream is required. A Config is copied by [New] and may be changed
// afterwards.
//
// In JSON, and in YAML through its JSON form, a Config has the names that its
// tags give, its durations are texts such as "60s", and "none" is [Unlimited].
// Fields without a name there belong to this process.
type Config struct {
	_ struct{}

	// Engine does the balancing. "": [Embedded].
	Engine Engine `json:"engine,omitzero"`

	// Mode is HTTP or TCP. "": the profile's, or else HTTP.
	Mode Mode `json:"mode,omitzero"`

	// Profile fills every knob that is not set with the defaults of some
	// product. "": none.
	Profile Profile `json:"profile,omitzero"`

	// Addr is the TCP address to listen on, as host:port. Port 0 is any free
	// one. "": [DefaultAddr]. Unused if Listener is set.
	Addr string `json:"addr,omitzero"`

	// Listener accepts the clients' connections, in place of a listener of
	// New's own. Once New has succeeded it belongs to the LoadBalancer, which
	// closes it; if New fails it is still the caller's. An engine that is a
	// program takes a [*net.TCPListener] only. nil: listen on Addr.
	Listener net.Listener `json:"-"`

	// Upstream is where every request goes, as host:port. This or Upstreams is
	// required, and not both.
	Upstream string `json:"upstream,omitzero"`

	// Upstreams is where requests go if there are several places, each as
	// host:port, each once.
	Upstreams []string `json:"upstreams,omitzero"`

	// Balance says which of the Upstreams gets a request. "": [RoundRobin].
	Balance Balance `json:"balance,omitzero"`

	// Dial connects to an upstream, for engine embedded only. It has to give up
	// when its context ends: that is when the request that needs the connection
	// is over. nil: a [net.Dialer].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`

	// H2C has the load balancer speak HTTP/2 without TLS, with prior knowledge,
	// and nothing else towards its clients. Engines haproxy and nginx offer it.
	H2C bool `json:"h2c,omitzero"`

	// IdleTimeout is how long a request (in TCP mode: a connection) may be
	// without a byte in either direction: see the package comment. Within it a
	// client also has to complete its request headers, and to send its next
	// request if it keeps its connection. 0: the profile's, or else without
	// limit.
	IdleTimeout time.Duration `json:"idle_timeout,omitzero"`

	// HeaderTimeout is how long an upstream may take to the headers of its
	// response, counted from the end of the request's. What the client sees is
	// HeaderStatus. haproxy and nginx use IdleTimeout for this, so for them it
	// is the same or not set. 0: the profile's, or else without limit.
	HeaderTimeout time.Duration `json:"header_timeout,omitzero"`

	// MaxDuration is how long a whole exchange (in TCP mode: a connection) may
	// take, however busy it is, counted from the end of the request's headers.
	// 0: the profile's, or else without limit.
	MaxDuration time.Duration `json:"max_duration,omitzero"`

	// Buffering keeps a response back until 8 KiB of it have come, its headers
	// too, or its end. A limit that is reached meanwhile shows the client the
	// headers and none of what was kept, as nginx does. A response that says
	// `X-Accel-Buffering: no` is not kept back. nil: the profile's, or else
	// false.
	Buffering *bool `json:"buffering,omitzero"`

	// OnExpiry is what a client sees when a limit is reached in the middle of a
	// response. 0: the profile's, or else what the engine does: a FIN, but
	// towards h2c clients haproxy ends cleanly and nginx resets the stream.
	OnExpiry Expiry `json:"on_expiry,omitzero"`

	// HeaderStatus is what a client is answered that has no response headers yet
	// when a limit is reached. 0: that of OnExpiry where it is a status, the
	// profile's, or else 504.
	HeaderStatus int `json:"header_status,omitzero"`

	// Observe, if not nil, is told what happens to each request (in TCP mode:
	// connection). It is called synchronously, never under a lock: by engine
	// embedded in the goroutine that serves the request, so from several at
	// once, and holding up only that request; by the others in one goroutine
	// that reads the program's log, so after the fact, and once for each request:
	// see [Event]. It may call [LoadBalancer.Cut]; it must not wait for Run to
	// return. All calls have returned when Run returns.
	Observe func(Event) `json:"-"`
}

// upstreams returns where requests go.
func (c *Config) upstreams() []string {
	if c.Upstream != "" {
		return []string{c.Upstream}
	}
	return c.Upstreams
}
