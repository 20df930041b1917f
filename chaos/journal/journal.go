package journal

import (
	"encoding/json"
	"time"
)

// Version is that of the JSON: it changes when a field changes its meaning or
// goes.
const Version = 1

// Status says how a run came to its end, in the words of Chaos Toolkit.
type Status string

// The statuses.
const (
	Completed   Status = "completed"   // to the end of its method
	Failed      Status = "failed"      // something that it needed did not work
	Aborted     Status = "aborted"     // a condition of its own stopped it
	Interrupted Status = "interrupted" // a person or a signal stopped it
)

// Verdict says what a run has shown.
type Verdict string

// The verdicts.
const (
	// Upheld: the control arm failed as the hypothesis says, and the protected
	// arm held.
	Upheld Verdict = "upheld"
	// Deviated: the protected arm did not hold.
	Deviated Verdict = "deviated"
	// Inconclusive: nothing was shown, the control arm's failure for example.
	Inconclusive Verdict = "inconclusive"
	// AbortedVerdict: the run was stopped before there was anything to judge.
	AbortedVerdict Verdict = "aborted"
)

// The names of the arms.
const (
	Control   = "control"   // clients without the middleware
	Protected = "protected" // clients with it
)

// Journal is the record of one run. Instants are of the wall clock. What a
// picture or a table shows is in the experiment's own time, which began at Zero
// and ran Scale times faster.
//
// A Journal is a value without behaviour of its own: rendering it does not
// change it, and it may be rendered from many goroutines at once. Its text is
// shown to people as it is, without markup; see the package's comment on secrets.
type Journal struct {
	_ struct{}

	// Program is the version of the program that ran it, "" if not known.
	Program string
	// Platform and Node are the system and the name of the machine, "" for
	// neither. A journal that leaves the house is better without a Node.
	Platform, Node string

	// Name is the experiment's name for programs, not empty; Title the one for
	// people, "" for Name; Description a paragraph or more.
	Name, Title, Description string
	// Definition is what was run, a JSON object, nil if it is not known.
	Definition json.RawMessage

	// Start and End are of the whole run, both set. Zero is the instant of T+0,
	// the zero time for Start.
	Start, End, Zero time.Time
	// Scale is how many times faster than the wall clock the experiment's time
	// ran, from 0.001.
	Scale float64
	// Length is that of the pictures' time axis, in the experiment's time; 0: as
	// long as what they show.
	Length time.Duration
	// Seed is that of all randomness, Repeat which run of the experiment this
	// was, from 1, 0 for the only one.
	Seed   uint64
	Repeat int

	Status  Status
	Verdict Verdict
	// Reason is why, in one sentence for people.
	Reason string
	// Again is the command that runs it again.
	Again string

	// Before and After are the hypothesis's checks before the method and after
	// it.
	Before, After []Check
	// Run is the method's steps, in their order, Rollback what was undone.
	Run, Rollback []Activity
	// Arms are in the order of the pictures: for each client the control arm and
	// then the protected one.
	Arms []Arm
}

// Check is one measured number, or text, against what the hypothesis says of
// it.
type Check struct {
	Arm, Client, Measure string
	// Value is what was measured and Tolerance what it ought to be, as text with
	// its unit if it has one.
	Value, Tolerance string
	// Met is whether Value is within Tolerance. It means nothing if there is a
	// Problem.
	Met bool
	// Problem says why nothing can be said, "" if something can: an assumption
	// of the count did not hold, or the checker failed.
	Problem string
}

// Outcome says what became of a step.
type Outcome string

// The outcomes. Chaos Toolkit knows the first two.
const (
	StepSucceeded Outcome = "succeeded"
	StepFailed    Outcome = "failed"
	StepSkipped   Outcome = "skipped" // the run was stopped before it
)

// Activity is one step of the method, or one rollback.
type Activity struct {
	Name string
	// At is when it was planned, and Done when it was over, both in the
	// experiment's time. A rollback that was not planned for a moment has both
	// the same. Done means nothing of a step that was skipped.
	At, Done time.Duration
	Status   Outcome
	// Output is what it said, or why it failed.
	Output string
}

