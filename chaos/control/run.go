package control

import (
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// RunState is how far a run is. Its text is its value.
type RunState string

// The states of a run. The last two are final.
const (
	Queued      RunState = "queued"
	Active      RunState = "active"
	Done        RunState = "done"        // it has a verdict and a journal
	Interrupted RunState = "interrupted" // the daemon ended, or the run was cancelled or halted
)

// Final is whether nothing more happens in this state.
func (s RunState) Final() bool { return s == Done || s == Interrupted }

// RunRequest is what may be different from the definition. See engine.Options.
type RunRequest struct {
	Arms    []string                `json:"arms,omitempty"`
	Clients []experiment.ClientKind `json:"clients,omitempty"`
	Seed    uint64                  `json:"seed,omitempty"`
	Repeat  int                     `json:"repeat,omitempty"`
	Scale   float64                 `json:"scale,omitempty"`
}

// Run is one run of an experiment, repeats included.
type Run struct {
	ID         string `json:"id"`
	Experiment string `json:"experiment"`
	// Generation is that of the experiment that is run.
	Generation int64           `json:"generation"`
	Request    RunRequest      `json:"request"`
	State      RunState        `json:"state"`
	Verdict    journal.Verdict `json:"verdict,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Created    time.Time       `json:"created"`
	Started    *time.Time      `json:"started,omitempty"`
	Ended      *time.Time      `json:"ended,omitempty"`
	// Checks are those of the run with the worst verdict.
	Checks Checks `json:"checks,omitempty"`
	// Journals is how many journals there are: one for each repeat that is over.
	Journals int `json:"journals"`
}

// RunEvent is one piece of news of a run, as its stream has it.
type RunEvent struct {
	// N counts the events of a run from 1; it is the stream's event id.
	N     int       `json:"n"`
	At    time.Time `json:"at"`
	State RunState  `json:"state"`
	// Phase, Clock, Step are those of engine.Progress, "" and 0 for none. Clock is
	// in seconds of the record's time.
	Phase string  `json:"phase,omitempty"`
	Clock float64 `json:"clock,omitempty"`
	Step  string  `json:"step,omitempty"`
	// Repeat is which run of the experiment it is about.
	Repeat  int             `json:"repeat,omitempty"`
	Verdict journal.Verdict `json:"verdict,omitempty"`
	Reason  string          `json:"reason,omitempty"`
}

// Info is what a daemon says of itself.
type Info struct {
	// Version is the program's, API that of this contract.
	Version string `json:"version"`
	API     int    `json:"api"`
	PID     int    `json:"pid"`
	// DataDir is where it keeps everything.
	DataDir string    `json:"data_dir"`
	Started time.Time `json:"started"`
	// Halted is whether new runs are refused, and HaltReason who said so.
	Halted     bool         `json:"halted"`
	HaltReason string       `json:"halt_reason,omitempty"`
	Resources  map[Kind]int `json:"resources"`
	ActiveRuns int          `json:"active_runs"`
}

// API is the version of the contract. It grows when something changes its meaning
// or goes.
const API = 1
