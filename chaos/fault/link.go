package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultAddr is where a [Link] listens if its [LinkConfig] does not say: a free
// port on loopback.
const DefaultAddr = "127.0.0.1:0"

// LinkConfig is the settings of a [Link]. Only Upstream is required, and not
// that if there is a Dial.
type LinkConfig struct {
	_ struct{}

	// Addr is the TCP address to listen on, as host:port. "": [DefaultAddr].
	// Unused if Listener is set.
	Addr string

	// Listener accepts the clients' connections, in place of a listener of
	// NewLink's own. Once NewLink has succeeded it belongs to the Link, which
	// closes it; if NewLink fails it is still the caller's. nil: listen on Addr.
	Listener net.Listener

	// Upstream is where each connection goes on to, as host:port. It is handed
	// to Dial as it is.
	Upstream string

	// Dial connects to Upstream. It has to give up when its context ends. nil:
	// a [net.Dialer] without keep-alive probes.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Seed is what the jitter of [Latency] is drawn from: the same seed gives
	// the n-th piece of bytes of a connection the same delay in each run. Any
	// value will do.
	Seed uint64

	// Observe, if not nil, is told what happens to each connection. It is called
	// synchronously, never under a lock, from the goroutine of that connection,
	// and holds up only that; it may apply faults. All calls have returned when
	// Run returns.
	Observe func(LinkEvent)
}

func (c LinkConfig) compile() (LinkConfig, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("fault: LinkConfig."+format, args...))
	}
	if c.Addr == "" {
		c.Addr = DefaultAddr
	}
	if _, err := splitAddr(c.Addr); err != nil {
		fault("Addr is %q, want host:port: %w", c.Addr, err)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAlive: -1}).DialContext
		if port, err := splitAddr(c.Upstream); err != nil {
			fault("Upstream is %q, want host:port: %w", c.Upstream, err)
		} else if port == 0 || c.Upstream[0] == ':' {
			fault("Upstream is %q, want a host, and a port from 1 to 65535", c.Upstream)
		}
	}
	return c, errors.Join(faults...)
}

// splitAddr returns the port of addr, which has to be a number.
func splitAddr(addr string) (port uint16, err error) {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	return uint16(n), err
}

// LinkEventKind says what a [LinkEvent] reports.
type LinkEventKind uint8

const (
	// Opened: the connection goes through to the server.
	Opened LinkEventKind = iota + 1
	// Cut: a fault has cut the connection.
	Cut
	// Closed: the connection is over. It is the last event of each.
	Closed
)

var linkEventNames = [...]string{Opened: "opened", Cut: "cut", Closed: "closed"}

// String returns the kind in words, for logs.
func (k LinkEventKind) String() string {
	if int(k) < len(linkEventNames) && linkEventNames[k] != "" {
		return linkEventNames[k]
	}
	return "unknown"
}

// LinkEvent is one thing that happened to one connection of a [Link].
type LinkEvent struct {
	Kind LinkEventKind
	// At is when it happened.
	At time.Time
	// Conn numbers the connections of one Link from 1, in the order in which
	// they were accepted.
	Conn int
	// Fault is what cut the connection, for Cut only.
	Fault Fault
	// ToClient and ToServer are how many bytes have been passed on.
	ToClient, ToServer int64
	// Events is how many server-sent events have begun to pass.
	Events int64
	// Err is why, for Closed: nil where both sides ended in order or a fault cut
	// the connection.
	Err error
}

// ErrLinkStopped says that [Link.Run] ended.
var ErrLinkStopped = errors.New("fault: the link is stopped")

// Link is a TCP relay between a client and a server, and a [Target] for faults.
// Without one it passes on what it gets: bytes, the end of each direction, and
// resets. It holds at most 256 KiB in each direction of a connection and a piece
// in hand; beyond that a side that does not read holds up the one that writes.
//
// Where a connection cannot be closed in one direction only, as one in memory,
// the end of one direction ends both; and where it cannot be reset, it is closed.
//
// It owns its listener and all connections. Make one with [NewLink]; its methods
// may be called from any goroutine.
type Link struct {
	// Immutable after NewLink.
	cfg      LinkConfig
	listener net.Listener

	claimed atomic.Bool    // by Run, or by a Close that came first
	serving sync.WaitGroup // connections; Add happens in Run only

	mu       sync.Mutex
	conns    []*linkConn // in the order of their numbers
	accepted int
	rules    []*rule // in the order in which they were applied
	applied  uint64  // rules so far
}

