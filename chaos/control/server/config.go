package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/revenant-mcp/revenant/chaos/control"
)

// MinToken is how many characters a token has at least.
const MinToken = 16

// Config is what a [Server] needs.
type Config struct {
	_ struct{}

	// Backend does it. Required.
	Backend control.Backend
	// Unix says that requests come over a Unix socket: they need no token, and may
	// name any host.
	Unix bool
	// Token is what requests have to bring otherwise: visible characters of ASCII,
	// at least MinToken of them, and better random. Required without Unix, and
	// refused with it, where nobody would ask for it.
	Token string
	// AllowedHosts are names or addresses by which the server may be asked for,
	// without a port, besides localhost, 127.0.0.1 and ::1.
	AllowedHosts []string
	// Log gets a line for each request and for whatever goes wrong. Nil: nowhere.
	Log *slog.Logger
	// Metrics are shown at /metrics besides the server's own. Nil: none.
	Metrics prometheus.Gatherer
}

// Server answers requests. It is an [http.Handler]; [Server.Serve] is the way to
// serve it.
type Server struct {
	// Immutable after New.
	backend control.Backend
	log     *slog.Logger
	door    *door
	origins *http.CrossOriginProtection
	metrics *metrics
	mux     *http.ServeMux
}

// New returns a Server. It reports every fault of cfg at once.
func New(cfg Config) (*Server, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("server: "+format, args...))
	}
	if cfg.Backend == nil {
		fault("Backend is nil, want one")
	}
	switch {
	case cfg.Unix && cfg.Token != "":
		fault("Token is set with Unix, where nobody has to bring it; leave one of them away")
	case !cfg.Unix && len(cfg.Token) < MinToken:
		fault("Token has %d characters, want at least %d", len(cfg.Token), MinToken)
	case strings.ContainsFunc(cfg.Token, func(r rune) bool { return r < '!' || r > '~' }):
		fault("Token has characters that cannot be sent in a header, want visible ones of ASCII")
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, h := range cfg.AllowedHosts {
		host, ok := hostName(h)
		if !ok {
			fault("AllowedHosts has %q, want a name or an address without a port, such as \"chaos.example.com\"", h)
		}
		hosts[host] = true
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if cfg.Unix {
		hosts = nil
	}
	s := &Server{
		backend: cfg.Backend,
		log:     cfg.Log,
		door:    newDoor(cfg.Token, cfg.Unix, hosts),
		origins: http.NewCrossOriginProtection(),
		metrics: newMetrics(cfg.Metrics),
	}
	if s.log == nil {
		s.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s.mux = s.newMux()
	return s, nil
}

// hostName is a host as it is compared, if it can be one. An address of IPv6 may
// be in brackets.
func hostName(host string) (string, bool) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.String(), true
	}
	for _, c := range []byte(host) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return "", false
		}
	}
	return host, host != ""
}
