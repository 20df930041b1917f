package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/provider/local"
)

// reportFiles are the files of a run's report, empty for none.
type reportFiles struct{ report, journal string }

func (f reportFiles) paths() (report, journal types.String) {
	return textOrNull(f.report), textOrNull(f.journal)
}

// reportDir is where the reports of an experiment are, by its id.
func (c *connection) reportDir(experimentID string) string {
	return filepath.Join(c.dataDir, local.ReportsName, experimentID)
}

// writeReports writes the reports and journals of a run, where they are not there
// yet, and returns those that its verdict is of.
func (c *connection) writeReports(ctx context.Context, experimentID string, run *control.Run) (files reportFiles, err error) {
	if run.Journals == 0 {
		return files, nil
	}
	// Both become part of a path.
	if !control.ValidID(experimentID) || !control.ValidID(run.ID) {
		return files, fmt.Errorf("the daemon has ids %q and %q, want %s", experimentID, run.ID, control.IDRule)
	}
	dir := filepath.Join(c.reportDir(experimentID), run.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files, err
	}
	worst, err := c.worst(ctx, run)
	if err != nil {
		return files, err
	}
	for n := 1; n <= run.Journals; n++ {
		one := reportFiles{filepath.Join(dir, fmt.Sprintf("report-%d.html", n)), filepath.Join(dir, fmt.Sprintf("journal-%d.json", n))}
		if run.Journals == 1 {
			one = reportFiles{filepath.Join(dir, "report.html"), filepath.Join(dir, "journal.json")}
		}
		err := errors.Join(
			writeOnce(one.report, func(w io.Writer) error { return c.Report(ctx, run.ID, n, w) }),
			writeOnce(one.journal, func(w io.Writer) error { return c.Journal(ctx, run.ID, n, w) }))
		if err != nil {
			return files, err
		}
		if n == worst {
			files = one
		}
	}
	return files, nil
}

// removeReports removes the reports of an experiment, "" being none.
func (c *connection) removeReports(experimentID string) (diags diag.Diagnostics) {
	if !control.ValidID(experimentID) { // it is part of a path
		return nil
	}
	if err := os.RemoveAll(c.reportDir(experimentID)); err != nil {
		diags.AddWarning("The reports are left", sentence(err.Error()))
	}
	return diags
}

// worst is the repeat that a run's verdict is of: the first that has it, or, where a
// run was stopped, the last one.
func (c *connection) worst(ctx context.Context, run *control.Run) (int, error) {
	if run.Journals == 1 || !run.State.Final() {
		return run.Journals, nil
	}
	found := 0
	err := c.Events(ctx, run.ID, 0, func(e control.RunEvent) error {
		if found == 0 && e.Repeat > 0 && e.Verdict == run.Verdict && !e.State.Final() {
			found = e.Repeat
		}
		return nil
	})
	if found == 0 || found > run.Journals {
		found = run.Journals
	}
	return found, err
}

// writeOnce writes a file that is whole, or not there.
func writeOnce(file string, write func(io.Writer) error) (err error) {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
