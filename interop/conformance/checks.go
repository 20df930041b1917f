package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/revenant-mcp/revenant/middleware"
)

// Checks of this program's own, beside the suite's. They count only where they
// fail: what passed is the suite's to say.
const (
	// The suite wrote no results that can be read.
	checkRan = "revenant/scenario-ran"
	// The client gave up before it had done what the scenario asks.
	checkFinished = "revenant/client-finished"
	// No scenario lets a session die, so the middleware must find none dead.
	checkNoFalseDeath = "revenant/no-false-death"
)

// tally counts the results of checks. The suite's INFO, a line of its log, does
// not count.
type tally struct{ passed, failed, warned int }

func (t tally) plus(u tally) tally {
	return tally{t.passed + u.passed, t.failed + u.failed, t.warned + u.warned}
}

// outcome is what came of one scenario. The zero outcome has no checks.
type outcome struct {
	checks map[string]tally // by the check's id; the suite makes some of them more than once
	faults []string         // what failed or was warned of, one line each
	// stats are the middleware's counters, zero without it.
	stats middleware.Stats
}

// notRunnable is the outcome of a scenario that the suite could not run.
func notRunnable(err error) outcome {
	var o outcome
	o.fail(checkRan, err.Error())
	return o
}

func (o outcome) total() tally {
	var sum tally
	for _, t := range o.checks {
		sum = sum.plus(t)
	}
	return sum
}

func (o *outcome) count(id string, t tally) {
	if o.checks == nil {
		o.checks = map[string]tally{}
	}
	o.checks[id] = o.checks[id].plus(t)
}

func (o *outcome) fail(id, why string) {
	o.count(id, tally{failed: 1})
	o.faults = append(o.faults, id+": "+why)
}

// parseChecks reads the suite's checks.json. It fails on what it does not know,
// rather than to count it as nothing, and on a file without a single check: that
// is no pass.
func parseChecks(text []byte) (outcome, error) {
	var checks []struct {
		ID           string `json:"id"`
		Status       string `json:"status"`
		Description  string `json:"description"`
		ErrorMessage string `json:"errorMessage"`
	}
	if err := json.Unmarshal(text, &checks); err != nil {
		return outcome{}, fmt.Errorf("checks.json: %w", err)
	}
	var o outcome
	for i, c := range checks {
		why := c.ErrorMessage
		if why == "" {
			why = c.Description
		}
		switch c.Status {
		case "SUCCESS":
			o.count(c.ID, tally{passed: 1})
		case "FAILURE":
			o.fail(c.ID, why)
		case "WARNING":
			o.count(c.ID, tally{warned: 1})
			o.faults = append(o.faults, c.ID+": warning: "+why)
		case "INFO", "SKIPPED":
		default:
			return outcome{}, fmt.Errorf("checks.json: check %d has the unknown status %q: teach parseChecks what this version of the suite means by it", i, c.Status)
		}
	}
	if len(o.checks) == 0 {
		return outcome{}, errors.New("checks.json: has no check that passed or failed")
	}
	return o, nil
}

// readResults reads what the suite wrote below dir for one scenario. It makes a
// folder of its own there, with the time in its name.
func readResults(dir string) (o outcome, folder string, err error) {
	// The scenario's name may have a slash.
	var found []string
	for _, pattern := range []string{"*/checks.json", "*/*/checks.json"} {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return outcome{}, "", err
		}
		found = append(found, matches...)
	}
	if len(found) != 1 {
		return outcome{}, "", fmt.Errorf("the suite wrote %d files checks.json, want 1", len(found))
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return outcome{}, "", err
	}
	o, err = parseChecks(text)
	return o, filepath.Dir(found[0]), err
}

// readClient adds to the outcome what the client under test said of itself,
// which the suite keeps beside its checks: the middleware's counters, or nothing
// from a client that did not finish.
func (o *outcome) readClient(folder string) error {
	stdout, err := os.ReadFile(filepath.Join(folder, "stdout.txt"))
	if err != nil {
		return err
	}
	if len(stdout) == 0 {
		stderr, err := os.ReadFile(filepath.Join(folder, "stderr.txt"))
		if err != nil {
			return err
		}
		why := strings.Join(strings.Fields(string(stderr)), " ")
		if why == "" {
			why = "it was stopped before it could say why"
		}
		o.fail(checkFinished, why)
		return nil
	}
	if err := json.Unmarshal(stdout, &o.stats); err != nil {
		return fmt.Errorf("the client's output: %w", err)
	}
	if s := o.stats; s.Dead > 0 || s.Ambiguous > 0 || s.Quarantined > 0 {
		o.fail(checkNoFalseDeath, fmt.Sprintf("%d sessions found dead, %d reconnects without a verdict, %d events quarantined",
			s.Dead, s.Ambiguous, s.Quarantined))
	}
	return nil
}
