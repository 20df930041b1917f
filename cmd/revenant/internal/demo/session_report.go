package demo

import (
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// SessionReport is what came of the session record.
type SessionReport struct {
	Settings Settings `json:"settings"`
	Arms     Arms     `json:"arms"`
	Timeline []Moment `json:"timeline"`
}

// Settings is what the servers and the load balancers were set to, scaled.
type Settings struct {
	ProtocolVersion string  `json:"protocol_version"`
	SessionTTLMS    float64 `json:"session_ttl_ms"`
	SessionRefresh  string  `json:"session_refresh"`
	LogRetentionMS  float64 `json:"log_retention_ms"`
	RetryMS         float64 `json:"retry_ms"`
	IdleTimeoutMS   float64 `json:"idle_timeout_ms"`
	OnExpiry        string  `json:"on_expiry"`
}

// Arms is the two arms side by side.
type Arms struct {
	Control   ArmReport `json:"control"`
	Protected ArmReport `json:"protected"`
}

// ArmReport is what came of one arm, both parts together and each.
type ArmReport struct {
	DeadSessionEventsApplied int          `json:"dead_session_events_applied"`
	RequestsToDeadSession    int          `json:"requests_to_dead_session"`
	RequestsAfterNoticed     int          `json:"requests_after_noticed"`
	Parts                    []PartReport `json:"parts"`
	// Middleware is nil in the control arm.
	Middleware *MiddlewareReport `json:"middleware"`
}

// PartReport is what came of the session of one part.
type PartReport struct {
	Part      int    `json:"part"`
	SessionID string `json:"session_id"`
	// Death is "expired" or "reaped", "" if the session lives; DiedAtMS counts
	// from the start, null if it lives.
	Death    string   `json:"death"`
	DiedAtMS *float64 `json:"died_at_ms"`

	// What the application was given while the session lived, and after it had
	// died. EventsMissed is what was logged while it lived and not given in
	// that time.
	LiveSessionEventsApplied int `json:"live_session_events_applied"`
	DeadSessionEventsApplied int `json:"dead_session_events_applied"`
	EventsMissed             int `json:"events_missed"`
	EventsRepeated           int `json:"events_repeated"`
	EventsOutOfOrder         int `json:"events_out_of_order"`

	RequestsToDeadSession int `json:"requests_to_dead_session"`
	RequestsAfterNoticed  int `json:"requests_after_noticed"`
	CallsFailed           int `json:"calls_failed"`

	// The lengths of time count from the death. They are null, and so is
	// Error, where the application did not notice.
	NoticedAt            Place    `json:"noticed_at"`
	NoticedAfterMS       *float64 `json:"noticed_after_ms"`
	NoticedAfterRecordMS *float64 `json:"noticed_after_record_ms"`
	// Error is what the client told the application, SessionError what the
	// middleware says of the session, null in the control arm.
	Error        *string `json:"error"`
	SessionError *string `json:"session_error"`
}

func sessionDetail(r run) detail {
	return &SessionReport{
		Settings: Settings{
			ProtocolVersion: protocolVersion,
			SessionTTLMS:    ms(r.real(sessionTTL)), SessionRefresh: mcpserver.RefreshNever.String(),
			LogRetentionMS: ms(r.real(logRetention)), RetryMS: ms(r.real(retryHint)),
			IdleTimeoutMS: ms(r.real(idleTimeout)), OnExpiry: lb.FIN.String(),
		},
		Arms:     Arms{Control: r.armReport(r.control, r.counters[0]), Protected: r.armReport(r.protected, r.counters[1])},
		Timeline: r.timeline,
	}
}

func (s *SessionReport) into(r *Report) { r.SessionReport = s }

func (c clock) armReport(r *Recording, counters *MiddlewareReport) ArmReport {
	a := ArmReport{Middleware: counters}
	one, two := parts(r)
	for i, t := range []SessionTally{one, two} {
		p := c.partReport(i+1, t)
		a.DeadSessionEventsApplied += p.DeadSessionEventsApplied
		a.RequestsToDeadSession += p.RequestsToDeadSession
		a.RequestsAfterNoticed += p.RequestsAfterNoticed
		a.Parts = append(a.Parts, p)
	}
	return a
}

func (c clock) partReport(part int, t SessionTally) PartReport {
	p := PartReport{
		Part: part, SessionID: t.SessionID, Death: string(t.Why),
		LiveSessionEventsApplied: t.AppliedAlive, DeadSessionEventsApplied: t.AppliedDead,
		EventsMissed: t.Lost, EventsRepeated: t.Repeated, EventsOutOfOrder: t.Misplaced,
		RequestsToDeadSession: t.Requests, RequestsAfterNoticed: t.RequestsNoticed, CallsFailed: t.CallsFailed,
		NoticedAt: t.Place,
	}
	if !t.Died.IsZero() {
		p.DiedAtMS = new(ms(t.Died.Sub(c.start)))
	}
	if t.Place != Nowhere {
		p.NoticedAfterMS, p.NoticedAfterRecordMS = new(ms(t.After)), new(ms(c.record(t.After)))
		p.Error = new(t.Err.Error())
	}
	if t.Reason != nil {
		p.SessionError = new(t.Reason.Error())
	}
	return p
}
