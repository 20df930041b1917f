package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// shutdownGrace is how long open answers get to end cleanly.
	shutdownGrace = time.Second
	// closeWait bounds the wait for requests that another server serves with
	// our Handler and that do not end.
	closeWait = 5 * time.Second
)

// Server is the MCP server. It owns its listener, its sessions and its event
// log. Use [Server.Run] to serve, or [Server.Handler] within another server; in
// that case end with [Server.Close]. All methods may be called at any time.
type Server struct {
	// Immutable after New.
	cfg      Config
	listener net.Listener
	handler  http.Handler
	mcp      *server.StreamableHTTPServer
	oracle   *Oracle
	sessions *sessionStore
	log      *eventLog
	inners   *inners
	acks     *acks
	asks     *asks
	wake     chan struct{}   // has room for one; tells Run that something is due earlier
	life     context.Context // from New until the server is to stop; its cause is ErrClosed
	end      func()          // ends life

	mu       sync.Mutex
	running  bool
	closing  bool          // no enter succeeds any more
	inside   int           // enters without their leave
	empty    chan struct{} // closed by leave when closing && inside == 0
	finished chan struct{} // closed by Run when it has closed everything
	still    bool          // nothing is to happen any more; still => closing
	once     sync.Once     // of teardown
}

// New makes a server and binds its address. It starts nothing. Every fault of
// the Config is in the error.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:      cfg,
		listener: cfg.Listener,
		inners:   newInners(),
		acks:     newAcks(),
		wake:     make(chan struct{}, 1),
		empty:    make(chan struct{}),
		finished: make(chan struct{}),
	}
	if s.listener == nil {
		l, err := net.Listen("tcp", cfg.Addr)
		if err != nil {
			return nil, fmt.Errorf("mcpserver: listen on %q: %w", cfg.Addr, err)
		}
		s.listener = l
	}
	life, end := context.WithCancelCause(context.Background())
	s.life, s.end = life, func() { end(ErrClosed) }
	s.oracle = newOracle(cfg.Observe, s.settle)
	s.sessions = newSessionStore(cfg.SessionTTL, s.oracle)
	s.asks = newAsks(s.oracle)
	s.log = &eventLog{
		retention: cfg.LogRetention, max: cfg.MaxEvents, logs: make(map[string]*sessionLog),
		sessions: s.sessions, oracle: s.oracle, acks: s.acks, asks: s.asks,
		replay: cfg.Replay, tokens: cfg.LivenessToken, nudge: s.nudge,
	}

	hooks := &server.Hooks{}
	hooks.AddOnRegisterSession(s.inners.registered)
	m := server.NewMCPServer("revenant-mcpserver", "1",
		server.WithLogging(), server.WithToolCapabilities(false), server.WithHooks(hooks),
		server.WithToolHandlerMiddleware(s.stampAnswers))
	s.addTools(m)
	if cfg.Extend != nil {
		cfg.Extend(s, m)
	}
	s.mcp = server.NewStreamableHTTPServer(m,
		server.WithSessionIdManagerResolver(idResolver{s}),
		server.WithEventStore(s.log),
		server.WithHTTPContextFunc(s.outlive),
		server.WithStreamableHTTPProtocolVersions(mcp.LegacyProtocolVersions()...),
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	mux := http.NewServeMux()
	mux.HandleFunc(path, s.serve)
	s.handler = mux
	return s, nil
}

// Addr is the address that the server is bound to.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// URL is the endpoint, for a client on this host.
func (s *Server) URL() string {
	addr := s.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil {
		// mcp-go refuses a Host that is not the loopback's on a connection to it.
		// Package net's wildcard listeners take IPv4 also when they print [::].
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("127.0.0.1", port)
		}
	}
	return "http://" + addr + path
}

// Handler serves the endpoint /mcp. Without [Server.Run] nothing happens by
// itself: sessions die and events are forgotten on time all the same, but the
// oracle finds out when a request comes or when it is asked.
func (s *Server) Handler() http.Handler { return s.handler }

// Oracle returns what knows the truth about this server.
func (s *Server) Oracle() *Oracle { return s.oracle }

// Reap deletes a session's record now; the log keeps its events, and its open
// streams stay open. It reports whether the session was alive.
func (s *Server) Reap(sessionID string) bool {
	s.settle()
	died, ok := s.sessions.end(sessionID, WhyReaped)
	if ok {
		s.died(died)
		s.drop(sessionID)
	}
	return ok
}

// Run serves until ctx ends. It then ends every stream and every tool, closes
// the listener and all connections, waits until everything has stopped, and
// returns nil. It returns an error only if serving fails before. Sessions that
// live then do not die: no request will ever ask for them. Run works once.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running || s.closing {
		s.mu.Unlock()
		return errors.New("mcpserver: Run was called before, or Close")
	}
	s.running = true
	s.mu.Unlock()
	defer close(s.finished)
	defer context.AfterFunc(ctx, s.end)()

	hs := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	var wg sync.WaitGroup
	wg.Go(s.keepTime)
	var serveErr error
	wg.Go(func() {
		if err := hs.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			serveErr = fmt.Errorf("mcpserver: serve on %s: %w", s.Addr(), err)
			s.end()
		}
	})
	<-s.life.Done()

	s.refuse()
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	if hs.Shutdown(grace) != nil {
		hs.Close()
	}
	cancel()
	wg.Wait()
	s.teardown()
	return serveErr
}

// Close closes a server that never ran: its listener, and what requests to its
// Handler have left behind. It ends one that runs, and waits for it. It may be
// called again.
func (s *Server) Close() error {
	s.end()
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running {
		<-s.finished
		return nil
	}
	s.refuse()
	s.teardown()
	return nil
}

// teardown waits until nobody is inside, then clears mcp-go of all state.
func (s *Server) teardown() {
	s.once.Do(func() {
		s.listener.Close()
		timer := time.NewTimer(closeWait)
		defer timer.Stop()
		select {
		case <-s.empty:
		case <-timer.C:
		}
		s.settle()
		s.mu.Lock()
		s.still = true
		s.mu.Unlock()
		for _, id := range s.inners.all() {
			s.discard(id)
		}
	})
}

// enter reports whether the server still takes requests. If so, leave follows.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.inside++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside--; s.closing && s.inside == 0 {
		close(s.empty)
	}
}

// refuse lets nobody in any more.
func (s *Server) refuse() {
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

// settle lets everything happen whose time has come: sessions die, events are
// forgotten, and mcp-go discards what is out of reach. Not to be called by
// mcp-go's callbacks, which hold a stream's lock.
func (s *Server) settle() {
	s.mu.Lock()
	still := s.still
	s.mu.Unlock()
	if still {
		return
	}
	deaths, emptied := s.sessions.expire(), s.log.expire()
	for _, d := range deaths {
		s.died(d)
		s.drop(d.Session.ID)
	}
	for _, id := range emptied {
		s.drop(id)
	}
}

// died tells of a session's death, and ends what waits for its client.
func (s *Server) died(d Record) {
	s.oracle.tell(d)
	s.asks.cancel(d.Session.ID, WhySession, all)
	for _, id := range s.inners.of(d.Session.ID) {
		s.drop(id)
	}
}

// keepTime calls settle whenever something is due, while the server lives.
func (s *Server) keepTime() {
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
func (s *Server) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
