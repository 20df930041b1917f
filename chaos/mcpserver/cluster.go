package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultReplicas is how many replicas a cluster has whose ClusterConfig does
	// not say.
	DefaultReplicas = 2
	// MaxReplicas is how many a cluster may have.
	MaxReplicas = 64
)

// ClusterConfig says how a [Cluster] behaves. The zero ClusterConfig is one of two
// replicas, none of which knows the other's sessions.
type ClusterConfig struct {
	_ struct{}

	// Replicas is how many there are, up to MaxReplicas. 0 is as many as Addrs or
	// Listeners, or else DefaultReplicas.
	Replicas int
	// Server is the Config of every replica. Its Addr may have no port but 0, and
	// its Listener must be nil. Its Rules count the requests of all replicas
	// together, its Observe is told of all.
	Server Config
	// Addrs are the addresses to listen on, one for each replica, as Config.Addr.
	// nil: Server.Addr for each.
	Addrs []string
	// Listeners, if not nil, are used in place of addresses, one for each replica.
	// They belong to the Cluster once [NewCluster] has returned without an error.
	Listeners []net.Listener
	// SharedSessions is whether every replica serves every session, as if sessions
	// and work stood in one place behind all replicas. Otherwise each has a store
	// of its own, and to the others its sessions are unknown.
	SharedSessions bool
}

// Cluster is several servers over one durable event log, with one [Oracle]. What
// a replica has of its own is its address, its connections and, unless
// SharedSessions is set, its sessions: so a client whose reconnect comes to
// another replica gets its replay, and a 404 for whatever it sends next.
//
// A DELETE for a session that a replica never had is refused, as its POSTs are
// ([UnknownAdopt] and [UnknownReplace] count as [UnknownNotFound] there), and the
// log keeps the session's events.
//
// Event ids, stamps, and the ids of the server's requests are unique within the
// cluster. All methods may be called at any time.
type Cluster struct {
	// Immutable after NewCluster.
	servers []*Server
	oracle  *Oracle
	rules   *rulebook
	process *process // with SharedSessions, that of all servers; else nil
	life    context.Context
	end     func() // ends life

	mu      sync.Mutex
	running bool
	closed  bool
	// finished is closed by Run when it has closed everything.
	finished chan struct{}
}

// NewCluster makes the servers and binds their addresses. It starts nothing.
// Every fault of the ClusterConfig is in the error.
func NewCluster(cfg ClusterConfig) (*Cluster, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cluster{rules: newRulebook(cfg.Server.Rules), finished: make(chan struct{})}
	life, end := context.WithCancelCause(context.Background())
	c.life, c.end = life, func() { end(ErrClosed) }
	c.oracle = newOracle(cfg.Server.Observe, c.settle)
	log := newEventLog(cfg.Server, c.oracle)
	for i := range cfg.replicas() {
		one := cfg.Server
		if cfg.Addrs != nil {
			one.Addr = cfg.Addrs[i]
		}
		if cfg.Listeners != nil {
			one.Listener = cfg.Listeners[i]
		}
		s, err := newServer(one, c.oracle, log, c.rules)
		if err != nil {
			for _, made := range c.servers {
				made.listener.Close()
			}
			return nil, err
		}
		s.replica, s.cluster = i, c
		c.servers = append(c.servers, s)
	}
	if cfg.SharedSessions {
		c.process = newProcess(c.life, c.servers[0], log, c.oracle, true)
	}
	for _, s := range c.servers {
		if s.process = c.process; s.process == nil {
			s.process = newProcess(s.life, s, log, c.oracle, true)
		}
	}
	return c, nil
}

// replicas is how many there are to be. It means nothing if the ClusterConfig is
// not valid.
func (c ClusterConfig) replicas() int {
	if n := max(c.Replicas, len(c.Addrs), len(c.Listeners)); n > 0 {
		return n
	}
	return DefaultReplicas
}