// rule is a fault in force on a Link.
type rule struct {
	// Immutable.
	Fault
	number uint64 // among the rules of its link, for the seed
	since  time.Time

	left int // guarded by Link.mu: connections that it still takes; -1: any
}

// claim reports whether r acts on connection n, and counts it. The caller holds
// Link.mu.
func (r *rule) claim(n int) bool {
	if r.left == 0 || r.Conn > 0 && r.Conn != n {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	return true
}

// NewLink validates cfg, reporting all its faults at once, and binds its port:
// from then on clients can connect, and wait. It starts nothing. The caller
// either calls Run, which frees the port when it ends, or Close.
func NewLink(cfg LinkConfig) (*Link, error) {
	cfg, err := cfg.compile()
	if err != nil {
		return nil, err
	}
	listener := cfg.Listener
	if listener == nil {
		lc := net.ListenConfig{KeepAlive: -1}
		if listener, err = lc.Listen(context.Background(), "tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("fault: %w", err)
		}
	}
	return &Link{cfg: cfg, listener: listener}, nil
}

// Addr returns the address that clients connect to.
func (l *Link) Addr() net.Addr { return l.listener.Addr() }

// Run relays until ctx ends. Then it frees the port, closes all connections,
// waits until none is left, and returns nil. It returns an error, after the same
// waiting, if the listener fails. A Link runs once.
func (l *Link) Run(ctx context.Context) error {
	if !l.claimed.CompareAndSwap(false, true) {
		return errors.New("fault: Run called twice, or after Close")
	}
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	unwatch := context.AfterFunc(ctx, func() {
		stop(ErrLinkStopped)
		l.listener.Close()
	})
	err := l.accept(run)
	if !unwatch() {
		err = nil
	}
	l.listener.Close()
	stop(ErrLinkStopped)
	l.serving.Wait()
	return err
}

// acceptPause is how long the link waits when the process has no file left for
// a connection.
const acceptPause = 50 * time.Millisecond

func (l *Link) accept(run context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			pause.Reset(acceptPause)
			select {
			case <-pause.C:
				continue
			case <-run.Done():
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("fault: %w", err)
		}
		c := l.add(run, conn)
		l.serving.Go(func() {
			c.serve()
			l.remove(c)
		})
	}
}

// Close frees the port of a Link that never ran. It is idempotent, and does
// nothing during or after Run: what ends Run is its context.
func (l *Link) Close() error {
	if !l.claimed.CompareAndSwap(false, true) {
		return nil
	}
	return l.listener.Close()
}

// Conns returns the numbers of the connections that are open, the oldest first.
func (l *Link) Conns() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := make([]int, len(l.conns))
	for i, c := range l.conns {
		numbers[i] = c.number
	}
	return numbers
}

// Inject is for [Fault.Apply]. Connections that are open and match are cut, or
// otherwise acted on, from now on, and so are new ones until undo. What has been
// cut stays cut; a connection whose bytes were swallowed by a [Blackhole] stays
// swallowed, for no network delivers a stream with a hole in it. undo does not
// fail.
func (l *Link) Inject(_ context.Context, f Fault) (undo func() error, err error) {
	if !f.Kind.OnLink() {
		return nil, errors.New("a Link cannot do it: it sees bytes and no packets, want a Network")
	}
	r := &rule{Fault: f, since: time.Now(), left: f.Limit}
	if f.Limit == 0 {
		r.left = -1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied++
	r.number = l.applied
	l.rules = append(l.rules, r)
	for _, c := range l.conns {
		if c.ctx.Err() == nil && r.claim(c.number) {
			c.attach(r)
		}
	}
	return func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.rules = slices.DeleteFunc(l.rules, func(other *rule) bool { return other == r })
		for _, c := range l.conns {
			c.detach(r)
		}
		return nil
	}, nil
}

// add makes conn the next connection.
func (l *Link) add(run context.Context, conn net.Conn) *linkConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	c := newLinkConn(l, run, l.accepted, conn)
	l.conns = append(l.conns, c)
	for _, r := range l.rules {
		if r.claim(c.number) {
			c.attach(r)
		}
	}
	return c
}

func (l *Link) remove(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other *linkConn) bool { return other == c })
}

// random is the source of r's jitter for one direction of one connection: what
// happens elsewhere does not change it.
func (l *Link) random(r *rule, conn int, to Direction) *rand.Rand {
	stream := uint64(conn)<<20 ^ r.number<<1
	if to == ToServer {
		stream |= 1
	}
	return rand.New(rand.NewPCG(l.cfg.Seed, stream))
}