// Arm is one group of clients of one kind.
type Arm struct {
	// Name is the arm's, Control or Protected, and Client the kind of client,
	// such as gosdk, mcpgo or naive. Arms of the same Client stand side by side.
	Name, Client string
	// Measures is all that was measured, by name. NaN and infinities are not
	// allowed.
	Measures map[string]float64
	// Lanes are from the top to the bottom of the picture.
	Lanes []Lane
	// Note is what whoever looks at the picture has to know of it, "" for nothing.
	Note string
}

// The kinds of lanes. They are what lanes are drawn together by, where there are
// too many.
const (
	BalancerLane    = "balancer"
	StreamLane      = "stream"
	SessionLane     = "session"
	ProbeLane       = "probe"
	ApplicationLane = "application"
)

// Lane is one row of an arm's picture: the load balancer, a stream, the
// session, the probe, the application.
type Lane struct {
	// Name is what the row is called, Kind what it is: one of the constants, ""
	// or another word.
	Name, Kind string
	Spans      []Span
	Marks      []Mark
}

// The states that have a look of their own. Others are drawn in a neutral one,
// with their word.
const (
	StateOpen   = "open"   // a stream, or a way through the load balancer
	StateHeld   = "held"   // a stream whose events wait for a verdict
	StateClosed = "closed" // a stream that has ended
	StateAlive  = "alive"  // a session
	StateDead   = "dead"   // a session that the server has forgotten
	StateFenced = "fenced" // a dead session whose id reaches the wire no more
	StateCut    = "cut"    // a way that the load balancer, or a fault, has cut
)

// Span is a state that lasted, from From until To in the experiment's time. One
// that was not over at the end of the run ends there.
type Span struct {
	From, To time.Duration
	State    string // one of the constants, or another word
	Label    string // what there is to say of it, "" for nothing
}

// The kinds of marks that have a look of their own. Others are drawn as a square,
// with their word.
const (
	MarkCut         = "cut"         // the load balancer, or a fault, cut a stream
	MarkReconnect   = "reconnect"   // a client asked for its stream again
	MarkReplay      = "replay"      // the server replayed events
	MarkProbe       = "probe"       // the middleware probed the session
	MarkHeld        = "held"        // the middleware held events
	MarkReleased    = "released"    // it handed them on
	MarkQuarantined = "quarantined" // it discarded them, with a record
	MarkSuppressed  = "suppressed"  // it dropped what the application had already
	MarkStale       = "stale"       // it ended a call whose request was stale
	MarkFenced      = "fenced"      // it refused a request of a dead session
	MarkApplied     = "applied"     // the application acted on an event
	MarkPrompted    = "prompted"    // the application asked its user
	MarkCalled      = "called"      // a call that was answered
	MarkFailed      = "failed"      // a call that failed
	MarkRefused     = "refused"     // the server refused a request
	MarkInitialized = "initialized" // a session began
	MarkDied        = "died"        // the server forgot the session
)

// The verdicts of a probe.
const (
	ProbeLive      = "Live"
	ProbeDead      = "Dead"
	ProbeAmbiguous = "Ambiguous"
)

// Mark is something that happened at one instant.
type Mark struct {
	At   time.Duration
	Kind string // one of the constants, or another word
	// Verdict is that of a probe, "" for none.
	Verdict string
	// Harm is whether it is what the middleware is there to prevent: an event of
	// a dead session that was applied, a second prompt, a call that failed for
	// want of a session.
	Harm  bool
	Label string // what there is to say of it, "" for nothing
	// Count says how often, where the caller has drawn marks together; 0 is
	// once.
	Count int
}

// Abbreviate makes a session id fit to be shown: enough to tell two of them
// apart, too little to use one. It keeps at most 8 characters, and at most half.
func Abbreviate(sessionID string) string {
	runes := []rune(sessionID)
	keep := min(8, len(runes)/2)
	if len(runes) == 0 {
		return ""
	}
	return string(runes[:keep]) + "…"
}

// title is what people call the experiment.
func (j *Journal) title() string {
	if j.Title != "" {
		return j.Title
	}
	return j.Name
}

// times is how often a mark happened.
func (m Mark) times() int { return max(1, m.Count) }
