package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// shutdownGrace is how long open answers get to end cleanly.
	shutdownGrace = time.Second
	// closeWait bounds the wait for requests that another server serves with
	// our Handler and that do not end.
	closeWait = 5 * time.Second
)

// Server is the MCP server. It owns its listener, its sessions and its event
// log; as a replica of a [Cluster], it shares with the others what that says.
// Use [Server.Run] to serve, or [Server.Handler] within another server; in that
// case end with [Server.Close]. All methods may be called at any time.
type Server struct {
	// Immutable after New.
	cfg      Config
	replica  int // its number in its cluster, from 0
	listener net.Listener
	handler  http.Handler
	oracle   *Oracle
	log      *eventLog
	rules    *rulebook
	cluster  *Cluster        // nil for a Server that stands alone
	life     context.Context // from New until the server is to stop; its cause is ErrClosed
	end      func()          // ends life
	finished chan struct{}   // closed by Run when it has closed everything

	// restarting is held by Restart, and by teardown. It comes before mu.
	restarting sync.Mutex

	mu      sync.Mutex
	process *process // that of now
	running bool
	closing bool // no request is taken any more
	conns   map[net.Conn]struct{}
	serving sync.WaitGroup // what Run has started; no Go once closing
	once    sync.Once      // of teardown
}

// New makes a server and binds its address. It starts nothing. Every fault of
// the Config is in the error.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var s *Server
	oracle := newOracle(cfg.Observe, func() { s.current().settle() })
	s, err := newServer(cfg, oracle, newEventLog(cfg, oracle), newRulebook(cfg.Rules))
	if err != nil {
		return nil, err
	}
	s.process = newProcess(s.life, s, s.log, oracle, false)
	return s, nil
}

// newServer is New but for the process. The Config is valid.
func newServer(cfg Config, oracle *Oracle, log *eventLog, rules *rulebook) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:      cfg,
		listener: cfg.Listener,
		oracle:   oracle,
		log:      log,
		rules:    rules,
		finished: make(chan struct{}),
		conns:    make(map[net.Conn]struct{}),
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
func (s *Server) Reap(sessionID string) bool { return s.current().reap(sessionID) }

// Inject adds a rule, after those that are there, until remove is called, which
// may be called again. The rule counts the requests that arrive from now on. The
// error names every fault of the rule. At a replica of a [Cluster] the rule is
// for that replica's requests alone.
func (s *Server) Inject(rule Rule) (remove func(), err error) { return s.rules.inject(rule, s) }

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
	if !s.shares() {
		s.serving.Go(s.process.keepTime)
	}
	s.mu.Unlock()
	defer close(s.finished)
	defer context.AfterFunc(ctx, s.end)()

	hs := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState:         s.track,
	}
	var serveErr error
	s.serving.Go(func() {
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
	s.serving.Wait()
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

// teardown closes the listener and the process, if that is the server's own.
func (s *Server) teardown() {
	s.once.Do(func() {
		s.listener.Close()
		s.restarting.Lock()
		defer s.restarting.Unlock()
		if !s.shares() {
			s.current().teardown()
		}
	})
}

// shares is whether the process is that of a cluster, and not the server's own.
func (s *Server) shares() bool { return s.cluster != nil && s.cluster.process != nil }

// current is the process of now.
func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// enter returns the process that takes a request now, or nil if the server takes
// none any more. The caller leaves the process.
func (s *Server) enter() *process {
	for {
		s.mu.Lock()
		p, closing := s.process, s.closing
		s.mu.Unlock()
		if closing {
			return nil
		}
		if p.enter() {
			return p
		}
		if s.current() == p {
			return nil
		}
	}
}

// refuse lets nobody in any more.
func (s *Server) refuse() {
	s.mu.Lock()
	s.closing = true
	p := s.process
	s.mu.Unlock()
	if !s.shares() {
		p.refuse()
	}
}

// serve lets the process of now answer a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	p := s.enter()
	if p == nil {
		http.Error(w, "the server is closing", http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	p.serve(s, w, r)
}
