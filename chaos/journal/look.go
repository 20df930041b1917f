package journal

import "strings"

// look is how a state or a mark is drawn and explained.
type look struct {
	// by is whose doing a mark is, which is its colour: the middleware's, or the
	// world's.
	by string
	// word and means are for the legend.
	word, means string
	// hatch is whether a state has a pattern besides its colour.
	hatch bool
}

// states are the looks of spans, by the state. Their classes are s-open and so
// on in the style.
var states = map[string]look{
	StateOpen:   {word: "open", means: "the stream, or the way through the load balancer, is open"},
	StateHeld:   {word: "held", means: "received events are kept from the application until there is a verdict", hatch: true},
	StateClosed: {word: "closed", means: "the stream has ended"},
	StateAlive:  {word: "alive", means: "the session is in the server's session store"},
	StateDead:   {word: "dead", means: "the server has forgotten the session", hatch: true},
	StateFenced: {word: "fenced", means: "requests with the dead session's id are refused before the wire", hatch: true},
	StateCut:    {word: "cut", means: "the load balancer, or a fault, has cut the way", hatch: true},
	"other":     {word: "other", means: "another state, named on it"},
}

// legendStates and shareOrder are the states in the order of the legend and, from
// the bottom, of a pile.
var (
	legendStates = []string{StateOpen, StateHeld, StateClosed, StateCut, StateAlive, StateDead, StateFenced, "other"}
	shareOrder   = []string{StateAlive, StateOpen, StateHeld, StateFenced, "other", StateClosed, StateCut, StateDead}
)

func stateClass(state string) string {
	if _, ok := states[state]; ok {
		return state
	}
	return "other"
}

func stateWord(class string) string { return states[class].word }

// Whose doing a mark is.
const (
	byWorld      = "world"
	byMiddleware = "ours"
)

// shapes are the looks of marks, by the name of their shape in glyphs.tmpl.
var shapes = map[string]look{
	MarkCut:           {by: byWorld, word: "cut", means: "the load balancer, or a fault, cut the connection"},
	MarkReconnect:     {by: byWorld, word: "reconnect", means: "the client asked for its stream again, with its cursor"},
	MarkReplay:        {by: byWorld, word: "replay", means: "the events that a reconnect delivers before anything new"},
	MarkApplied:       {by: byWorld, word: "applied", means: "the application acted on an event"},
	MarkPrompted:      {by: byWorld, word: "prompted", means: "the application asked its user"},
	MarkCalled:        {by: byWorld, word: "called", means: "a call that was answered"},
	MarkFailed:        {by: byWorld, word: "failed", means: "a call that failed"},
	MarkRefused:       {by: byWorld, word: "refused", means: "the server refused a request"},
	MarkInitialized:   {by: byWorld, word: "initialized", means: "a session began"},
	MarkDied:          {by: byWorld, word: "died", means: "the server forgot the session"},
	"other":           {by: byWorld, word: "other", means: "something else, named in the list"},
	MarkHeld:          {by: byMiddleware, word: "held", means: "received events kept until there is a verdict"},
	MarkProbe:         {by: byMiddleware, word: "probe", means: "a request that the server must check against its session store"},
	"probe-live":      {by: byMiddleware, word: "probe: Live", means: "the server still has the session"},
	"probe-dead":      {by: byMiddleware, word: "probe: Dead", means: "the server has forgotten the session"},
	"probe-ambiguous": {by: byMiddleware, word: "probe: Ambiguous", means: "no answer that decides: nothing is released"},
	MarkReleased:      {by: byMiddleware, word: "released", means: "the held events were handed on"},
	MarkQuarantined:   {by: byMiddleware, word: "quarantined", means: "the held events were discarded, with a record of what they were"},
	MarkSuppressed:    {by: byMiddleware, word: "suppressed", means: "a pending request that the application already has was dropped from a replay"},
	MarkStale:         {by: byMiddleware, word: "stale", means: "a pending request that the server no longer waits for was ended with an error"},
	MarkFenced:        {by: byMiddleware, word: "fenced", means: "a request of a dead session was refused before the wire"},
}

// legendShapes are the shapes in the order of the legend.
var legendShapes = []string{
	MarkInitialized, MarkCut, MarkReconnect, MarkReplay, MarkApplied, MarkPrompted, MarkCalled, MarkFailed, MarkRefused, MarkDied, "other",
	MarkHeld, MarkProbe, "probe-live", "probe-dead", "probe-ambiguous", MarkReleased, MarkQuarantined, MarkSuppressed, MarkStale, MarkFenced,
}

// shape is the name of a mark's shape.
func (m Mark) shape() string {
	name := m.Kind
	if name == MarkProbe && m.Verdict != "" {
		name += "-" + strings.ToLower(m.Verdict)
	}
	if _, ok := shapes[name]; ok && (m.Kind == MarkProbe || !strings.HasPrefix(name, MarkProbe+"-")) {
		return name
	}
	return "other"
}

// seal is how a verdict is shown: a word, a symbol and a class, each enough by
// itself.
type seal struct {
	Word, Symbol, Class, Means string
}

func sealOf(v Verdict) seal {
	switch v {
	case Upheld:
		return seal{"Upheld", "✓", "upheld", "The control arm failed as the hypothesis says, and the protected arm held."}
	case Deviated:
		return seal{"Deviated", "✕", "deviated", "The protected arm did not hold."}
	case Inconclusive:
		return seal{"Inconclusive", "?", "inconclusive", "Nothing was shown, neither for nor against. That is not a pass."}
	}
	return seal{"Aborted", "■", "aborted", "The run was stopped before there was anything to judge."}
}

// meaning is what a verdict says, where the run's own reason does not say it in
// numbers.
func meaning(j *Journal) string {
	if j.Reason != "" && (j.Verdict == Upheld || j.Verdict == Deviated) {
		return ""
	}
	return sealOf(j.Verdict).Means
}
