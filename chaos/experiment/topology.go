package experiment

import (
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Topology is what the clients talk to.
type Topology struct {
	_ struct{}

	// Servers are the MCP servers: one, or several replicas over one event log.
	Servers Servers `json:"servers,omitzero"`

	// LoadBalancer stands between the clients and the servers. Default: none, and
	// the clients talk to the one server.
	LoadBalancer *LoadBalancer `json:"load_balancer,omitzero"`

	// Links are where faults of the links can act: front is between the clients
	// and the load balancer, or the server if there is none; back between the load
	// balancer and each server. Default: none.
	Links []LinkName `json:"links,omitzero" check:"max=2"`

	// Network is what is between the clients and everything else. none is this
	// machine's loopback. namespaces is a network of the Linux kernel's, with a
	// router that drops real packets; it takes the right to make one. Default:
	// none.
	Network Network `json:"network,omitzero"`
}

// LinkName says where a link is.
type LinkName string

// The links.
const (
	Front LinkName = "front" // between the clients and the load balancer
	Back  LinkName = "back"  // between the load balancer and each server
)

// Network says what the network is made of. "" is [Loopback].
type Network string

// The networks.
const (
	Loopback   Network = "none"       // that of this machine
	Namespaces Network = "namespaces" // three network namespaces of the kernel's
)

// Servers is the settings of the MCP servers. See the package mcpserver for what
// each does on the wire.
type Servers struct {
	_ struct{}

	// Replicas is how many there are, all with the same event log, up to 64. More
	// than one takes a load balancer. Default: 1.
	Replicas int `json:"replicas,omitzero" check:"min=1,max=64"`

	// SharedSessions is whether every replica knows every session. Otherwise a
	// session is known to the replica where it began, and to the others it is an
	// unknown one.
	SharedSessions bool `json:"shared_sessions,omitzero"`

	// SessionTTL is how long a session lives after its last refresh. Default: for
	// ever.
	SessionTTL Duration `json:"session_ttl,omitzero" check:"real=20ms"`

	// Refresh says what prolongs a session: post, any request that is a POST; any,
	// each request; never. Default: post.
	Refresh mcpserver.Refresh `json:"refresh,omitzero"`

	// LogRetention is how long the log keeps an event, whether its session lives
	// or not. Default: for ever.
	LogRetention Duration `json:"log_retention,omitzero" check:"real=20ms"`

	// MaxEvents is how many events the log keeps of one session. Default: 10000.
	MaxEvents int `json:"max_events,omitzero" check:"min=1,max=1000000"`

	// UnknownSession is what a request of a dead or unknown session gets:
	// not_found (404), gone (410), bad_request (400), unauthorized (401),
	// unavailable (503), error_in_200, adopt (the session is taken for a living
	// one) or replace (another session is put in its place). Default: not_found.
	UnknownSession mcpserver.UnknownSession `json:"unknown_session,omitzero"`

	// GETChecksSession makes a GET of a dead session get what its POSTs get.
	// Otherwise GETs ask the log alone, which is the defect.
	GETChecksSession bool `json:"get_checks_session,omitzero"`

	// Conflict is what a GET gets for a stream that is attached to another
	// connection: takes_over, the stream; refused, 409. Default: takes_over.
	Conflict mcpserver.Conflict `json:"conflict,omitzero"`

	// Rules make certain requests go wrong, from the beginning on. A step can add
	// another.
	Rules []Rule `json:"rules,omitzero" check:"max=50"`

	// Cookie is the name of a cookie that the server sets with every answer, its
	// value the number of the replica. Default: none.
	Cookie string `json:"cookie,omitzero" check:"max=64"`

	// Replay says where the replay of a resumed stream begins: exclusive, after
	// the event that the cursor names; inclusive, with that event; full, with the
	// stream's first. Default: exclusive.
	Replay mcpserver.Replay `json:"replay,omitzero"`

	// OnBreak says what becomes of the requests that a server has pending on a
	// stream that breaks: keeps, they stay pending; cancels, the server waits no
	// longer and does not say so; cancels_noted, it says so. Default: keeps.
	OnBreak mcpserver.OnBreak `json:"on_break,omitzero"`

	// StaleAnswer is the status for an answer for which the server does not wait:
	// 200 to 299, or 400 to 499 without 404 and 410. Default: 400, or 202 for an
	// empty result.
	StaleAnswer int `json:"stale_answer,omitzero" check:"min=200,max=499"`

	// LivenessToken gives every request of the server's a token, and a fresh one
	// to each replay of one that is still pending.
	LivenessToken bool `json:"liveness_token,omitzero"`

	// Retry is the time after which a client should come back, sent on every
	// stream. Without it the clients' own delays hold, of a second and more in
	// real time, whatever the time scale is. Default: none.
	Retry Duration `json:"retry,omitzero" check:"real=10ms"`
}

// LoadBalancer is the settings of the load balancer. See the package lb for what
// each does on the wire, and docs/load-balancers.md for the profiles.
type LoadBalancer struct {
	_ struct{}

	// Engine is what does the balancing: embedded, in this process; haproxy or
	// nginx, the real program, if it is installed. Default: embedded.
	Engine lb.Engine `json:"engine,omitzero"`

	// Mode is the layer at which it works: http or tcp. Default: the profile's, or
	// else http.
	Mode lb.Mode `json:"mode,omitzero"`

	// Profile fills what is not set with the defaults of some product. Default:
	// none.
	Profile lb.Profile `json:"profile,omitzero"`

	// Balance says which replica gets a request: round_robin, in turn; cookie, the
	// one that a cookie names; session, the one where the session began. Default:
	// round_robin.
	Balance lb.Balance `json:"balance,omitzero"`

	// H2C has it speak HTTP/2 without TLS to the clients. Engines haproxy and nginx
	// can.
	H2C bool `json:"h2c,omitzero"`

	// IdleTimeout is how long a request, in mode tcp a connection, may be without
	// a byte in either direction. none: without limit though the profile has one.
	// Default: the profile's, or else none.
	IdleTimeout Limit `json:"idle_timeout,omitzero" check:"real=20ms"`

	// HeaderTimeout is how long a server may take to the headers of its response.
	// Default: the profile's, or else none.
	HeaderTimeout Limit `json:"header_timeout,omitzero" check:"real=20ms"`

	// MaxDuration is how long a whole exchange may take, however busy it is.
	// Default: the profile's, or else none.
	MaxDuration Limit `json:"max_duration,omitzero" check:"real=20ms"`

	// Buffering keeps a response back until 8 KiB of it have come. Default: the
	// profile's, or else false.
	Buffering *bool `json:"buffering,omitzero"`

	// OnExpiry is what a client sees when a limit is reached in the middle of a
	// response: fin, rst, clean_end, silent, silent_then_rst, or a status from 400
	// to 599 for those who have no headers yet. Default: the profile's, or else
	// what the engine does.
	OnExpiry lb.Expiry `json:"on_expiry,omitzero"`

	// HeaderStatus is what a client is answered that has no response headers yet
	// when a limit is reached. Default: the profile's, or else 504.
	HeaderStatus int `json:"header_status,omitzero" check:"min=400,max=599"`
}
