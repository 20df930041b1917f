package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

var (
	// ErrClosed: the client is closed, or about to.
	ErrClosed = errors.New("client: closed")
	// ErrNoSession: the client has no session, and does not begin one.
	ErrNoSession = errors.New("client: no session")
	// ErrTimeout: a call was given up after its timeout.
	ErrTimeout = errors.New("client: the call was given up")
	// ErrStillRunning: something of the client has outlived its Close.
	ErrStillRunning = errors.New("client: still running after its close")
)

// CallResult is what became of a tool call.
type CallResult struct {
	Ref       int    // the call's number in the log
	SessionID string // "" if there was none
	How       Outcome
	Code      int64  // of an RPCError, 0 if the client does not say
	Err       error  // nil of Result and ToolError
	Text      string // of Result and ToolError, the first text in it
	Stamp     mcpserver.Stamp
}

// Client is one client and the application that uses it. It owns its sessions
// and everything that it starts; the transport is its maker's. Its methods may be
// called from any goroutine.
type Client struct {
	// Immutable after New.
	cfg  Config
	log  *Log
	edge *edge
	http *http.Client
	dial func(context.Context, *Client) (session, error)
	life context.Context // until Close; its cause is ErrClosed
	end  context.CancelCauseFunc

	idle gauge // calls, prompts that will be answered, and new sessions

	mu      sync.Mutex
	current session       // the latest; nil before the first, and while one is begun
	begun   chan struct{} // non-nil while a session is begun; closed after that
	reports map[string]bool
	calls   int
	prompts int
	closing bool
	running sync.WaitGroup // no Go once closing
	once    sync.Once      // of Close
	err     error          // of Close
}

// session is one session of an SDK's client.
type session interface {
	life() *life
	// call calls a tool and waits for what becomes of it. It fills in all of the
	// result but Ref and SessionID.
	call(ctx context.Context, tool string, args map[string]any) CallResult
	// close ends the session, with a DELETE where the client does not know it to
	// be dead, and what runs on its behalf, and returns when that has ended. It is
	// called once, after the end of its life.
	close()
}

// life is a session's.
type life struct {
	// ctx ends when the application goes on without the session, calls when it
	// gives up the session's calls, too: calls.Err() != nil => ctx.Err() != nil.
	ctx      context.Context
	end      context.CancelCauseFunc
	calls    context.Context
	endCalls context.CancelCauseFunc

	mu sync.Mutex
	id string
}

func newLife(of context.Context) *life {
	l := &life{}
	l.calls, l.endCalls = context.WithCancelCause(of)
	l.ctx, l.end = context.WithCancelCause(l.calls)
	return l
}

func (l *life) named(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
}

// name is the session's id, "" while it is not known.
func (l *life) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// New makes a client. It starts nothing, and sends nothing. Every fault of the
// Config is in the error.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, log: cfg.Log, edge: newEdge(), reports: make(map[string]bool)}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.http = &http.Client{Transport: &tap{base: cfg.Transport, log: c.log, layer: Edge, edge: c.edge}}
	if cfg.Cookies {
		c.http.Jar, _ = cookiejar.New(nil) // It cannot fail.
	}
	switch cfg.Kind {
	case GoSDK:
		c.dial = dialGoSDK
	case MCPGo:
		c.dial = dialMCPGo
		c.log.onDead(c.hooked)
	case Naive:
		c.dial = dialNaive
	}
	return c, nil
}

// Connect begins a session, and with it the standalone stream unless there is to
// be none: the first one, one after [Client.Disconnect], or one in place of a
// session that is over, which is then closed. ctx bounds it, and not the session.
func (c *Client) Connect(ctx context.Context) error {
	c.mu.Lock()
	old := c.current
	alive := old != nil && !c.reports[old.life().name()]
	c.mu.Unlock()
	if alive || !c.start(old) {
		return errors.New("client: there is a session, or one is begun, or the client is closed")
	}
	defer c.running.Done()
	if old != nil {
		defer c.running.Go(func() { leave(old) })
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })()
	return c.connect(ctx)
}

