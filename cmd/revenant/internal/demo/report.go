package demo

import (
	"math"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// SchemaVersion is that of a [Report]. It changes when a field changes its
// meaning or goes, not when one comes.
const SchemaVersion = 1

// Report is a run, for programs. A field whose name ends in _ms is real time in
// milliseconds, one that ends in _record_ms the record's own.
type Report struct {
	SchemaVersion int            `json:"schema_version"`
	Verdict       Outcome        `json:"verdict"` // the gravest of all records
	Reasons       []string       `json:"reasons"` // for the verdict, none if upheld; each names its record
	Unplanned     bool           `json:"unplanned"`
	StartedAt     time.Time      `json:"started_at"`
	DurationMS    float64        `json:"duration_ms"`
	Scale         float64        `json:"scale"`
	MinuteMS      float64        `json:"minute_ms"`
	Records       []RecordReport `json:"records"`

	// What came of each record, nil for one that was not replayed. The fields of
	// the session record stand beside those above.
	*SessionReport
	Elicitation *ElicitationReport `json:"elicitation,omitempty"`
}

// RecordReport is the verdict on one record.
type RecordReport struct {
	Record     string    `json:"record"`
	Verdict    Outcome   `json:"verdict"`
	Reasons    []string  `json:"reasons"`
	Unplanned  bool      `json:"unplanned"` // it did not go as planned
	StartedAt  time.Time `json:"started_at"`
	DurationMS float64   `json:"duration_ms"`
}

// MiddlewareReport is the middleware's own counters.
type MiddlewareReport struct {
	Reconnects        uint64 `json:"reconnects"`
	Probes            uint64 `json:"probes"`
	SessionsDead      uint64 `json:"sessions_dead"`
	EventsReleased    uint64 `json:"events_released"`
	EventsQuarantined uint64 `json:"events_quarantined"`
	RequestsFenced    uint64 `json:"requests_fenced"`
	// MessagesSuppressed and RequestsStale are about the requests of the
	// server's that came again.
	MessagesSuppressed uint64 `json:"messages_suppressed"`
	RequestsStale      uint64 `json:"requests_stale"`
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

// newReport is a report without a record.
func newReport(cfg Config, minute time.Duration) *Report {
	return &Report{
		SchemaVersion: SchemaVersion, Verdict: Upheld, Reasons: []string{},
		Scale: cfg.Scale, MinuteMS: ms(minute), StartedAt: time.Now(),
	}
}

// add adds what came of one more record.
func (r *Report) add(f *Findings) {
	v := Verdict{r.Verdict, r.Reasons, r.Unplanned}.and(f.Record.name, f.Verdict)
	r.Verdict, r.Reasons, r.Unplanned = v.Outcome, v.Reasons, v.Unplanned
	r.DurationMS = ms(f.StartedAt.Add(f.Duration).Sub(r.StartedAt))
	r.Records = append(r.Records, RecordReport{
		Record: f.Record.name, Verdict: f.Outcome, Reasons: append([]string{}, f.Reasons...), Unplanned: f.Unplanned,
		StartedAt: f.StartedAt, DurationMS: ms(f.Duration),
	})
	f.detail.into(r)
}

func middlewareReport(t *middleware.Transport) *MiddlewareReport {
	if t == nil {
		return nil
	}
	s := t.Stats()
	return &MiddlewareReport{
		Reconnects: s.Reconnects, Probes: s.Probes, SessionsDead: s.Dead, EventsReleased: s.ReleasedEvents,
		EventsQuarantined: s.Quarantined, RequestsFenced: s.Fenced,
		MessagesSuppressed: s.Suppressed, RequestsStale: s.Stale,
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
