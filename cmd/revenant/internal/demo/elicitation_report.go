package demo

import (
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// ElicitationReport is what came of the elicitation record.
type ElicitationReport struct {
	Settings ElicitationSettings `json:"settings"`
	Arms     ElicitationArms     `json:"arms"`
	Timeline []Moment            `json:"timeline"`
}

// ElicitationSettings is what the servers, the load balancers and the middleware
// were set to, scaled.
type ElicitationSettings struct {
	ProtocolVersion string  `json:"protocol_version"`
	IdleTimeoutMS   float64 `json:"idle_timeout_ms"`
	OnExpiry        string  `json:"on_expiry"`
	RetryMS         float64 `json:"retry_ms"`
	Replay          string  `json:"replay"`
	OnBreak         string  `json:"on_break"`
	StaleAnswer     int     `json:"stale_answer"`
	StaleGraceMS    float64 `json:"stale_grace_ms"`
}

// ElicitationArms is the two arms side by side.
type ElicitationArms struct {
	Control   ElicitationArm `json:"control"`
	Protected ElicitationArm `json:"protected"`
}

// ElicitationArm is what came of one arm.
type ElicitationArm struct {
	SessionID  string `json:"session_id"`
	StreamsCut int    `json:"streams_cut"`
	Reconnects int    `json:"reconnects"`
	// RequestReplayed, Prompts, Answers and AnswersDropped are about one request
	// of the server's: how often it was replayed, the person prompted, and an
	// answer given, and how often nobody waited for that.
	RequestReplayed int `json:"request_replayed"`
	Prompts         int `json:"prompts"`
	Answers         int `json:"answers"`
	AnswersDropped  int `json:"answers_dropped"`

	Call CallReport `json:"call"`
	// CallAnew is the call that was made once more, null if there was none.
	CallAnew *CallAnewReport `json:"call_anew"`
	// SessionWorks is whether another call was answered at the end.
	SessionWorks bool `json:"session_works"`
	// Middleware is nil in the control arm.
	Middleware *MiddlewareReport `json:"middleware"`
}

// CallReport is what became of the call that asked.
type CallReport struct {
	Ended bool `json:"ended"`
	// After counts from its beginning: to its end, or to that of the record.
	AfterMS       float64 `json:"after_ms"`
	AfterRecordMS float64 `json:"after_record_ms"`
	// Error is what the application was told, null for nothing or a result;
	// ErrorCode is the code of the JSON-RPC error in it, 0 for none.
	Error     *string `json:"error"`
	ErrorCode int64   `json:"error_code"`
}

// CallAnewReport is what became of the call that was made once more.
type CallAnewReport struct {
	Answered bool `json:"answered"`
	Prompts  int  `json:"prompts"`
}

func askDetail(r run) detail {
	return &ElicitationReport{
		Settings: ElicitationSettings{
			ProtocolVersion: protocolVersion,
			IdleTimeoutMS:   ms(r.real(askIdle)), OnExpiry: lb.FIN.String(), RetryMS: ms(r.real(askRetry)),
			Replay: mcpserver.ReplayInclusive.String(), OnBreak: mcpserver.BreakCancels.String(), StaleAnswer: staleAnswer,
			StaleGraceMS: ms(r.real(askGrace)),
		},
		Arms:     ElicitationArms{Control: r.askReport(r.control, r.counters[0]), Protected: r.askReport(r.protected, r.counters[1])},
		Timeline: r.timeline,
	}
}

func (c clock) askReport(r *Recording, counters *MiddlewareReport) ElicitationArm {
	t := CountElicitation(r)
	a := ElicitationArm{
		SessionID: t.SessionID, StreamsCut: t.Cuts, Reconnects: t.Reconnects,
		RequestReplayed: t.SentAgain, Prompts: t.Prompts, Answers: t.Answers, AnswersDropped: t.Dropped,
		Call:         CallReport{Ended: !t.Open, AfterMS: ms(t.After), AfterRecordMS: ms(c.record(t.After)), ErrorCode: t.Code},
		SessionWorks: t.Lives, Middleware: counters,
	}
	if t.Err != nil {
		a.Call.Error = new(t.Err.Error())
	}
	if t.Anew > 0 {
		a.CallAnew = &CallAnewReport{Answered: t.Done, Prompts: t.AnewPrompts}
	}
	return a
}

func (e *ElicitationReport) into(r *Report) { r.Elicitation = e }
