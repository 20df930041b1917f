package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Servers returns the settings of the cluster of servers of one arm, in real
// time. The caller adds the hooks.
func (d *Definition) Servers() mcpserver.ClusterConfig {
	s := &d.Topology.Servers
	return mcpserver.ClusterConfig{
		Replicas:       max(1, s.Replicas),
		SharedSessions: s.SharedSessions,
		Server: mcpserver.Config{
			SessionTTL: d.Real(s.SessionTTL), Refresh: s.Refresh, LogRetention: d.Real(s.LogRetention),
			MaxEvents: s.MaxEvents, UnknownSession: s.UnknownSession, GETChecksSession: s.GETChecksSession,
			Conflict: s.Conflict, Rules: scaledRules(s.Rules, d.Scale()), Cookie: s.Cookie, Replay: s.Replay,
			OnBreak: s.OnBreak, StaleAnswer: s.StaleAnswer, LivenessToken: s.LivenessToken,
			Retry: d.Real(s.Retry).Round(time.Millisecond),
		},
	}
}

func scaledRules(rules []Rule, scale float64) []mcpserver.Rule {
	all := make([]mcpserver.Rule, len(rules))
	for i, r := range rules {
		all[i] = r.scaled(scale)
	}
	return all
}

// NewRule returns a rule in real time.
func (d *Definition) NewRule(r Rule) mcpserver.Rule { return r.scaled(d.Scale()) }

func (r Rule) scaled(scale float64) mcpserver.Rule {
	real := func(of Duration) time.Duration { return time.Duration(float64(of) / scale) }
	retryAfter := real(r.RetryAfter)
	if scale > 1 {
		retryAfter = retryAfter.Round(time.Second)
	}
	return mcpserver.Rule{
		On: r.On, RPC: r.RPC, Count: r.Count, From: r.From, To: r.To, Delay: real(r.Delay), Status: r.Status,
		RetryAfter: retryAfter, ContentType: r.ContentType, Body: r.Body, Hang: r.Hang, ReapAfterReplay: r.ReapAfterReplay,
	}
}

// Balancer returns the settings of the load balancer of one arm, in real time and
// with those of its profile filled in, and false if there is none. The caller adds
// the addresses and the hooks. d has to be valid.
func (d *Definition) Balancer() (lb.Config, bool) {
	b := d.Topology.LoadBalancer
	if b == nil {
		return lb.Config{}, false
	}
	cfg, err := b.config(max(1, d.Topology.Servers.Replicas)).Resolve()
	if err != nil {
		panic(fmt.Sprintf("experiment: Balancer of a definition that is not valid: %v", err))
	}
	cfg.Addr, cfg.Upstream, cfg.Upstreams = "", "", nil
	for _, limit := range []*time.Duration{&cfg.IdleTimeout, &cfg.HeaderTimeout, &cfg.MaxDuration} {
		*limit = d.Real(Duration(*limit)).Round(time.Millisecond)
	}
	return cfg, true
}

// config is the settings in the record's time, with addresses that stand for
// those of so many replicas.
func (b *LoadBalancer) config(replicas int) lb.Config {
	cfg := lb.Config{
		Engine: b.Engine, Mode: b.Mode, Profile: b.Profile, Balance: b.Balance, H2C: b.H2C,
		IdleTimeout: time.Duration(b.IdleTimeout), HeaderTimeout: time.Duration(b.HeaderTimeout), MaxDuration: time.Duration(b.MaxDuration),
		Buffering: b.Buffering, OnExpiry: b.OnExpiry, HeaderStatus: b.HeaderStatus,
	}
	for i := range min(replicas, mcpserver.MaxReplicas) {
		cfg.Upstreams = append(cfg.Upstreams, fmt.Sprintf("127.0.0.1:%d", i+1))
	}
	return cfg
}

// CutBy returns how a step cuts: its own way, or else what the load balancer does
// when a limit is reached. d has to be valid.
func (d *Definition) CutBy(c *Cut) lb.Expiry {
	if c.How != 0 {
		return c.How
	}
	cfg, ok := d.Balancer()
	if !ok || cfg.OnExpiry.Status() != 0 {
		return lb.FIN
	}
	return cfg.OnExpiry
}

// Guard returns the settings of the protected arm's middleware, in real time. The
// caller adds Base and Observe.
func (d *Definition) Guard() middleware.Config {
	cfg := d.Middleware.config(d.Scale())
	if cfg.StaleGrace == 0 {
		cfg.StaleGrace = d.Real(Duration(middleware.DefaultStaleGrace))
	}
	return cfg
}

func (m *Middleware) config(scale float64) middleware.Config {
	real := func(of Duration) time.Duration { return time.Duration(float64(of) / scale) }
	return middleware.Config{
		SessionHeader: m.SessionHeader,
		Probe: middleware.Probe{
			Method: m.ProbeMethod, LiveErrorCodes: slices.Clone(m.ProbeLiveErrorCodes), DeadStatusCodes: slices.Clone(m.ProbeDeadStatusCodes),
		},
		ProbeTimeout: real(m.ProbeTimeout), ProbeBudget: real(m.ProbeBudget), AmbiguousRounds: m.AmbiguousRounds,
		MaxHeldBytes: m.MaxHeldBytes, MaxEventBytes: m.MaxEventBytes, LivenessLease: real(m.LivenessLease),
		Pending: pendings[m.Pending], StaleGrace: real(m.StaleGrace), Terminal: terminals[m.Terminal], MaxSessions: m.MaxSessions,
	}
}

// check returns what the middleware would refuse, in the record's time.
func (m *Middleware) check() error {
	_, err := middleware.New(m.config(1))
	return err
}

var middlewareKeys = keysOf(typeOf[Middleware]())