// validate reports every fault at once.
func (c ClusterConfig) validate() error {
	var faults []error
	fault := func(field string, value any, want string) {
		faults = append(faults, fmt.Errorf("mcpserver: %s is %v: want %s", field, value, want))
	}
	if c.Replicas < 0 || c.Replicas > MaxReplicas {
		fault("Replicas", c.Replicas, fmt.Sprintf("0 (%d) to %d", DefaultReplicas, MaxReplicas))
	}
	n := c.replicas()
	if len(c.Addrs) != 0 && len(c.Addrs) != n {
		fault("Addrs", fmt.Sprintf("%d addresses", len(c.Addrs)), fmt.Sprintf("none, or %d, one for each replica", n))
	}
	if len(c.Listeners) != 0 && len(c.Listeners) != n {
		fault("Listeners", fmt.Sprintf("%d listeners", len(c.Listeners)), fmt.Sprintf("none, or %d, one for each replica", n))
	}
	for i, addr := range c.Addrs {
		if !validAddr(addr) {
			fault(fmt.Sprintf("Addrs[%d]", i), fmt.Sprintf("%q", addr), "host:port with a port from 0 to 65535")
		}
	}
	for i, l := range c.Listeners {
		if l == nil {
			fault(fmt.Sprintf("Listeners[%d]", i), "nil", "a listener")
		}
	}
	if c.Server.Listener != nil {
		fault("Server.Listener", c.Server.Listener.Addr(), "nil: Listeners has one for each replica")
	}
	if addr := c.Server.Addr; len(c.Addrs) == 0 && len(c.Listeners) == 0 && validAddr(addr) && !strings.HasSuffix(addr, ":0") {
		fault("Server.Addr", fmt.Sprintf("%q", addr), "port 0, or Addrs with one for each replica")
	}
	if err := c.Server.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Size is the number of replicas.
func (c *Cluster) Size() int { return len(c.servers) }

// Replica is the server with that number, from 0. It panics if there is none. The
// Cluster runs and closes it; what is closed alone stays closed.
func (c *Cluster) Replica(i int) *Server { return c.servers[i] }

// URLs are the endpoints of the replicas, in their order.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.URL()
	}
	return urls
}

// Oracle returns what knows the truth about all replicas.
func (c *Cluster) Oracle() *Oracle { return c.oracle }

// Inject is [Server.Inject] for the requests of all replicas, counted together.
func (c *Cluster) Inject(rule Rule) (remove func(), err error) { return c.rules.inject(rule, nil) }

// Home is the number of the replica that has the session. It reports false if
// none has it alive. Where several have it, as they may with [UnknownAdopt] and
// do with SharedSessions, it is one that has carried its standalone stream, if
// there is one.
func (c *Cluster) Home(sessionID string) (i int, ok bool) {
	for n, s := range c.servers {
		p := s.current()
		if s.life.Err() != nil || !p.sessions.alive(sessionID) {
			continue
		}
		if p.inners.streams(sessionID) {
			return n, true
		}
		if !ok {
			i, ok = n, true
		}
	}
	return i, ok
}

// at is the server to ask about a session; if none has it, one that says so.
func (c *Cluster) at(sessionID string) *Server {
	i, _ := c.Home(sessionID)
	return c.servers[i]
}

// Reap is [Server.Reap] at the session's home.
func (c *Cluster) Reap(sessionID string) bool { return c.at(sessionID).Reap(sessionID) }

// Emit is [Server.Emit] at the session's home.
func (c *Cluster) Emit(sessionID, text string) (Stamp, error) {
	return c.at(sessionID).Emit(sessionID, text)
}

// Ask is [Server.Ask] at the session's home.
func (c *Cluster) Ask(ctx context.Context, sessionID, message string) (Elicitation, error) {
	return c.at(sessionID).Ask(ctx, sessionID, message)
}

// RollingRestart restarts one replica after the other, as [Server.Restart] does,
// with a pause between two. The errors are [ErrClosed] and the cause of ctx,
// which is looked at during the pauses.
func (c *Cluster) RollingRestart(ctx context.Context, pause time.Duration) error {
	for i, s := range c.servers {
		if i > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return context.Cause(ctx)
			case <-c.life.Done():
				timer.Stop()
				return ErrClosed
			}
		}
		if err := s.Restart(); err != nil {
			return err
		}
	}
	return nil
}

// Run serves on all addresses until ctx ends, or one of them fails, and then ends
// all as [Server.Run] does. Run works once.
func (c *Cluster) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running || c.closed {
		c.mu.Unlock()
		return errors.New("mcpserver: Run was called before, or Close")
	}
	c.running = true
	c.mu.Unlock()
	defer close(c.finished)
	defer context.AfterFunc(ctx, c.end)()

	var wg sync.WaitGroup
	if c.process != nil {
		wg.Go(c.process.keepTime)
	}
	ended := make([]error, len(c.servers))
	for i, s := range c.servers {
		wg.Go(func() {
			if ended[i] = s.Run(c.life); ended[i] != nil {
				c.end()
			}
		})
	}
	<-c.life.Done()
	wg.Wait()
	c.teardown()
	return errors.Join(ended...)
}

// Close closes a cluster that never ran. It ends one that runs, and waits for it.
// It may be called again.
func (c *Cluster) Close() error {
	c.end()
	c.mu.Lock()
	running := c.running
	c.closed = true
	c.mu.Unlock()
	if running {
		<-c.finished
		return nil
	}
	for _, s := range c.servers {
		s.Close()
	}
	c.teardown()
	return nil
}

// teardown ends what the servers share. They are closed.
func (c *Cluster) teardown() {
	if c.process != nil {
		c.process.refuse()
		c.process.teardown()
	}
}

// settle is that of all processes.
func (c *Cluster) settle() {
	for _, s := range c.servers {
		s.current().settle()
	}
}
