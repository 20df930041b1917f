package demo

import (
	"math"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// SchemaVersion is that of a [Report]. It changes when a field changes its
// meaning or goes, not when one comes.
const SchemaVersion = 1

// Report is a run, for programs. A field whose name ends in _ms is real time in
// milliseconds, one that ends in _record_ms the record's own.
type Report struct {
	SchemaVersion int       `json:"schema_version"`
	Verdict       Outcome   `json:"verdict"`
	Reasons       []string  `json:"reasons"`   // for the verdict, none if upheld
	Unplanned     bool      `json:"unplanned"` // the run did not go as planned
	StartedAt     time.Time `json:"started_at"`
	DurationMS    float64   `json:"duration_ms"`
	Scale         float64   `json:"scale"`
	MinuteMS      float64   `json:"minute_ms"`
	Settings      Settings  `json:"settings"`
	Arms          Arms      `json:"arms"`
	Timeline      []Moment  `json:"timeline"`
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

// MiddlewareReport is the middleware's own counters.
type MiddlewareReport struct {
	Reconnects        uint64 `json:"reconnects"`
	Probes            uint64 `json:"probes"`
	SessionsDead      uint64 `json:"sessions_dead"`
	EventsReleased    uint64 `json:"events_released"`
	EventsQuarantined uint64 `json:"events_quarantined"`
	RequestsFenced    uint64 `json:"requests_fenced"`
}

// Moment is one thing that happened in one arm.
type Moment struct {
	AtMS  float64 `json:"at_ms"`
	Clock string  `json:"clock"`
	Part  int     `json:"part"`
	Arm   string  `json:"arm"`
	// SessionID is the arm's latest session then.
	SessionID string `json:"session_id"`
	Kind      string `json:"kind"`
	Text      string `json:"text"`
	Detail    string `json:"detail,omitempty"`
}

// newReport counts and judges. The timeline and the middleware's counters are
// not in it.
func newReport(cfg Config, c clock, ended time.Time, control, protected *Recording) *Report {
	v := Judge(control, protected)
	if v.Reasons == nil {
		v.Reasons = []string{}
	}
	return &Report{
		SchemaVersion: SchemaVersion,
		Verdict:       v.Outcome, Reasons: v.Reasons, Unplanned: v.Unplanned,
		StartedAt: c.start, DurationMS: ms(ended.Sub(c.start)),
		Scale: cfg.Scale, MinuteMS: ms(c.minute),
		Settings: Settings{
			ProtocolVersion: protocolVersion,
			SessionTTLMS:    ms(c.real(sessionTTL)), SessionRefresh: mcpserver.RefreshNever.String(),
			LogRetentionMS: ms(c.real(logRetention)), RetryMS: ms(c.real(retryHint)),
			IdleTimeoutMS: ms(c.real(idleTimeout)), OnExpiry: lb.FIN.String(),
		},
		Arms: Arms{Control: c.armReport(control), Protected: c.armReport(protected)},
	}
}

func (c clock) armReport(r *Recording) ArmReport {
	var a ArmReport
	one, two := parts(r)
	for i, t := range []Tally{one, two} {
		p := c.partReport(i+1, t)
		a.DeadSessionEventsApplied += p.DeadSessionEventsApplied
		a.RequestsToDeadSession += p.RequestsToDeadSession
		a.RequestsAfterNoticed += p.RequestsAfterNoticed
		a.Parts = append(a.Parts, p)
	}
	return a
}

func (c clock) partReport(part int, t Tally) PartReport {
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

func middlewareReport(t *middleware.Transport) *MiddlewareReport {
	if t == nil {
		return nil
	}
	s := t.Stats()
	return &MiddlewareReport{
		Reconnects: s.Reconnects, Probes: s.Probes, SessionsDead: s.Dead, EventsReleased: s.ReleasedEvents,
		EventsQuarantined: s.Quarantined, RequestsFenced: s.Fenced,
	}
}

func (c clock) timeline(entries []Entry) []Moment {
	sortByTime(entries)
	moments := make([]Moment, 0, len(entries))
	for _, e := range entries {
		moments = append(moments, Moment{
			AtMS: ms(e.At.Sub(c.start)), Clock: Clock(c.since(e.At)),
			Part: e.Part, Arm: e.Arm, SessionID: e.Session, Kind: e.Kind, Text: e.Text, Detail: e.Detail,
		})
	}
	return moments
}

// ms is d in milliseconds, exact to the microsecond.
func ms(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
