package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// acceptPause is how long a listener rests that has run out of file descriptors.
const acceptPause = 50 * time.Millisecond

// tcpProxy is engine embedded in TCP mode.
type tcpProxy struct {
	// Immutable.
	cfg  Config
	pool *pool
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	conns    atomic.Uint64 // so far
	serving  sync.WaitGroup
	underWay underWay // connections with an upstream
}

func newTCPProxy(cfg Config) *tcpProxy {
	return &tcpProxy{cfg: cfg, pool: newPool(cfg), dial: dialer(cfg)}
}

func (p *tcpProxy) run(ctx context.Context, listener net.Listener, ready func()) error {
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(ErrStopped)
	defer context.AfterFunc(ctx, func() {
		stop(ErrStopped)
		listener.Close()
	})()
	ready()

	err := p.accept(run, listener)
	stop(ErrStopped)
	listener.Close()
	p.serving.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("lb: %w", err)
}

// accept serves the clients of listener until that fails.
func (p *tcpProxy) accept(run context.Context, listener net.Listener) error {
	for {
		client, err := listener.Accept()
		switch {
		case err == nil:
			p.serving.Go(func() { p.serve(run, client) })
		case errors.Is(err, syscall.ECONNABORTED):
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			pause := time.NewTimer(acceptPause)
			select {
			case <-pause.C:
			case <-run.Done():
				pause.Stop()
			}
		default:
			return err
		}
	}
}

func (p *tcpProxy) cut(how Expiry) int { return p.underWay.cut(how) }

// tcpConn is one client's connection and the one to its upstream.
//
// How it ends is decided as for a stream: by whoever is the first to cancel ctx.
type tcpConn struct {
	// Immutable.
	proxy  *tcpProxy
	id     uint64
	run    context.Context // ends with Run
	client net.Conn

	ctx    context.Context // its cause is the decision
	cancel context.CancelCauseFunc
	clock  *idleClock

	bytes atomic.Int64 // passed to the client
}

func (p *tcpProxy) serve(run context.Context, client net.Conn) {
	c := &tcpConn{proxy: p, id: p.conns.Add(1), run: run, client: client}
	c.ctx, c.cancel = context.WithCancelCause(run)
	defer c.cancel(nil)
	defer client.Close()
	c.clock = c.limit(p.cfg.IdleTimeout, ErrIdle)
	defer c.clock.stop()
	defer c.limit(p.cfg.MaxDuration, ErrMaxDuration).stop()

	upstream, err := c.connect()
	if err == nil {
		p.underWay.add(c)
		c.emit(Event{Kind: Opened})
		c.forward(upstream)
		p.underWay.remove(c)
	}
	c.decide(err)
	c.finish(context.Cause(c.ctx))
}

// limit starts a clock that cuts the connection when it is not touched for that
// long. Its caller stops it.
func (c *tcpConn) limit(d time.Duration, why error) *idleClock {
	return startIdleClock(d, func() { c.decide(&cut{how: c.proxy.cfg.OnExpiry, why: why}) })
}

// decide settles how the connection ends, unless that is settled already, and
// reports whether it did.
func (c *tcpConn) decide(cause error) bool {
	if cause == nil {
		return false
	}
	c.cancel(cause)
	return context.Cause(c.ctx) == cause
}

// connect dials an upstream, and the next one if that fails.
func (c *tcpConn) connect() (net.Conn, error) {
	pool := c.proxy.pool
	upstream, _ := pool.choose(nil)
	for tries := 1; ; tries++ {
		conn, err := c.proxy.dial(c.ctx, "tcp", pool.addrs[upstream])
		if err == nil && c.ctx.Err() != nil {
			conn.Close()
			err = context.Cause(c.ctx)
		}
		if err == nil {
			return conn, nil
		}
		if tries == len(pool.addrs) || c.ctx.Err() != nil {
			return nil, fmt.Errorf("lb: upstream: %w", err)
		}
		upstream = (upstream + 1) % len(pool.addrs)
	}
}

// forward passes bytes in both directions until both have ended, or the end is
// decided. It closes upstream and leaves the client's connection open, with no
// reader or writer.
func (c *tcpConn) forward(upstream net.Conn) {
	defer upstream.Close()
	interrupted := make(chan struct{})
	context.AfterFunc(c.ctx, func() {
		defer close(interrupted)
		upstream.Close()
		c.client.SetDeadline(longAgo)
	})
	var both sync.WaitGroup
	both.Go(func() {
		switch from, err := c.pass(upstream, c.client, func(int) {}); {
		case err == nil:
			if !closeWrite(upstream) {
				c.decide(errUpstreamEnded) // there is no way to hear the rest of the answer
			}
		case from:
			c.decide(fmt.Errorf("%w: %w", ErrClientLeft, err))
		default:
			c.decide(fmt.Errorf("lb: upstream: %w", err))
		}
	})
	both.Go(func() {
		switch from, err := c.pass(c.client, upstream, func(n int) { c.bytes.Add(int64(n)) }); {
		case err == nil:
			if !closeWrite(c.client) {
				c.decide(errUpstreamEnded)
			}
		case from:
			c.decide(fmt.Errorf("lb: upstream: %w", err))
		default:
			c.decide(fmt.Errorf("%w: %w", ErrClientLeft, err))
		}
	})
	both.Wait()
	c.decide(errUpstreamEnded)
	<-interrupted
}

// pass copies from src to dst. It returns nil at the end of src, and else whether
// it was src that failed.
func (c *tcpConn) pass(dst, src net.Conn, count func(int)) (from bool, err error) {
	buf := make([]byte, smallCopy)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if c.ctx.Err() != nil {
				return true, context.Cause(c.ctx) // what comes after the decision is not passed on
			}
			c.clock.touch()
			if _, err := dst.Write(buf[:n]); err != nil {
				return false, err
			}
			c.clock.touch()
			count(n)
		}
		switch {
		case err == io.EOF:
			return true, nil
		case err != nil:
			return true, err
		case n == len(buf) && n < largeCopy:
			buf = make([]byte, largeCopy)
		}
	}
}

// closeWrite passes on that there is no more to come, and reports whether conn
// has a way to say that.
func closeWrite(conn net.Conn) bool {
	half, ok := conn.(halfCloser)
	if ok {
		half.CloseWrite()
	}
	return ok
}

// finish closes the client's connection as was decided.
func (c *tcpConn) finish(cause error) {
	c.clock.stop()
	limit, ok := cause.(*cut)
	if !ok {
		event := Event{Kind: Ended, Err: cause}
		if cause == errUpstreamEnded {
			event.Err = nil
		}
		c.emit(event)
		if cause != ErrStopped {
			c.client.SetDeadline(time.Time{})
			fin(c.run, c.client)
		}
		return
	}
	c.client.SetDeadline(time.Time{})
	how := feasible(c.client, limit.how)
	c.emit(Event{Kind: Cut, Expiry: how, Err: limit})
	sever(c.run, c.client, how)
}

func (c *tcpConn) emit(e Event) {
	if c.proxy.cfg.Observe == nil {
		return
	}
	e.At = time.Now()
	e.Stream, e.Bytes = c.id, c.bytes.Load()
	c.proxy.cfg.Observe(e)
}
