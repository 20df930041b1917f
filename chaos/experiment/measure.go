package experiment

import "slices"

// Measure names something that is measured in an arm of a kind of client, of all
// its clients together.
type Measure string

// The measures. [MeasureInfo] says what each means.
const (
	DeadSessionEventsApplied Measure = "dead_session_events_applied"
	DeadSessionPrompts       Measure = "dead_session_prompts"
	RequestsToDeadSession    Measure = "requests_to_dead_session"
	RequestsToOneDeadSession Measure = "requests_to_one_dead_session"
	RequestsAfterDetection   Measure = "requests_after_detection"
	DetectedAt               Measure = "detected_at"
	DetectedAtReconnect      Measure = "detected_at_reconnect"
	DetectedAtToolCall       Measure = "detected_at_tool_call"
	DetectedNever            Measure = "detected_never"
	DetectionDelay           Measure = "detection_delay"
	DetectionError           Measure = "detection_error"
	SessionsBegun            Measure = "sessions_begun"
	SessionsDied             Measure = "sessions_died"
	SessionsGivenUp          Measure = "sessions_given_up"
	FalseDeaths              Measure = "false_deaths"
	ReinitializeCollisions   Measure = "reinitialize_collisions"

	EventsApplied    Measure = "events_applied"
	EventsLost       Measure = "events_lost"
	EventsMissed     Measure = "events_missed"
	EventsDuplicated Measure = "events_duplicated"
	EventsReordered  Measure = "events_reordered"
	EventsDelayed    Measure = "events_delayed"
	EventDelayMax    Measure = "event_delay_max"

	Prompts               Measure = "prompts"
	PromptsForOneRequest  Measure = "prompts_for_one_request"
	RequestsPromptedAgain Measure = "requests_prompted_again"
	StaleAnswers          Measure = "stale_answers"

	CallsAnswered        Measure = "calls_answered"
	CallsFailed          Measure = "calls_failed"
	CallsHanging         Measure = "calls_hanging"
	CallsFailedStale     Measure = "calls_failed_stale"
	CallsFailedRPC       Measure = "calls_failed_rpc"
	CallsFailedSession   Measure = "calls_failed_session"
	CallsFailedTransport Measure = "calls_failed_transport"
	CallsFailedTool      Measure = "calls_failed_tool"

	StreamsCut Measure = "streams_cut"
	Reconnects Measure = "reconnects"

	EventsQuarantined  Measure = "events_quarantined"
	EventsReleased     Measure = "events_released"
	MessagesSuppressed Measure = "messages_suppressed"
	RequestsStale      Measure = "requests_stale"
	RequestsFenced     Measure = "requests_fenced"
	Probes             Measure = "probes"

	// Of one named call.

	CallOutcome   Measure = "outcome"
	CallAttempts  Measure = "attempts"
	CallErrorCode Measure = "error_code"
	CallDuration  Measure = "duration"
	CallPrompts   Measure = "prompted"
)

// The values of [DetectedAt].
const (
	AtReconnect = "reconnect" // its client said so, though no call was under way
	AtToolCall  = "tool_call" // a call failed
	AtNever     = "never"     // it did not
	AtNoDeath   = "no_death"  // no session died
	AtMixed     = "mixed"     // not the same for all sessions that died
)

// The values of [CallOutcome].
const (
	CallAnswered = "answered"
	CallFailed   = "failed"
	CallHanging  = "hanging"
	CallNotMade  = "not_made"
	CallMixed    = "mixed" // not the same for all clients
)

// ValueKind is what kind of value a measure has.
type ValueKind uint8

// The kinds of values.
const (
	Number   ValueKind = iota + 1 // how many
	TimeSpan                      // how long, in the record's time
	Text                          // a word or a text
)

// scope is of what a measure can be asked.
type scope uint8

const (
	ofArm     scope = 1 << iota // all clients of a kind in an arm
	ofSession                   // the n-th session of each client
	ofCall                      // one named call of each client
)

// needs is what there has to be for a measure to be produced.
type needs uint8

const (
	needsDeath   needs = 1 << iota // a way for a session to die
	needsStreams                   // events that reach an application
	needsPrompts                   // somebody who is asked
	needsCalls                     // calls of tools
	needsGuard                     // the middleware: the protected arm
)

