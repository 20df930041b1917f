package lb

import "net"

// OnlyInPath has the programs of the engines looked for in PATH alone, until
// restore is called.
func OnlyInPath() (restore func()) {
	dirs := programDirs
	programDirs = nil
	return func() { programDirs = dirs }
}

// MaxSessions is how many sessions affinity remembers.
const MaxSessions = maxSessions

// SessionTable is what session affinity remembers.
func SessionTable() (learn func(session string), knows func(session string) bool) {
	p := newPool(Config{Balance: SessionAffinity, Upstream: "h:1"})
	return func(session string) { p.learn(session, 0) }, func(session string) bool {
		_, ok := p.sessions[session]
		return ok && len(p.sessions) <= maxSessions && len(p.order) == len(p.sessions)
	}
}

// NewReadAhead returns conn, and how to have a function called before each read
// of it that may have to wait.
func NewReadAhead(conn net.Conn) (ahead net.Conn, flushFirst func(func() error) (stop func())) {
	c := &upstreamConn{Conn: conn, closed: func() {}}
	return c, c.flushFirst
}
