package lb

import (
	"fmt"
	"net"
	"net/http"
)

// ownExpiry is what the engine does on expiry if it is not asked for anything.
// haproxy and nginx can do nothing else.
func (c *Config) ownExpiry() Expiry {
	switch {
	case c.Mode == HTTP && c.H2C && c.Engine == HAProxy:
		return CleanEnd
	case c.Mode == HTTP && c.H2C && c.Engine == NGINX:
		return RST
	}
	return FIN
}

// CanCut says whether [LoadBalancer.Cut] can cut so: nil, or an error that names
// the engine. A Config that [Config.Validate] refuses can cut nothing.
func (c Config) CanCut(how Expiry) error {
	r, err := c.Resolve()
	if err != nil {
		return err
	}
	switch {
	case !how.cuts():
		return fmt.Errorf("lb: cut is %q, want %s", how, oneOf(expiryNames[FIN:]))
	case r.Engine == NGINX:
		return fmt.Errorf("lb: cut is %q: engine %s cuts nothing on request; want engine %s or %s", how, NGINX, Embedded, HAProxy)
	case r.Engine == HAProxy && how != r.ownExpiry():
		return fmt.Errorf("lb: cut is %q: engine %s can only do %q here; want that, or engine %s", how, HAProxy, r.ownExpiry(), Embedded)
	case r.Mode == TCP && how == CleanEnd:
		return fmt.Errorf("lb: cut is %q: mode %s has no end of a response; want %q", how, TCP, FIN)
	}
	return nil
}

// refuse finds what the engine cannot do, in a Config that is filled in.
func (r *resolver) refuse() {
	if r.Mode == TCP {
		r.refuseInTCP()
	}
	if r.Engine == Embedded {
		if r.H2C && r.Mode == HTTP {
			r.cannot("H2C", true, "speaks HTTP/1.1 only", "false, or engine haproxy or nginx")
		}
		return
	}
	if r.Engine == NGINX && r.Mode == TCP {
		r.cannot("Mode", TCP, "is run without its stream module", "http, or engine embedded or haproxy")
	}
	if r.Dial != nil {
		r.cannot("Dial", "set", "connects by itself", "nil, or engine embedded")
	}
	if _, ok := r.Listener.(*net.TCPListener); r.Listener != nil && !ok {
		r.cannot("Listener", fmt.Sprintf("a %T", r.Listener), "takes TCP sockets only", "a *net.TCPListener, or engine embedded")
	}
	if r.IdleTimeout > maxProgramTimeout {
		r.cannot("IdleTimeout", r.IdleTimeout, "cannot count so far", "at most "+maxProgramTimeout.String())
	}
	if r.MaxDuration != 0 {
		r.cannot("MaxDuration", r.MaxDuration, "has no limit on a whole response", "0, or engine embedded")
	}
	if r.HeaderTimeout != 0 && r.HeaderTimeout != r.IdleTimeout {
		r.cannot("HeaderTimeout", r.HeaderTimeout, "has one limit for headers and silence",
			"0 or IdleTimeout, "+r.IdleTimeout.String()+", or engine embedded")
	}
	if r.HeaderStatus != http.StatusGatewayTimeout && r.Mode == HTTP && r.OnExpiry.Status() == 0 {
		r.cannot("HeaderStatus", r.HeaderStatus, "answers 504", "that, or engine embedded")
	}
	if own := r.ownExpiry(); r.OnExpiry != own {
		r.cannot("OnExpiry", r.OnExpiry, fmt.Sprintf("can only do %v here", own), "that, or engine embedded")
	}
	switch r.Engine {
	case HAProxy:
		if *r.Buffering {
			r.cannot("Buffering", true, "keeps no response back", "false, or engine embedded or nginx")
		}
	case NGINX:
		if r.Balance == CookieAffinity {
			r.cannot("Balance", r.Balance, "sets no cookies (nginx Plus does)", "round_robin, or engine embedded or haproxy")
		}
		if r.Balance == SessionAffinity {
			r.cannot("Balance", r.Balance, "learns nothing from a response (nginx Plus does)", "round_robin, or engine embedded or haproxy")
		}
	}
}

func (r *resolver) refuseInTCP() {
	refuse := func(field string, value any, why, want string) {
		r.fault("%s is %v: mode %s of engine %s %s; want %s", field, value, TCP, r.Engine, why, want)
	}
	if r.H2C {
		refuse("H2C", true, "passes every protocol", "false")
	}
	if r.HeaderTimeout != 0 {
		refuse("HeaderTimeout", r.HeaderTimeout, "sees no headers", "0")
	}
	if r.HeaderStatus != 0 && r.OnExpiry.Status() == 0 {
		refuse("HeaderStatus", r.HeaderStatus, "answers nothing of its own", "0")
	}
	if *r.Buffering {
		refuse("Buffering", true, "sees no responses", "false")
	}
	if r.Balance != RoundRobin {
		refuse("Balance", r.Balance, "sees no headers", "round_robin")
	}
	if (r.OnExpiry == CleanEnd || r.OnExpiry.Status() != 0) && r.Engine == Embedded {
		refuse("OnExpiry", r.OnExpiry, "sees no responses", "fin, rst, silent or silent_then_rst")
	}
}

// cannot is a fault that is the engine's.
func (r *resolver) cannot(field string, value any, why, want string) {
	r.fault("%s is %v: engine %s %s; want %s", field, value, r.Engine, why, want)
}
