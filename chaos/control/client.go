package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultUserAgent is what a [Client] calls itself, unless told otherwise.
const DefaultUserAgent = "revenant"

// ClientConfig says where a daemon is and how to talk to it.
type ClientConfig struct {
	_ struct{}

	// Socket is the path of the daemon's Unix socket, Endpoint its address as a
	// URL, such as "http://127.0.0.1:8700". One of the two.
	Socket, Endpoint string
	// Token is the bearer token that a daemon wants that is not on a Unix socket.
	Token string
	// UserAgent is for the daemon's log. Empty: DefaultUserAgent.
	UserAgent string
	// HTTPClient is used for an Endpoint in place of the client's own, which uses
	// no proxy. It is not changed, and redirects are not followed with it either.
	HTTPClient *http.Client
}

// Client talks to a daemon. It is a [Backend], the daemon's own from afar: its
// errors are a *[Problem] that the daemon answers, or of the way to it. A context
// is the only limit of time that it sets for a request. Its methods may be called
// from any goroutine.
type Client struct {
	// Immutable after New.
	base  string // scheme and host
	where string // for errors
	token string
	agent string
	http  http.Client
	own   *http.Transport // nil for somebody else's
}

var _ Backend = (*Client)(nil)

// New returns a Client, and connects to nothing yet. It reports every fault of
// cfg at once.
func New(cfg ClientConfig) (*Client, error) {
	c := &Client{token: cfg.Token, agent: cfg.UserAgent}
	if c.agent == "" {
		c.agent = DefaultUserAgent
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("control: "+format, args...))
	}
	switch {
	case cfg.Socket != "" && cfg.Endpoint != "":
		fault("Socket is %q and Endpoint %q, want one of the two", cfg.Socket, cfg.Endpoint)
	case cfg.Socket != "":
		c.base, c.where = "http://localhost", cfg.Socket
		if cfg.HTTPClient != nil {
			fault("HTTPClient is for an Endpoint; a Socket has its own")
		}
	case cfg.Endpoint != "":
		base, problem := endpoint(cfg.Endpoint)
		if problem != "" {
			fault("Endpoint %q %s, want a URL such as \"http://127.0.0.1:8700\"", redacted(cfg.Endpoint), problem)
		}
		c.base, c.where = base, base
	default:
		fault("neither Socket nor Endpoint is set, want one of the two")
	}
	// The value of a header; the token itself is not for an error.
	if !visible(cfg.Token) {
		fault("Token has characters that cannot be sent in a header, want visible ones of ASCII")
	}
	if strings.ContainsFunc(c.agent, func(r rune) bool { return r < ' ' || r > '~' }) {
		fault("UserAgent %q has characters that cannot be sent in a header, want ASCII", c.agent)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if cfg.HTTPClient != nil {
		c.http = *cfg.HTTPClient
	} else {
		c.own = transport(cfg.Socket)
		c.http.Transport = c.own
	}
	// A redirect would carry the token to whoever it names.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// transport connects to a socket, or for "" to whatever a request names.
func transport(socket string) *http.Transport {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	t := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
	}
	if socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// endpoint returns the scheme and host of a daemon's address, or what is wrong.
func endpoint(address string) (base, problem string) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "", "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "is not http or https"
	case u.Host == "" || u.Hostname() == "":
		return "", "has no host"
	case u.User != nil:
		return "", "has a user in it, where the token belongs in Token"
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", "has more than a host and a port"
	}
	return u.Scheme + "://" + u.Host, ""
}

// redacted is an address without what may be a password in it.
func redacted(address string) string {
	if _, after, ok := strings.Cut(address, "@"); ok {
		return "…@" + after
	}
	return address
}

func visible(token string) bool {
	return !strings.ContainsFunc(token, func(r rune) bool { return r < '!' || r > '~' })
}

// Close ends connections that nobody uses. The Client can still be used.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// A VersionError says that a daemon speaks another version of this contract.
type VersionError struct {
	// Want is [API], and Info what the daemon says of itself.
	Want int
	Info Info
}

// Error names both versions and what to do.
func (e *VersionError) Error() string {
	newer := "the daemon"
	if e.Info.API < e.Want {
		newer = "this program"
	}
	return fmt.Sprintf("control: the daemon (version %.64q, process %d) speaks version %d of the API and this program %d: %s is newer; stop the daemon and start it from the same version as this program",
		e.Info.Version, e.Info.PID, e.Info.API, e.Want, newer)
}

// Handshake returns what a daemon says of itself, and a [*VersionError] if it
// cannot be understood by this Client.
func (c *Client) Handshake(ctx context.Context) (Info, error) {
	info, err := c.Info(ctx)
	if err == nil && info.API != API {
		err = &VersionError{Want: API, Info: info}
	}
	return info, err
}
