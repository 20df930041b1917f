package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

const (
	// DefaultConcurrency is how many runs are active at once.
	DefaultConcurrency = 1
	// DefaultKeepRuns is how many runs of each experiment are kept.
	DefaultKeepRuns = 100
)

// Config says how a [Daemon] is. Only DataDir is required.
type Config struct {
	_ struct{}

	// DataDir is the folder for everything that lasts. It is made if there is
	// none, and has to be this user's alone: mode 0700.
	DataDir string
	// Version is the program's, for Info and the journals.
	Version string
	// Log is told what is done, and what goes wrong. nil: nobody.
	Log *slog.Logger
	// Runner runs the experiments. nil: [engine.Run].
	Runner Runner
	// Concurrency is how many runs are active at once, the others being queued.
	// They share this machine, so that more than one makes its timing worse. 0 is
	// [DefaultConcurrency].
	Concurrency int
	// KeepRuns is how many runs of each experiment are kept, with their journals,
	// beside those that are not over. 0 is [DefaultKeepRuns].
	KeepRuns int
}

// Runner runs an experiment once, as [engine.Run] does: when it returns, what it
// has broken is whole again, and soon after ctx has ended it returns.
type Runner interface {
	Run(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error)
}

type engineRunner struct{}

func (engineRunner) Run(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
	return engine.Run(ctx, d, o)
}

// resolve returns the Config with its defaults, or every fault of it.
func (c Config) resolve() (Config, error) {
	var faults []error
	if c.DataDir == "" {
		faults = append(faults, errors.New("daemon: DataDir is empty, want a folder"))
	}
	if c.Concurrency < 0 {
		faults = append(faults, fmt.Errorf("daemon: Concurrency is %d, want 0 (%d) or more", c.Concurrency, DefaultConcurrency))
	}
	if c.KeepRuns < 0 {
		faults = append(faults, fmt.Errorf("daemon: KeepRuns is %d, want 0 (%d) or more", c.KeepRuns, DefaultKeepRuns))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Runner == nil {
		c.Runner = engineRunner{}
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.KeepRuns == 0 {
		c.KeepRuns = DefaultKeepRuns
	}
	return c, errors.Join(faults...)
}
