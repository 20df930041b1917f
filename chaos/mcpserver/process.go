package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// errRestarted is the cause with which a restart ends a process.
var errRestarted = fmt.Errorf("%w: the server was restarted", ErrSessionGone)

// process is what a restart replaces: the session store, what runs on behalf of
// the sessions, and mcp-go with all of its state. What outlives it is the
// [Server]'s, and the event log.
type process struct {
	// Immutable.
	cfg      Config
	mcp      *server.StreamableHTTPServer
	oracle   *Oracle
	sessions *sessionStore
	log      *processLog
	inners   *inners
	acks     *acks
	asks     *asks
	// strict is whether a DELETE for a session that it never had is refused: the
	// events may be those of another process's session.
	strict bool
	wake   chan struct{}   // has room for one; tells keepTime that something is due earlier
	life   context.Context // until the process is to stop; its cause is ErrClosed or errRestarted
	end    context.CancelCauseFunc

	// killed is whether the process is gone for the world, whatever still runs:
	// nothing that it writes is sent or stored.
	killed atomic.Bool

	mu      sync.Mutex
	closing bool          // no enter succeeds any more
	inside  int           // enters without their leave
	empty   chan struct{} // closed by leave when closing && inside == 0
	still   bool          // nothing is to happen any more; still => closing
	dropped []string      // sessions that settle is to drop
	once    sync.Once     // of teardown
}

// newProcess makes the process of a server, or the one that several share. It
// starts nothing, and lives no longer than life.
func newProcess(life context.Context, s *Server, log *eventLog, oracle *Oracle, strict bool) *process {
	cfg := s.cfg
	p := &process{
		cfg:    cfg,
		oracle: oracle,
		inners: newInners(),
		acks:   newAcks(),
		asks:   newAsks(oracle),
		strict: strict,
		wake:   make(chan struct{}, 1),
		empty:  make(chan struct{}),
	}
	p.life, p.end = context.WithCancelCause(life)
	p.sessions = newSessionStore(cfg.SessionTTL, oracle)
	p.log = &processLog{eventLog: log, process: p}
	log.attach(p)

	hooks := &server.Hooks{}
	hooks.AddOnRegisterSession(p.inners.registered)
	m := server.NewMCPServer("revenant-mcpserver", "1",
		server.WithLogging(), server.WithToolCapabilities(false), server.WithHooks(hooks),
		server.WithToolHandlerMiddleware(p.stampAnswers))
	p.addTools(m)
	if cfg.Extend != nil {
		cfg.Extend(s, m)
	}
	p.mcp = server.NewStreamableHTTPServer(m,
		server.WithSessionIdManagerResolver(idResolver{p}),
		server.WithEventStore(p.log),
		server.WithHTTPContextFunc(p.outlive),
		server.WithStreamableHTTPProtocolVersions(mcp.LegacyProtocolVersions()...),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	return p
}

// reap is [Server.Reap].
func (s *process) reap(sessionID string) bool {
	s.settle()
	died, ok := s.sessions.end(sessionID, WhyReaped)
	if ok {
		s.died(died)
		s.drop(sessionID)
	}
	return ok
}

// reapInReplay is reap for a callback of mcp-go's, which holds a stream's lock.
// What mcp-go must be asked for waits until settle is called.
func (s *process) reapInReplay(sessionID string) {
	died, ok := s.sessions.end(sessionID, WhyReaped)
	if !ok {
		return
	}
	s.oracle.tell(died)
	s.asks.cancel(sessionID, WhySession, all)
	s.mu.Lock()
	s.dropped = append(s.dropped, sessionID)
	s.mu.Unlock()
	s.nudge()
}

// enter reports whether the process still takes requests. If so, leave follows.
func (s *process) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.inside++
	return true
}

func (s *process) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside--; s.closing && s.inside == 0 {
		close(s.empty)
	}
}

// refuse lets nobody in any more.
func (s *process) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.closing = true
	if s.inside == 0 {
		close(s.empty)
	}
}

// teardown waits until nobody is inside, then clears mcp-go of all state. The
// log keeps its events. It follows refuse.
func (s *process) teardown() {
	s.once.Do(func() {
		timer := time.NewTimer(closeWait)
		defer timer.Stop()
		select {
		case <-s.empty:
		case <-timer.C:
		}
		s.settle()
		s.log.detach(s)
		s.mu.Lock()
		s.still = true
		s.mu.Unlock()
		for _, id := range s.inners.all() {
			s.discard(id)
		}
	})
}

// settle lets everything happen whose time has come: sessions die, events are
// forgotten, and mcp-go discards what is out of reach. Not to be called by
// mcp-go's callbacks, which hold a stream's lock.
func (s *process) settle() {
	s.mu.Lock()
	still, dropped := s.still, s.dropped
	s.dropped = nil
	s.mu.Unlock()
	if still {
		return
	}
	deaths, emptied := s.sessions.expire(), s.log.expire()
	for _, d := range deaths {
		s.died(d)
		s.drop(d.Session.ID)
	}
	for _, session := range dropped {
		s.dropAll(session)
	}
	for _, p := range s.log.attached() {
		for _, id := range emptied {
			p.drop(id)
		}
	}
}

// died tells of a session's death, and ends what waits for its client.
func (s *process) died(d Record) {
	s.oracle.tell(d)
	s.asks.cancel(d.Session.ID, WhySession, all)
	for _, id := range s.inners.of(d.Session.ID) {
		s.drop(id)
	}
}

// keepTime calls settle whenever something is due, while the process lives.
func (s *process) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.life.Done():
			return
		}
		s.settle()
		next := s.sessions.next()
		if n := s.log.next(); next.IsZero() || !n.IsZero() && n.Before(next) {
			next = n
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// nudge makes keepTime look again.
func (s *process) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