// start notes that a session is about to begin in place of old, and that it has
// to be waited for. It reports false if it must not.
func (c *Client) start(old session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.current != old || c.begun != nil {
		return false
	}
	c.current, c.begun = nil, make(chan struct{})
	c.running.Add(1)
	c.idle.enter()
	return true
}

// connect begins a session. start has come before.
func (c *Client) connect(ctx context.Context) error {
	defer c.idle.leave()
	s, err := c.dial(ctx, c)
	if err != nil {
		c.log.add(Record{Kind: ConnectFailed, Err: err})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.current = s
	}
	close(c.begun)
	c.begun = nil
	return err
}

// connected logs that a session has begun, before anything comes of it.
func (c *Client) connected(l *life, id string) {
	l.named(id)
	c.log.add(Record{Kind: Connected, SessionID: id})
}

// SessionID is the id of the latest session, in full, "" if there is none.
func (c *Client) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return ""
	}
	return c.current.life().name()
}

// Disconnect leaves the session, and gives up what is under way there. The server
// is told by a DELETE, unless the client is to vanish: then all of the session's
// connections are closed, and nothing is said. Disconnect returns when nothing of
// the session runs any more, or after Config.CloseTimeout, when it is cut off. It
// returns ErrNoSession if there is none.
func (c *Client) Disconnect(vanish bool) error {
	c.mu.Lock()
	s := c.current
	if s == nil || c.closing {
		c.mu.Unlock()
		return ErrNoSession
	}
	id := s.life().name()
	c.current, c.reports[id] = nil, true
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	c.log.add(Record{Kind: Left, SessionID: id})
	cut := func() { c.edge.line(id).cut(errLeft) }
	// First, so that a call that is cut off knows that it was given up.
	s.life().endCalls(errLeft)
	if vanish {
		cut()
	}
	defer time.AfterFunc(c.cfg.CloseTimeout, cut).Stop()
	s.close()
	return nil
}

// Call calls a tool in the background, on the session that the client has, or
// begins. The channel gets the one result and is never closed; it need not be
// read. The call has no deadline.
func (c *Client) Call(tool string, args map[string]any) <-chan CallResult {
	_, done := c.CallWithin(0, tool, args)
	return done
}

// CallWithin is Call, but for a call that its application gives up after a while,
// which ends as Hanging with [ErrTimeout]. 0: it does not. ref is the call's number
// in the log.
func (c *Client) CallWithin(timeout time.Duration, tool string, args map[string]any) (ref int, _ <-chan CallResult) {
	done := make(chan CallResult, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	rec := Record{Kind: CallBegun, Ref: c.calls, Tool: tool}
	if c.current != nil {
		rec.SessionID = c.current.life().name()
	}
	c.log.add(rec)
	if c.closing {
		done <- c.ended(rec, CallResult{How: SessionError, Err: ErrClosed})
		return rec.Ref, done
	}
	c.idle.enter()
	c.running.Go(func() {
		defer c.idle.leave()
		began := time.Now()
		s, err := c.session()
		if err != nil {
			done <- c.ended(rec, given(c.life, CallResult{How: SessionError, Err: err}))
			return
		}
		rec.SessionID = s.life().name()
		ctx := s.life().calls
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, timeout-time.Since(began), ErrTimeout)
			defer cancel()
		}
		result := given(ctx, s.call(ctx, tool, args))
		if left := context.Cause(s.life().ctx); left != nil && result.How == TransportError {
			result.How, result.Err = SessionError, left
		}
		result = c.ended(rec, result)
		if result.How == SessionError {
			// Before its caller knows: a call made anew is one of the next session.
			c.over(s, result.Err, c.placeOf(rec.SessionID, began))
		}
		done <- result
	})
	return rec.Ref, done
}

// given is what became of a call, if it may be that it was given up with ctx.
func given(ctx context.Context, r CallResult) CallResult {
	if ctx.Err() != nil && (r.How == SessionError || r.How == TransportError) {
		r.How, r.Err = Hanging, context.Cause(ctx)
	}
	return r
}

