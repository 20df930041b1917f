package experiment

// Definition is one experiment, as people write it down. Make one with [Load] or
// [Parse], or as a literal, and then call [Definition.Validate]. It holds no
// running things, and nothing in this package changes one.
//
// The comments of its fields, and of those below them, are what an editor shows
// for the key: see [Schema].
type Definition struct {
	_ struct{}

	// Name is the experiment's name for programs: lower-case letters, digits, and
	// single dashes between them.
	Name string `json:"name" check:"required,max=64,pattern=^[a-z0-9]+(-[a-z0-9]+)*$"`

	// Title is its name for people, on one line.
	Title string `json:"title" check:"required,max=120,pattern=^[^\\r\\n]*\\S[^\\r\\n]*$"`

	// Description says what it proves, in a paragraph or more.
	Description string `json:"description" check:"required,max=8000"`

	// Seed is what all randomness of a run is drawn from. Default: 1, so that a
	// run can be repeated as it is.
	Seed uint64 `json:"seed,omitzero" check:"min=1"`

	// TimeScale is how many times faster than the record the experiment runs,
	// from 1 to 1000. Every duration in this file is in the record's time: with
	// 100, 1m takes 600 ms. Default: 1.
	TimeScale float64 `json:"time_scale,omitzero" check:"min=1,max=1000"`

	// Repeats is how often the experiment is run, up to 100. Its verdict is the
	// worst of them. Default: 1.
	Repeats int `json:"repeats,omitzero" check:"min=1,max=100"`

	// StartsAt is what the experiment's clock shows when the clients begin their
	// sessions, each of which is sent one event. Default: 0s. The method begins
	// when all of them have it.
	StartsAt Duration `json:"starts_at,omitzero"`

	// Length is what the experiment's clock shows at the end, at which the
	// hypothesis is checked. Not before the last step.
	Length Duration `json:"length" check:"required"`

	// Topology is what the clients talk to. Each kind of client has one of its own
	// in each arm.
	Topology Topology `json:"topology,omitzero"`

	// Clients are those of each arm: the same in both.
	Clients Clients `json:"clients" check:"required"`

	// Middleware is the settings of the middleware of the protected arm. Default:
	// its own defaults.
	Middleware Middleware `json:"middleware,omitzero"`

	// Person is who answers when the server asks something. Default: somebody who
	// accepts everything at once.
	Person Person `json:"person,omitzero"`

	// Method is what is done, in both arms alike, in the order of time.
	Method []Step `json:"method" check:"required,max=200"`

	// Hypothesis is what each arm will have measured.
	Hypothesis Hypothesis `json:"hypothesis" check:"required"`

	// Teeth says why there is no control arm that fails, where that is so.
	// Default: there is one, and its failure is the control hypothesis.
	Teeth Teeth `json:"teeth,omitzero"`

	// Rollbacks are done after the method, whatever became of that. Faults and
	// rules need none: they are undone in any case, before the rollbacks.
	Rollbacks []Rollback `json:"rollbacks,omitzero" check:"max=50"`

	// Abort is when to stop in the middle and roll back.
	Abort Abort `json:"abort,omitzero"`
}

// Teeth is the reason for which an experiment has none.
type Teeth struct {
	_ struct{}

	// None says why the control arm is not expected to fail, such as an
	// experiment that shows that the middleware does no harm. The control
	// hypothesis may then be left out, or be that of the protected arm.
	None string `json:"none" check:"required,max=1000"`
}

// Abort is when to stop in the middle. A run that is aborted rolls back, and its
// verdict is aborted.
type Abort struct {
	_ struct{}

	// RealTimeLimit is how long a run may take, all included. It is the one
	// duration here that is in real time. At least 1s, and longer than the
	// experiment itself takes. Default: twice that, and 30 seconds.
	RealTimeLimit Duration `json:"real_time_limit,omitzero"`

	// Control is bounds of the control arm's measures. It is stopped once one is
	// reached that is written as "> 10" or ">= 10".
	Control Bounds `json:"control,omitzero"`

	// Protected is bounds of the protected arm's measures, as Control has them.
	Protected Bounds `json:"protected,omitzero"`
}
