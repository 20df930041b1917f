package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// Options is what may be different from one run of an experiment to another. The
// zero Options run it as it is written.
type Options struct {
	// Arms are those to run, [experiment.Control] or [experiment.Protected]. nil:
	// both. With one alone the verdict is inconclusive at best.
	Arms []string
	// Clients are the kinds of clients to run with. nil: all that the definition
	// has.
	Clients []experiment.ClientKind
	// Seed is what all randomness is drawn from. 0: the definition's.
	Seed uint64
	// Repeat is which run of the experiment this is, from 1, for the journal. 0:
	// the only one.
	Repeat int
	// Program is the version of the program that runs it, and Again the command
	// that runs it again, both for the journal.
	Program, Again string
	// Progress, if not nil, is told how far the run is. It is called from one
	// goroutine at a time, and holds the run up.
	Progress func(Progress)
}

// Phase is what a run is about. Its text is its value.
type Phase string

// The phases, in their order.
const (
	Starting    Phase = "starting"     // building, and beginning the sessions
	SteadyState Phase = "steady state" // checking the hypothesis before the method
	Method      Phase = "method"
	RollingBack Phase = "rolling back" // undoing faults, and the rollbacks
	Counting    Phase = "counting"
)

// Progress is how far a run is.
type Progress struct {
	Phase Phase
	// Clock is what the experiment's clock shows.
	Clock experiment.Duration
	// Step is what has just begun, "" for nothing new.
	Step string
	// Elapsed is how long the run has taken, and Takes how long the method takes,
	// both in real time.
	Elapsed, Takes time.Duration
}

// ErrOptions is in the error of options that d cannot be run with.
var ErrOptions = errors.New("engine: unusable options")

// Validate returns every fault of o for d, or nil, in an error that is
// [ErrOptions].
func (o Options) Validate(d *experiment.Definition) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	for _, arm := range o.Arms {
		if !slices.Contains(experiment.Arms(), arm) {
			fault("arm %q, want %s", arm, strings.Join(experiment.Arms(), " or "))
		}
	}
	for _, kind := range o.Clients {
		if !slices.Contains(d.Clients.Kinds(), kind) {
			fault("client %q, want one that the experiment has: %s", kind, join(d.Clients.Kinds()))
		}
	}
	if o.Repeat < 0 {
		fault("repeat %d, want 0 or more", o.Repeat)
	}
	return errors.Join(faults...)
}

func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

// Run runs d once, and returns its journal, whatever became of it: also a run
// that ctx ends has one. d has to be valid, and is not changed. The error is
// [ErrOptions].
func Run(ctx context.Context, d *experiment.Definition, o Options) (*journal.Journal, error) {
	if err := o.Validate(d); err != nil {
		return nil, err
	}
	r := newRun(d, o)
	r.do(ctx)
	return r.journal(), nil
}