// ended logs what became of a call.
func (c *Client) ended(begun Record, r CallResult) CallResult {
	r.Ref, r.SessionID = begun.Ref, begun.SessionID
	begun.Kind, begun.How, begun.Code, begun.Err, begun.Stamp = CallEnded, r.How, r.Code, r.Err, r.Stamp
	c.log.add(begun)
	return r
}

// session is the current session, once there is one.
func (c *Client) session() (session, error) {
	for {
		c.mu.Lock()
		s, begun := c.current, c.begun
		c.mu.Unlock()
		switch {
		case s != nil:
			return s, nil
		case begun == nil:
			return nil, ErrNoSession
		}
		select {
		case <-begun:
		case <-c.life.Done():
			return nil, context.Cause(c.life)
		}
	}
}

// placeOf is where a session was found to be over by which a call has failed
// that began at a moment: where the stream of the call was resumed, that is a
// reconnect.
func (c *Client) placeOf(session string, began time.Time) By {
	if s, ok := c.edge.sign(session); ok && s.get && !s.at.Before(began) {
		return ByReconnect
	}
	return ByCall
}

// over tells the application that a session is over, the first time, and has it
// begin another. What ends with the client is nothing that it is told.
func (c *Client) over(s session, err error, by By) {
	id := s.life().name()
	_, dead := c.edge.sign(id)
	dead = dead || errors.Is(err, middleware.ErrSessionDead)
	c.mu.Lock()
	again := c.reports[id] || c.closing
	c.reports[id] = true
	c.mu.Unlock()
	if again {
		return
	}
	c.log.add(Record{Kind: SessionOver, SessionID: id, By: by, Dead: dead, Err: err})
	if !c.cfg.Reinitialize || !c.start(s) {
		return
	}
	go func() {
		defer c.running.Done()
		_ = c.connect(c.life) // It is logged.
		leave(s)
	}()
}

// leave closes a session that the application goes on without. Its calls that are
// under way are the client's to end, or not.
func leave(s session) {
	s.life().end(errLeft)
	s.close()
}

var errLeft = errors.New("client: the application has left the session")

// hooked is told by the middleware that a session is dead.
func (c *Client) hooked(e middleware.Event) {
	by := ByReconnect
	if cause := (*middleware.SessionResumptionError)(nil); errors.As(e.Err, &cause) && cause.Phase == middleware.PhaseRequest {
		by = ByCall
	}
	c.mu.Lock()
	s := c.current
	// The hook is called in a goroutine of the client's own, which may hold one
	// of its locks.
	if !c.closing && s != nil && s.life().name() == e.SessionID {
		c.running.Go(func() { c.over(s, e.Err, by) })
	}
	c.mu.Unlock()
}

// WaitIdle waits until no call is under way, no prompt waits that the person will
// answer, and no session is about to begin. It gives up with the cause of ctx.
func (c *Client) WaitIdle(ctx context.Context) error { return c.idle.wait(ctx) }

// Close ends the client: it gives up what is under way, ends the session, which
// for one that the client thinks alive is a DELETE, and waits until nothing of
// the client runs any more. What has not ended within Config.CloseTimeout is cut
// off; the error is then [ErrStillRunning] if even that does not help within the
// same time. Close may be called again, and returns what it did.
func (c *Client) Close() error {
	c.once.Do(func() { c.err = c.close() })
	return c.err
}

func (c *Client) close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.log.add(Record{Kind: Closed})
	c.end(ErrClosed)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.running.Wait()
		c.mu.Lock()
		s := c.current
		c.mu.Unlock()
		if s != nil {
			s.close()
		}
		c.edge.cut(ErrClosed)
		_ = c.edge.open.wait(context.Background())
	}()
	for _, last := range []bool{false, true} {
		timer := time.NewTimer(c.cfg.CloseTimeout)
		select {
		case <-ended:
			timer.Stop()
			return nil
		case <-timer.C:
			c.edge.cut(ErrClosed)
		}
		if last {
			return fmt.Errorf("%w, after %v", ErrStillRunning, 2*c.cfg.CloseTimeout)
		}
	}
	return nil
}
