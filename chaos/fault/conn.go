package fault

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// lingerTimeout is how long a connection that has been closed in one direction
// waits for its peer to close the other. Closing it sooner would turn the FIN
// into a reset if there is anything that the peer sent and nobody has read.
const lingerTimeout = time.Second

// longAgo is the deadline that makes a read or a write give up at once.
var longAgo = time.Unix(1, 0)

// linkConn is one connection of a Link: the client's and, once dialled, the
// server's, and a pipe for each direction.
//
// How it ends is decided once, by whoever is the first to cancel ctx.
type linkConn struct {
	// Immutable.
	link     *Link
	number   int
	run      context.Context // of the Link
	ctx      context.Context // of run; ends when the end is decided
	cancel   context.CancelCauseFunc
	toClient *pipe
	toServer *pipe

	client  net.Conn
	server  net.Conn      // owned by serve until the pipes run; nil: not dialled
	changed chan struct{} // capacity 1; full when there are rules that connect has not seen

	readers, writers sync.WaitGroup

	mu        sync.Mutex
	connected bool  // server != nil
	deferred  *rule // a cut that waits for connected
	over      int   // directions
	// and what the pipes say
}

// A linkEnd is the cause of a connection's context. What it says of a side is
// what the peer at that side sees.
type linkEnd struct {
	client, server sideEnd
	fault          *Fault // that cut it; nil: none
	err            error  // for Closed
}

type sideEnd uint8

const (
	sideClose   sideEnd = iota // closed as it is
	sideFIN                    // in order: after a FIN the peer has time to close too
	sideRST                    // reset
	sideSwallow                // left open, and what it sends is swallowed
)

func (e *linkEnd) Error() string { return fmt.Sprintf("fault: connection ended: %v", e.err) }

// newLinkConn starts nothing. The caller calls serve.
func newLinkConn(l *Link, run context.Context, number int, client net.Conn) *linkConn {
	c := &linkConn{link: l, run: run, number: number, client: client, changed: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(run)
	c.toClient = newPipe(c, ToClient)
	c.toServer = newPipe(c, ToServer)
	return c
}

// pipes returns those that a fault of this direction acts on.
func (c *linkConn) pipes(d Direction) []*pipe {
	switch d {
	case ToClient:
		return []*pipe{c.toClient}
	case ToServer:
		return []*pipe{c.toServer}
	}
	return []*pipe{c.toClient, c.toServer}
}

// attach puts r in force.
func (c *linkConn) attach(r *rule) {
	d := r.Direction
	switch r.Kind {
	case FIN, RST:
		// A cut that the server is to see needs a server.
		if d == ToServer && c.postpone(r) {
			return
		}
		c.cut(r)
		return
	case CutAfter, CutInEvent:
		if d == Both {
			d = ToClient
		}
	}
	for _, p := range c.pipes(d) {
		p.attach(r)
	}
	poke(c.changed)
}

func (c *linkConn) detach(r *rule) {
	c.toClient.detach(r)
	c.toServer.detach(r)
	c.mu.Lock()
	if c.deferred == r {
		c.deferred = nil
	}
	c.mu.Unlock()
	poke(c.changed)
}

// postpone reports whether r has to wait for the server, and makes it.
func (c *linkConn) postpone(r *rule) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.connected {
		c.deferred = r
	}
	return !c.connected
}

// poke makes ch, whose capacity is 1, full.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// cut decides that r ends the connection.
func (c *linkConn) cut(r *rule) {
	how := sideFIN
	switch {
	case r.Kind == RST || r.How == HowRST:
		how = sideRST
	case r.How == HowBlackhole:
		how = sideSwallow
	}
	end := &linkEnd{client: how, server: how, fault: &r.Fault}
	if r.Kind == FIN || r.Kind == RST {
		switch r.Direction {
		case ToClient:
			end.server = sideSwallow
		case ToServer:
			end.client = sideSwallow
		}
	}
	c.cancel(end)
}

