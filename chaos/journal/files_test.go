package journal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// read is the text of a file.
func read(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tree lists the files and folders below a folder.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if path != "." {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "a", "b")
	for _, j := range []*journal.Journal{elicitation(), liveness()} { // the second over the first
		if err := j.Write(run); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := tree(t, run), []string{"journal.json", "report.html"}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	got, err := journal.Read(filepath.Join(run, journal.FileJSON))
	if err != nil || !reflect.DeepEqual(got, liveness()) {
		t.Errorf("Read = %+v, %v, want what was written", got, err)
	}
	if doc := parse(t, []byte(read(t, run, journal.FilePage))); !strings.Contains(doc.text, liveness().Reason) {
		t.Error("the page is another's")
	}

	// As readable as a file that is made without further ado.
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{journal.FileJSON, journal.FilePage} {
		if info, err := os.Stat(filepath.Join(run, name)); err != nil || info.Mode() != want.Mode() {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, want.Mode())
		}
	}
}

func TestWhatCannotBeWrittenLeavesNothing(t *testing.T) {
	invalid := liveness()
	invalid.Scale = 0
	for name, c := range map[string]struct {
		prepare func(dir string) error
		run     *journal.Journal
	}{
		"a file in the folder's place": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "run"), []byte("mine"), 0o600) }, liveness()},
		"a file above it":              {func(dir string) error { return os.WriteFile(filepath.Join(dir, "run"), []byte("mine"), 0o600) }, nil},
		"a folder in the JSON's place": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "run", "journal.json"), 0o700) }, liveness()},
		"a folder in the page's place": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "run", "report.html"), 0o700) }, liveness()},
		"too long a path":              {func(string) error { return nil }, liveness()},
		"not valid":                    {func(string) error { return nil }, invalid},
		"not valid, over a good one":   {func(dir string) error { return elicitation().Write(filepath.Join(dir, "run")) }, invalid},
	} {
		dir := t.TempDir()
		if err := c.prepare(dir); err != nil {
			t.Fatal(err)
		}
		snapshot := func() string {
			var all []string
			for _, name := range tree(t, dir) {
				data, _ := os.ReadFile(filepath.Join(dir, name))
				all = append(all, name+": "+string(data))
			}
			return strings.Join(all, "\n")
		}
		before := snapshot()
		target := filepath.Join(dir, "run")
		switch {
		case c.run == nil:
			c.run, target = liveness(), filepath.Join(dir, "run", "deeper", "still")
		case strings.HasPrefix(name, "too long"):
			// The folder can be made, and no file in it has a path that is short enough.
			for len(target) < 4060 {
				target = filepath.Join(target, strings.Repeat("d", min(200, 4080-len(target))))
			}
		}
		if err := c.run.Write(target); err == nil {
			t.Errorf("%s: Write succeeded", name)
		}
		if after := snapshot(); after != before {
			t.Errorf("%s: it left something:\n%.300s\nwant\n%.300s", name, after, before)
		}
	}
}

func TestReportOfManyRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	again := elicitation()
	again.Repeat = 3
	odd := liveness()
	odd.Name, odd.Verdict = "../../Ünsafe Näme/..", journal.Inconclusive
	twin := liveness()
	reserved := liveness()
	reserved.Name = "CON"
	blank := liveness()
	blank.Name = "日本"
	runs := []*journal.Journal{liveness(), elicitation(), again, odd, twin, reserved, blank}
	for _, n := range []int{2, len(runs)} { // more and more runs
		if err := journal.WriteReport(dir, runs[:n]); err != nil {
			t.Fatal(err)
		}
	}
	folders := []string{"session-liveness", "elicitation-pending-2", "elicitation-pending-3", "nsafe-n-me", "session-liveness-2", "run-con", "run"}
	var want []string
	for _, f := range folders {
		want = append(want, f, f+"/journal.json", f+"/report.html")
	}
	want = append(want, "index.html", "junit.xml")
	slices.Sort(want)
	if got := tree(t, dir); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the report has\n%q\nwant\n%q", got, want)
	}

	index := parse(t, []byte(read(t, dir, journal.FileIndex)))
	if got := index.one(t, "p", "word").words(); got != "✕ Deviated" {
		t.Errorf("the verdict of all is %q, want the worst", got)
	}
	if got := index.one(t, "h1", "").words(); got != "4 upheld, 1 inconclusive, 2 deviated" {
		t.Errorf("the count is %q", got)
	}
	rows := index.one(t, "table", "runs").rows()[1:]
	links := index.one(t, "table", "runs").all("a", "")
	if len(rows) != len(runs) || len(links) != len(runs) {
		t.Fatalf("%d rows and %d links, want %d", len(rows), len(links), len(runs))
	}
	for i, j := range runs {
		verdict := strings.Fields(rows[i][0])[1]
		if !strings.EqualFold(verdict, string(j.Verdict)) || !strings.Contains(rows[i][1], j.Reason) || rows[i][3] != fmt.Sprint(j.Seed) || strings.Contains(rows[i][1], fmt.Sprint("repeat ", j.Repeat)) != (j.Repeat > 1) {
			t.Errorf("row %d is %q, of %s", i, rows[i], j.Name)
		}
		if want := folders[i] + "/report.html"; links[i].attr["href"] != want || links[i].words() != j.Title {
			t.Errorf("row %d links to %q, want %q", i, links[i].attr["href"], want)
		}
		read, err := journal.Read(filepath.Join(dir, folders[i], journal.FileJSON))
		if err != nil || read.Name != j.Name {
			t.Errorf("%s has another's journal, %v", folders[i], err)
		}
	}
	if got := len(parse(t, []byte(read(t, dir, journal.FileJUnit))).all("testsuite", "")); got != len(runs) {
		t.Errorf("%d test suites, want %d", got, len(runs))
	}
}

func TestReportOfNoRuns(t *testing.T) {
	dir := t.TempDir()
	if err := journal.WriteReport(dir, nil); err != nil {
		t.Fatal(err)
	}
	index := parse(t, []byte(read(t, dir, journal.FileIndex)))
	if got := index.one(t, "p", "word").words() + ", " + index.one(t, "h1", "").words(); got != "? Inconclusive, No runs" {
		t.Errorf("the index says %q", got)
	}
}
