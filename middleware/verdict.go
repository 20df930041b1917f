package middleware

// Verdict is what is known of a session after a reconnect.
type Verdict uint8

const (
	// Ambiguous says that nobody could tell. Nothing is released and the
	// client keeps its cursor. It is the zero value: what is not known to live
	// is never treated as alive.
	Ambiguous Verdict = iota
	// Live says that a request which the server had to check against its
	// session store succeeded after the replay had opened.
	Live
	// Dead says that the server answered 404 or 410 to a request that carried
	// the session id, or that it answered in another session's name.
	Dead
)

// String returns "ambiguous", "live" or "dead".
func (v Verdict) String() string {
	switch v {
	case Live:
		return "live"
	case Dead:
		return "dead"
	default:
		return "ambiguous"
	}
}

// Phase is the place at which an outcome was decided.
type Phase string

const (
	// PhaseReplay is the GET that reconnects a stream, and the events on it.
	PhaseReplay Phase = "replay"
	// PhaseProbe is the middleware's own request after a replay has opened.
	PhaseProbe Phase = "probe"
	// PhaseRequest is any other request of the client.
	PhaseRequest Phase = "request"
	// PhaseFence is a request that was refused here because its session was
	// already known to be unusable. It never reached the wire.
	PhaseFence Phase = "fence"
)
