package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// topology is the servers, and what stands between them and the clients. It runs
// from its making on.
type topology struct {
	network  *fault.Network // nil: loopback
	cluster  *mcpserver.Cluster
	backs    []*fault.Link // one for each replica, or none
	balancer *balancer     // nil: none
	front    *fault.Link   // nil: none
	host     string        // host:port that the clients talk to
	h2c      bool
	cookies  bool

	stop    context.CancelCauseFunc
	ctx     context.Context
	running sync.WaitGroup
	reports []*report
}

// report is what a load balancer or a link says of itself.
type report struct {
	name   string
	mu     sync.Mutex
	events []lb.Event
}

func (r *report) add(e lb.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// linked is what a link reports, in the words of a load balancer.
func (r *report) linked(e fault.LinkEvent) {
	out := lb.Event{At: e.At, Stream: uint64(e.Conn), Bytes: e.ToClient, Err: e.Err}
	switch e.Kind {
	case fault.Opened:
		out.Kind = lb.Opened
	case fault.Cut:
		out.Kind, out.Err = lb.Cut, errors.New(e.Fault.String())
	default:
		out.Kind = lb.Ended
	}
	r.add(out)
}

func newTopology(ctx context.Context, d *experiment.Definition, seed uint64) (t *topology, err error) {
	t = &topology{cookies: d.Topology.Servers.Cookie != ""}
	t.ctx, t.stop = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if d.Topology.Network == experiment.Namespaces {
		if t.network, err = fault.NewNetwork(); err != nil {
			return t, err
		}
	}
	if err := t.serve(ctx, d); err != nil {
		return t, err
	}
	upstreams := make([]string, t.cluster.Size())
	for i := range upstreams {
		upstreams[i] = t.cluster.Replica(i).Addr().String()
	}
	if slices.Contains(d.Topology.Links, experiment.Back) {
		for i, up := range upstreams {
			link, err := t.link(ctx, fmt.Sprintf("link to replica %d", i), up, seed+uint64(i)+1)
			if err != nil {
				return t, err
			}
			t.backs = append(t.backs, link)
			upstreams[i] = link.Addr().String()
		}
	}
	t.host = upstreams[0]
	if cfg, ok := d.Balancer(); ok {
		t.h2c = cfg.H2C
		t.cookies = t.cookies || cfg.Balance == lb.CookieAffinity
		if t.balancer, err = t.balance(ctx, cfg, upstreams, restarts(d)); err != nil {
			return t, err
		}
		t.host = t.balancer.addr
	}
	if slices.Contains(d.Topology.Links, experiment.Front) {
		if t.front, err = t.link(ctx, "link to the load balancer", t.host, seed); err != nil {
			return t, err
		}
		t.host = t.front.Addr().String()
	}
	return t, nil
}

// restarts is whether the load balancer has to come back on its port.
func restarts(d *experiment.Definition) bool {
	return slices.ContainsFunc(d.Method, func(s experiment.Step) bool { return s.RestartLoadBalancer != nil }) ||
		slices.ContainsFunc(d.Rollbacks, func(r experiment.Rollback) bool { return r.RestartLoadBalancer != nil })
}

// run runs something until the topology is closed. An error that it has before
// that ends the topology.
func (t *topology) run(what string, f func(context.Context) error) {
	t.running.Go(func() {
		if err := f(t.ctx); err != nil {
			t.stop(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// listen opens a port where the servers are.
func (t *topology) listen(ctx context.Context, port int) (net.Listener, error) {
	if t.network != nil {
		side := t.network.Server()
		return side.Listen(ctx, "tcp", net.JoinHostPort(side.Addr().String(), fmt.Sprint(port)))
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// dial connects from where the servers are; nil is the usual way.
func (t *topology) dial() func(context.Context, string, string) (net.Conn, error) {
	if t.network == nil {
		return nil
	}
	return t.network.Server().DialContext
}

func (t *topology) serve(ctx context.Context, d *experiment.Definition) error {
	cfg := d.Servers()
	if t.network != nil {
		for range cfg.Replicas {
			l, err := t.listen(ctx, 0)
			if err != nil {
				closeAll(cfg.Listeners)
				return err
			}
			cfg.Listeners = append(cfg.Listeners, l)
		}
	}
	var err error
	if t.cluster, err = mcpserver.NewCluster(cfg); err != nil {
		closeAll(cfg.Listeners)
		return err
	}
	t.run("servers", t.cluster.Run)
	return nil
}

func closeAll(all []net.Listener) {
	for _, l := range all {
		l.Close()
	}
}

func (t *topology) link(ctx context.Context, name, upstream string, seed uint64) (*fault.Link, error) {
	r := &report{name: name}
	l, err := t.listen(ctx, 0)
	if err != nil {
		return nil, err
	}
	link, err := fault.NewLink(fault.LinkConfig{Listener: l, Upstream: upstream, Dial: t.dial(), Seed: seed, Observe: r.linked})
	if err != nil {
		l.Close()
		return nil, err
	}
	t.reports = append(t.reports, r)
	t.run(name, link.Run)
	return link, nil
}

// balancer is a load balancer that can be stopped and started again.
type balancer struct {
	t    *topology
	cfg  lb.Config
	addr string
	port int

	mu   sync.Mutex
	now  *lb.LoadBalancer // nil while it is away
	stop context.CancelFunc
	done chan struct{}
}

// The ports of a load balancer that comes back on its own: below those that
// kernels give to outgoing connections, one of which might take it meanwhile.
const (
	firstPort = 20_000
	lastPort  = 32_000
	// portTries bounds the search for a free one.
	portTries = 200
)

func (t *topology) balance(ctx context.Context, cfg lb.Config, upstreams []string, comesBack bool) (*balancer, error) {
	r := &report{name: "load balancer"}
	t.reports = append(t.reports, r)
	cfg.Upstreams, cfg.Observe = upstreams, r.add
	if cfg.Engine == lb.Embedded {
		cfg.Dial = t.dial()
	}
	b := &balancer{t: t, cfg: cfg}
	var l net.Listener
	var err error
	for try := range portTries {
		port := 0
		if comesBack {
			// Not seeded: which ports are free is the machine's to say.
			port = firstPort + rand.IntN(lastPort-firstPort)
		}
		if l, err = t.listen(ctx, port); err == nil || !comesBack || try == portTries-1 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b.addr, b.port = l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	if err := b.start(ctx, l); err != nil {
		return nil, err
	}
	return b, nil
}

// start serves on l, which it owns, and returns when clients are served.
func (b *balancer) start(ctx context.Context, l net.Listener) error {
	cfg := b.cfg
	cfg.Listener = l
	now, err := lb.New(cfg)
	if err != nil {
		l.Close()
		return err
	}
	running, stop := context.WithCancel(b.t.ctx)
	done := make(chan struct{})
	b.mu.Lock()
	b.now, b.stop, b.done = now, stop, done
	b.mu.Unlock()
	b.t.run("load balancer", func(context.Context) error {
		defer close(done)
		return now.Run(running)
	})
	select {
	case <-now.Ready():
		return nil
	case <-done:
		return cmp.Or(context.Cause(b.t.ctx), errors.New("the load balancer ended by itself"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// current is the load balancer, nil while it is away.
func (b *balancer) current() *lb.LoadBalancer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// restart stops it, and starts it again after a while.
func (b *balancer) restart(ctx context.Context, downFor time.Duration) error {
	b.mu.Lock()
	stop, done := b.stop, b.done
	b.now = nil
	b.mu.Unlock()
	stop()
	<-done
	if err := sleepUntil(ctx, time.Now().Add(downFor)); err != nil {
		return err
	}
	l, err := b.t.listen(ctx, b.port)
	if err != nil {
		return err
	}
	return b.start(ctx, l)
}

// transport returns what a client's requests go through.
func (t *topology) transport() *http.Transport {
	base := &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	if t.network != nil {
		base.DialContext = t.network.Client().DialContext
	}
	if t.h2c {
		base.Protocols = new(http.Protocols)
		base.Protocols.SetUnencryptedHTTP2(true)
	}
	return base
}

// endpoint is the URL that clients talk to.
func (t *topology) endpoint() string { return "http://" + t.host + "/mcp" }

// targets are what a fault acts on.
func (t *topology) targets(f *experiment.Fault) []fault.Target {
	switch {
	case f.Target == experiment.OnNetwork:
		return []fault.Target{t.network}
	case f.Target == experiment.OnFront:
		return []fault.Target{t.front}
	case f.Replica != nil:
		return []fault.Target{t.backs[*f.Replica]}
	}
	var all []fault.Target
	for _, l := range t.backs {
		all = append(all, l)
	}
	return all
}

// seen is what the load balancer and the links have reported so far.
func (t *topology) seen() []history.BalancerSource {
	var all []history.BalancerSource
	for _, r := range t.reports {
		r.mu.Lock()
		all = append(all, history.BalancerSource{Name: r.name, Events: slices.Clone(r.events)})
		r.mu.Unlock()
	}
	return all
}

// errClosed is the cause of an end in order.
var errClosed = errors.New("closed")

// close stops everything and waits for it. Its error is why something had ended
// before.
func (t *topology) close() error {
	t.stop(errClosed)
	t.running.Wait()
	var err error
	if t.network != nil {
		err = t.network.Close()
	}
	if cause := context.Cause(t.ctx); cause != errClosed {
		err = errors.Join(cause, err)
	}
	return err
}
