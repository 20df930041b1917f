package mcpserver

import (
	"maps"
	"net"
	"net/http"
	"slices"
)

// Restart is what a crash of the server and its next start do, without the time
// in between. All connections are cut, every tool in flight ends without an
// answer, and the sessions are gone, as WhyRestarted: their ids are unknown from
// now on. The event log, the address, the oracle and the rules stay. What a
// replica of a [Cluster] with SharedSessions has of its own are its connections,
// so they are cut, and that is all.
//
// A request that [Server.Handler] serves within another server is aborted with
// [http.ErrAbortHandler]; what else is to be cut there is its caller's business.
//
// Restart returns when nothing of what was runs any more, after at most 5 s. It
// calls [Config.Extend] with the new mcp-go server. It must not be called by a
// tool or by [Config.Observe]. The error is [ErrClosed].
func (s *Server) Restart() error {
	s.restarting.Lock()
	defer s.restarting.Unlock()
	if s.shares() {
		if s.life.Err() != nil {
			return ErrClosed
		}
		s.mu.Lock()
		conns := s.connsLocked()
		s.mu.Unlock()
		cut(conns)
		return nil
	}
	next := newProcess(s.life, s, s.log, s.oracle, s.cluster != nil)

	s.mu.Lock()
	if s.closing || s.life.Err() != nil {
		s.mu.Unlock()
		next.refuse()
		next.teardown()
		return ErrClosed
	}
	old := s.process
	old.killed.Store(true)
	// The sessions are dead before a request can find out.
	deaths := old.sessions.endAll(WhyRestarted)
	s.process = next
	conns := s.connsLocked()
	if s.running {
		s.serving.Go(next.keepTime)
	}
	s.mu.Unlock()

	// The connections go first: nobody is to see a clean end.
	cut(conns)
	old.refuse()
	old.end(errRestarted)
	for _, d := range deaths {
		old.died(d)
	}
	old.teardown()
	return nil
}

// track is the ConnState hook of Run's server.
func (s *Server) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

// connsLocked are the connections that are open now.
func (s *Server) connsLocked() []net.Conn { return slices.Collect(maps.Keys(s.conns)) }

func cut(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}
