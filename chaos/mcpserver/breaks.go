package mcpserver

// attached notes that a request's answer carries a stream from now on. A client
// that comes for a stream says with it that its old connection is broken, also
// where the server has not seen that yet.
func (s *process) attached(c *call) {
	if s.inners.attach(c.inner, c.n) {
		s.broke(c.inner)
	}
}

// detached notes that a request's connection is at its end. If it carried a
// stream, that is broken.
func (s *process) detached(c *call) {
	if s.life.Err() == nil && s.inners.detach(c.inner, c.n) {
		s.broke(c.inner)
	}
}

// broke does to the requests on a stream what Config.OnBreak says. With
// BreakCancelsNoted, who asked writes what is to be written.
func (s *process) broke(inner string) {
	if s.cfg.OnBreak != BreakKeeps {
		s.asks.cancel(sessionOf(inner), WhyBroken, on(inner))
	}
}
