package lb

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// pool chooses among the upstreams, which it numbers from 0. Methods may be
// called from any goroutine.
type pool struct {
	// Immutable.
	addrs   []string
	balance Balance

	turn atomic.Uint64

	mu       sync.Mutex
	sessions map[string]int // the upstream of each
	order    []string       // the sessions from the oldest, as a ring; len(order) == len(sessions)
	oldest   int            // in order, once that is full
}

func newPool(cfg Config) *pool {
	return &pool{addrs: cfg.upstreams(), balance: cfg.Balance, sessions: make(map[string]int)}
}

// next takes the upstreams in turn.
func (p *pool) next() int { return int((p.turn.Add(1) - 1) % uint64(len(p.addrs))) }

// choose returns the upstream for r, and whether that is for affinity's sake.
func (p *pool) choose(r *http.Request) (upstream int, bound bool) {
	switch p.balance {
	case CookieAffinity:
		if cookie, err := r.Cookie(AffinityCookie); err == nil {
			for i := range p.addrs {
				if cookie.Value == serverName(i) {
					return i, true
				}
			}
		}
	case SessionAffinity:
		if id := r.Header.Get(sessionHeader); id != "" {
			p.mu.Lock()
			defer p.mu.Unlock()
			if i, ok := p.sessions[id]; ok {
				return i, true
			}
		}
	}
	return p.next(), false
}

// learn binds a session to an upstream, if that is what affinity goes by.
func (p *pool) learn(session string, upstream int) {
	if p.balance != SessionAffinity || session == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.sessions[session]; !known {
		if len(p.order) < maxSessions {
			p.order = append(p.order, session)
		} else {
			delete(p.sessions, p.order[p.oldest])
			p.order[p.oldest] = session
			p.oldest = (p.oldest + 1) % maxSessions
		}
	}
	p.sessions[session] = upstream
}

// serverName is what a cookie and the configuration of a program call an
// upstream.
func serverName(upstream int) string { return "s" + strconv.Itoa(upstream+1) }

// affinityCookie binds a client to an upstream.
func affinityCookie(upstream int) string {
	return AffinityCookie + "=" + serverName(upstream) + "; path=/"
}

// removeAffinityCookie removes from h what is no business of the upstream.
func removeAffinityCookie(h http.Header) {
	var kept []string
	for _, line := range h["Cookie"] {
		var pairs []string
		for pair := range strings.SplitSeq(line, ";") {
			if name, _, _ := strings.Cut(pair, "="); strings.TrimSpace(name) != AffinityCookie {
				pairs = append(pairs, strings.TrimSpace(pair))
			}
		}
		if len(pairs) > 0 {
			kept = append(kept, strings.Join(pairs, "; "))
		}
	}
	if h.Del("Cookie"); len(kept) > 0 {
		h["Cookie"] = kept
	}
}