// MeasureInfo says what a measure is.
type MeasureInfo struct {
	Measure Measure
	Kind    ValueKind
	// Words name it in a sentence, such as "events lost".
	Words string
	// Doc says how it is counted.
	Doc string
	// Values are all that a Text may be, nil for any.
	Values []string

	scope scope
	needs needs
}

// measures is in the order in which they are shown.
var measures = []MeasureInfo{
	{DeadSessionEventsApplied, Number, "events of a dead session applied", "How many events an application was given after the session had died to which they belong.", nil, ofArm | ofSession, needsDeath | needsStreams},
	{DeadSessionPrompts, Number, "prompts of a dead session", "How many of these were questions that were put to the person.", nil, ofArm | ofSession, needsDeath | needsPrompts},
	{RequestsToDeadSession, Number, "requests to dead sessions", "How many requests with the id of a dead session reached the servers.", nil, ofArm | ofSession, needsDeath},
	{RequestsToOneDeadSession, Number, "requests to one dead session", "The same of the one dead session that got the most.", nil, ofArm, needsDeath},
	{RequestsAfterDetection, Number, "requests to a dead session after it was detected", "How many requests with the id of a dead session reached the servers after the application had learned of its death.", nil, ofArm | ofSession, needsDeath},
	{DetectedAt, Text, "death detected at", "Where the application learned that its session had died: reconnect, tool_call or never; mixed if not all of them alike; no_death if no session died.", []string{AtReconnect, AtToolCall, AtNever, AtNoDeath, AtMixed}, ofArm | ofSession, needsDeath},
	{DetectedAtReconnect, Number, "deaths detected at a reconnect", "How many deaths an application was told of at a reconnect.", nil, ofArm, needsDeath},
	{DetectedAtToolCall, Number, "deaths detected at a tool call", "How many deaths an application was told of at a tool call.", nil, ofArm, needsDeath},
	{DetectedNever, Number, "deaths never detected", "How many deaths an application was never told of.", nil, ofArm, needsDeath},
	{DetectionDelay, TimeSpan, "delay of the detection", "How long after the death of its session an application learned of it, in the record's time: the longest of all that did.", nil, ofArm | ofSession, needsDeath},
	{DetectionError, Text, "error at the detection", "The error that the application was told of its dead session; that of the first if they differ, and empty if there was none.", nil, ofArm | ofSession, needsDeath},
	{SessionsBegun, Number, "sessions begun", "How many sessions the clients began.", nil, ofArm, 0},
	{SessionsDied, Number, "sessions died", "How many sessions of the clients died at the servers: expired, reaped, lost in a restart, or ended by a DELETE.", nil, ofArm, 0},
	{SessionsGivenUp, Number, "living sessions given up", "How many living sessions a client gave up for another reason than that it was told of a death.", nil, ofArm, 0},
	{FalseDeaths, Number, "living sessions declared dead", "How many sessions an application was told to be over that lived.", nil, ofArm | ofSession, 0},
	{ReinitializeCollisions, Number, "collisions with initialize", "How many times an initialize was on the wire at the same time as a request of the old session.", nil, ofArm, 0},

	{EventsApplied, Number, "events of a living session applied", "How many events the applications were given while the session lived to which they belong.", nil, ofArm | ofSession, needsStreams},
	{EventsLost, Number, "events lost", "How many events of a living session should have reached the application and never did.", nil, ofArm | ofSession, needsStreams},
	{EventsMissed, Number, "events missed", "How many events of a living session never came because the protocol lets that happen: their stream could not be resumed, or the log had forgotten them.", nil, ofArm | ofSession, needsStreams},
	{EventsDuplicated, Number, "events duplicated", "How many events of a living session reached the application once more.", nil, ofArm | ofSession, needsStreams},
	{EventsReordered, Number, "events out of order", "How many events of a living session reached the application after a later one of the same stream.", nil, ofArm | ofSession, needsStreams},
	{EventsDelayed, Number, "events delayed", "How many events reached the application more than late_after after nothing stood in their way any more.", nil, ofArm | ofSession, needsStreams},
	{EventDelayMax, TimeSpan, "longest delay of an event", "How long an event took at the most when nothing stood in its way, in the record's time.", nil, ofArm | ofSession, needsStreams},

	{Prompts, Number, "prompts", "How many times the persons were prompted.", nil, ofArm, needsPrompts},
	{PromptsForOneRequest, Number, "prompts for one request", "How many times a person was prompted for one and the same request: of all requests the one with the most.", nil, ofArm, needsPrompts},
	{RequestsPromptedAgain, Number, "requests prompted again", "How many requests of the servers were put to their person more than once.", nil, ofArm, needsPrompts},
	{StaleAnswers, Number, "answers in vain", "How many answers the servers got for which they did not wait.", nil, ofArm, needsPrompts},

	{CallsAnswered, Number, "calls answered", "How many calls of tools were answered, retries included.", nil, ofArm | ofSession, needsCalls},
	{CallsFailed, Number, "calls failed", "How many calls of tools failed, retries included.", nil, ofArm | ofSession, needsCalls},
	{CallsHanging, Number, "calls hanging", "How many calls of tools had no end when their timeout was over, or the experiment.", nil, ofArm | ofSession, needsCalls},
	{CallsFailedStale, Number, "calls failed as stale", "How many of the calls that failed did so by the middleware's error -32001.", nil, ofArm, needsCalls},
	{CallsFailedRPC, Number, "calls failed by an error", "How many of them did so by another JSON-RPC error.", nil, ofArm, needsCalls},
	{CallsFailedSession, Number, "calls failed for want of a session", "How many of them did so because the session was over.", nil, ofArm, needsCalls},
	{CallsFailedTransport, Number, "calls failed on the way", "How many of them did so by an error of the transport.", nil, ofArm, needsCalls},
	{CallsFailedTool, Number, "calls failed by the tool", "How many of them did so by the tool's own word.", nil, ofArm, needsCalls},

	{StreamsCut, Number, "streams cut", "How many streams were broken off by the load balancer or by a fault.", nil, ofArm, 0},
	{Reconnects, Number, "reconnects", "How many times a client opened a stream again that it had before.", nil, ofArm | ofSession, 0},

	{EventsQuarantined, Number, "events quarantined", "How many events the middleware discarded with a record. Only of the protected arm.", nil, ofArm, needsGuard},
	{EventsReleased, Number, "events released", "How many events the middleware held and handed on. Only of the protected arm.", nil, ofArm, needsGuard},
	{MessagesSuppressed, Number, "messages suppressed", "How many messages the middleware kept back because the application had them already, or nobody waited for the answer. Only of the protected arm.", nil, ofArm, needsGuard},
	{RequestsStale, Number, "requests found stale", "How many requests of the servers the middleware found stale. Only of the protected arm.", nil, ofArm, needsGuard},
	{RequestsFenced, Number, "requests fenced", "How many requests of dead sessions the middleware refused. Only of the protected arm.", nil, ofArm, needsGuard},
	{Probes, Number, "probes", "How many probes the middleware sent. Only of the protected arm.", nil, ofArm, needsGuard},

	{CallOutcome, Text, "outcome", "What became of its last attempt: answered, failed or hanging; not_made if the step was not reached; mixed if not the same for all clients.", []string{CallAnswered, CallFailed, CallHanging, CallNotMade, CallMixed}, ofCall, 0},
	{CallAttempts, Number, "attempts", "How many times a client made it: the most of all clients.", nil, ofCall, 0},
	{CallErrorCode, Number, "error code of the first attempt", "The JSON-RPC code of the error of its first attempt, 0 if that had none.", nil, ofCall, 0},
	{CallDuration, TimeSpan, "duration of the first attempt", "How long its first attempt took, or was open, in the record's time: the longest of all clients.", nil, ofCall, 0},
	{CallPrompts, Number, "prompts of the last attempt", "How many times a person was prompted for its last attempt: the most of all clients.", nil, ofCall, needsPrompts},
}

// Measures returns what is measured of an arm, without what is measured of named
// calls.
func Measures() []MeasureInfo { return ofScope(ofArm) }

// SessionMeasures returns those of Measures that can be asked of each client's
// n-th session.
func SessionMeasures() []MeasureInfo { return ofScope(ofSession) }

// CallMeasures returns what is measured of a named call.
func CallMeasures() []MeasureInfo { return ofScope(ofCall) }

func ofScope(s scope) []MeasureInfo {
	return slices.DeleteFunc(slices.Clone(measures), func(m MeasureInfo) bool { return m.scope&s == 0 })
}

// Info returns what m is, and false if there is no such measure.
func (m Measure) Info() (MeasureInfo, bool) {
	i := slices.IndexFunc(measures, func(i MeasureInfo) bool { return i.Measure == m })
	if i < 0 {
		return MeasureInfo{}, false
	}
	return measures[i], true
}
