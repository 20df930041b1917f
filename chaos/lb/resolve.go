package lb

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxProgramTimeout is the longest limit that haproxy and nginx can count: less
// than 2^31 milliseconds.
const maxProgramTimeout = 24 * 24 * time.Hour

// Validate returns every fault of c at once, or nil: [New] refuses the same, and
// besides what depends on the machine, such as a port in use or a program that
// is missing.
func (c Config) Validate() error {
	_, err := c.Resolve()
	return err
}

// Resolve returns c with its profile and its defaults filled in, for a log or a
// comparison: the Profile of the result is "", and the result resolves to
// itself. It returns every fault of c at once.
func (c Config) Resolve() (Config, error) {
	r := resolver{Config: c}
	if !slices.Contains(append(engines, ""), c.Engine) {
		r.fault("Engine is %q, want %s", c.Engine, oneOf(engines))
	}
	if !slices.Contains(append(modes, ""), c.Mode) {
		r.fault("Mode is %q, want %s", c.Mode, oneOf(modes))
	}
	if !slices.Contains(append(balances, ""), c.Balance) {
		r.fault("Balance is %q, want %s", c.Balance, oneOf(balances))
	}
	if c.Profile != "" && !slices.Contains(Profiles(), c.Profile) {
		r.fault("Profile is %q, want %s", c.Profile, oneOf(Profiles()))
	}
	r.addresses()
	r.limits()
	if c.OnExpiry != 0 && !c.OnExpiry.valid() {
		r.fault("OnExpiry is %v, want %s", c.OnExpiry, wantExpiry)
	}
	if c.HeaderStatus != 0 && Expiry(c.HeaderStatus).Status() != c.HeaderStatus {
		r.fault("HeaderStatus is %d, want 0, or a status from 400 to 599", c.HeaderStatus)
	}
	if s := c.OnExpiry.Status(); s != 0 && c.HeaderStatus != 0 && c.HeaderStatus != s {
		r.fault("HeaderStatus is %d and OnExpiry %v, want one status", c.HeaderStatus, c.OnExpiry)
	}
	if len(r.faults) > 0 { // the engine's objections would be about values that are wrong themselves
		return Config{}, errors.Join(r.faults...)
	}
	r.fill()
	r.refuse()
	return r.Config, errors.Join(r.faults...)
}

// resolver is a Config on its way.
type resolver struct {
	Config
	faults []error
}

func (r *resolver) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("lb: Config."+format, args...))
}

func (r *resolver) addresses() {
	if r.Addr == "" {
		r.Addr = DefaultAddr
	}
	if _, err := splitAddr(r.Addr); err != nil {
		r.fault("Addr is %q, want host:port: %w", r.Addr, err)
	}
	if r.Upstream != "" && len(r.Upstreams) > 0 {
		r.fault("Upstream is %q and Upstreams %q, want one of the two", r.Upstream, r.Upstreams)
		return
	}
	if len(r.Upstreams) == 0 {
		r.upstream("Upstream", r.Upstream)
	}
	r.Upstreams = slices.Clone(r.Upstreams)
	for i, addr := range r.Upstreams {
		r.upstream(fmt.Sprintf("Upstreams[%d]", i), addr)
		if slices.Index(r.Upstreams, addr) < i {
			r.fault("Upstreams[%d] is %q, want each once", i, addr)
		}
	}
}

func (r *resolver) upstream(field, addr string) {
	if addr == "" {
		r.fault("%s is empty, want host:port", field)
	} else if port, err := splitAddr(addr); err != nil {
		r.fault("%s is %q, want host:port: %w", field, addr, err)
	} else if port == 0 || addr[0] == ':' {
		r.fault("%s is %q, want a host, and a port from 1 to 65535", field, addr)
	} else if host, _, _ := net.SplitHostPort(addr); strings.Trim(host, hostChars) != "" {
		r.fault("%s is %q, want the name of a host, or an IP address", field, addr)
	}
}

// hostChars are those of names and of addresses. Others mean something in the
// configuration of a program.
const hostChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%"

func (r *resolver) limits() {
	for _, l := range r.Config.limits() {
		if *l.value < 0 && *l.value != Unlimited {
			r.fault("%s is %v, want 0 for no limit of its own, Unlimited, or more", l.field, *l.value)
		}
	}
}

// limits are the fields that are limits.
func (c *Config) limits() []limit {
	return []limit{
		{"IdleTimeout", &c.IdleTimeout},
		{"HeaderTimeout", &c.HeaderTimeout},
		{"MaxDuration", &c.MaxDuration},
	}
}

type limit struct {
	field string
	value *time.Duration
}

// fill puts the profile and then the defaults where nothing is set.
func (r *resolver) fill() {
	if s := r.OnExpiry.Status(); s != 0 {
		r.HeaderStatus = s
	}
	p := profiles[r.Profile]
	r.Profile = ""
	setDefault(&r.Mode, p.Mode, HTTP)
	setDefault(&r.OnExpiry, p.OnExpiry)
	setDefault(&r.Buffering, p.Buffering)
	// In TCP mode there are no headers to wait for, whatever the profile is.
	if r.Mode == HTTP {
		setDefault(&r.HeaderStatus, p.HeaderStatus, http.StatusGatewayTimeout)
	}
	own := r.Config.limits()
	for i, l := range p.limits() {
		setDefault(own[i].value, *l.value)
		*own[i].value = max(0, *own[i].value) // Unlimited
	}
	setDefault(&r.Engine, Embedded)
	setDefault(&r.Balance, RoundRobin)
	if r.Buffering == nil {
		r.Buffering = new(false)
	} else {
		r.Buffering = new(*r.Buffering)
	}
	setDefault(&r.OnExpiry, r.ownExpiry())
}

// setDefault gives *v the first of the values that is set, if it is not set
// itself.
func setDefault[T comparable](v *T, values ...T) {
	var zero T
	for _, value := range values {
		if *v == zero {
			*v = value
		}
	}
}

// splitAddr returns the port of addr, which has to be a number: names of
// services mean different things on different machines.
func splitAddr(addr string) (port uint16, err error) {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	return uint16(n), err
}
