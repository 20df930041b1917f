package teeth_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	tableFile       = flag.String("table", "", "try each mutant in each experiment of the library, and write the table to this `file`")
	onlyMutants     = flag.String("mutants", "", "with -table: only these `names`, separated by commas")
	onlyExperiments = flag.String("experiments", "", "with -table: only these `names`, separated by commas")
	jobs            = flag.Int("jobs", atOnce, "with -table: how many mutants to try at the same time")
)

// TestWholeTable is what scripts/teeth.sh runs. It is no part of the suite: it
// takes half an hour and more.
func TestWholeTable(t *testing.T) {
	if *tableFile == "" {
		t.Skip("SKIPPED: run scripts/teeth.sh for the whole table")
	}
	of := mutants()
	if names := list(*onlyMutants); names != nil {
		of = slices.DeleteFunc(of, func(m mutant) bool { return !slices.Contains(names, m.name) })
	}
	columns := list(*onlyExperiments)
	if columns == nil {
		files, err := filepath.Glob(experimentsFolder + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			columns = append(columns, strings.TrimSuffix(filepath.Base(f), ".yaml"))
		}
	}
	columns = append([]string{unitColumn}, columns...)
	rows := make([]string, len(of))
	for i, m := range of {
		rows[i] = m.name
	}

	tab := newTable(columns)
	var done atomic.Int32
	try := func(m mutant, dir string) error {
		program, err := m.build(t.Context(), dir)
		if err != nil {
			return err
		}
		for _, column := range columns {
			began := time.Now()
			var o outcome
			if column == unitColumn {
				o, err = m.unitTests(t.Context(), dir)
			} else {
				o, err = run(t.Context(), program, column)
			}
			if err != nil {
				t.Error(err)
			}
			tab.set(m.name, column, o)
			fmt.Fprintf(os.Stderr, "%4d/%d %s %-*s %s, %.1f s\n", done.Add(1), (len(of)+1)*len(columns),
				tab.mark(m.name, column), maxName, m.name, column, time.Since(began).Seconds())
			if o.reason != "" && o.verdict != upheld {
				fmt.Fprintf(os.Stderr, "         %s\n", o.reason)
			}
		}
		return nil
	}
	queue := make(chan mutant)
	var wg sync.WaitGroup
	for range max(1, *jobs) {
		wg.Go(func() {
			for m := range queue {
				if err := try(m, t.TempDir()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, m := range append([]mutant{{}}, of...) {
		queue <- m
	}
	close(queue)
	wg.Wait()

	for _, column := range columns {
		if o, _ := tab.get("", column); o.verdict != upheld {
			t.Errorf("%s: the middleware as it is was %q, want it upheld: %s", column, o.verdict, o.reason)
		}
	}
	for _, m := range of {
		for _, experiment := range m.by {
			if o, ok := tab.get(m.name, experiment); ok && o.verdict != deviated {
				t.Errorf("mutant %q survives %s: %s: %s", m.name, experiment, o.verdict, o.reason)
			}
		}
	}
	if err := os.WriteFile(*tableFile, []byte(tab.text(rows)+reasons()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// list takes a list of names apart, nil for none.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