// broken decides that the connection ends because a side was reset or is gone.
func (c *linkConn) broken(err error) {
	c.cancel(&linkEnd{client: sideRST, server: sideRST, err: err})
}

// done decides that the connection ends in order.
func (c *linkConn) done() { c.cancel(&linkEnd{}) }

// finished says that one direction is over. The second one ends the connection.
func (c *linkConn) finished() {
	c.mu.Lock()
	c.over++
	over := c.over == 2
	c.mu.Unlock()
	if over {
		c.done()
	}
}

// end is what has been decided.
func (c *linkConn) end() *linkEnd {
	if end, ok := context.Cause(c.ctx).(*linkEnd); ok {
		return end
	}
	return &linkEnd{err: context.Cause(c.ctx)}
}

// serve returns when the connection is over and nothing of it is left.
func (c *linkConn) serve() {
	defer c.cancel(nil)
	if err := c.connect(); err != nil {
		c.broken(err)
	} else if c.server != nil {
		c.emit(LinkEvent{Kind: Opened})
		c.toClient.start(c.server, c.client)
		c.toServer.start(c.client, c.server)
	}
	<-c.ctx.Done()
	c.perform(c.end())
}

// connect waits until no partition is in force and dials the server. c.server is
// nil afterwards where the end of the connection was decided meanwhile.
func (c *linkConn) connect() error {
	for c.isPartitioned() {
		select {
		case <-c.changed:
		case <-c.ctx.Done():
			return nil
		}
	}
	if c.ctx.Err() != nil {
		return nil
	}
	server, err := c.link.cfg.Dial(c.ctx, "tcp", c.link.cfg.Upstream)
	if err != nil {
		return fmt.Errorf("fault: upstream: %w", err)
	}
	c.server = server
	c.mu.Lock()
	c.connected = true
	r := c.deferred
	c.mu.Unlock()
	if r != nil {
		c.cut(r)
	}
	return nil
}

func (c *linkConn) isPartitioned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.toClient.hasLocked(Partition) || c.toServer.hasLocked(Partition)
}

// perform ends the connection as decided, and waits for everything of it.
func (c *linkConn) perform(end *linkEnd) {
	sides := []struct {
		conn net.Conn
		end  sideEnd
	}{{c.client, end.client}, {c.server, end.server}}
	for _, s := range sides {
		if s.conn == nil {
			continue
		}
		s.conn.SetWriteDeadline(longAgo) // a writer may be waiting for its peer
		if s.end == sideRST {
			reset(s.conn)
		}
	}
	c.writers.Wait()
	if c.server == nil { // nobody has read from the client yet
		c.toServer.start(c.client, nil)
	}
	for _, s := range sides {
		if s.conn != nil && (s.end == sideClose || s.end == sideFIN && !fin(s.conn)) {
			s.conn.Close()
		}
	}
	if end.fault != nil {
		c.emit(LinkEvent{Kind: Cut, Fault: *end.fault})
	}
	// What the sides still send is read, and goes nowhere.
	stop := context.AfterFunc(c.run, func() { c.closeSides() })
	c.readers.Wait()
	stop()
	c.closeSides()
	c.emit(LinkEvent{Kind: Closed, Err: end.err})
}

func (c *linkConn) closeSides() {
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// fin tells conn's peer that nothing more comes, and gives it time to close too.
// It reports false where that cannot be done.
func fin(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return false
	}
	conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	return true
}

// reset closes conn with a RST if it can be, else in order.
func reset(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// emit calls the hook with e and what is the same in all events of c.
func (c *linkConn) emit(e LinkEvent) {
	if c.link.cfg.Observe == nil {
		return
	}
	e.At, e.Conn = time.Now(), c.number
	c.mu.Lock()
	e.ToClient, e.ToServer = c.toClient.passed, c.toServer.passed
	e.Events = c.toClient.scan.events.begun
	c.mu.Unlock()
	c.link.cfg.Observe(e)
}
