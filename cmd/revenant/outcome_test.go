package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// withEngine puts another engine in place of the real one, for one test.
func withEngine(t *testing.T, run func(context.Context, *experiment.Definition, engine.Options) (*journal.Journal, error)) {
	t.Helper()
	real := runExperiment
	t.Cleanup(func() { runExperiment = real })
	runExperiment = run
}

// trialOf is a definition of which nothing is used but its name.
func trialOf(name string) trial {
	return trial{definition: definition{arg: name + ".yaml"}, of: &experiment.Definition{Name: name, Clients: experiment.Clients{Naive: &experiment.Client{}}}, repeat: 1}
}

// Of all combinations of verdicts, the exit status is that of the worst: deviated
// outweighs aborted, and aborted outweighs inconclusive.
func TestTheWorstVerdictCounts(t *testing.T) {
	order := []journal.Verdict{journal.Upheld, journal.Inconclusive, journal.AbortedVerdict, journal.Deviated}
	statuses := []int{0, 3, 4, 1}
	for set := range 1 << len(order) {
		var runs []ran
		var each outcomes
		want := 0
		for i, v := range order {
			if set&(1<<i) == 0 {
				continue
			}
			want = i
			one := ran{Journal: &journal.Journal{Verdict: v}}
			runs = append(runs, one)
			each = append(each, &outcome{name: string(v), runs: []ran{one}})
		}
		one := outcomes{{name: "one", runs: runs}}
		for what, all := range map[string]outcomes{"runs of one": one, "experiments": each} {
			status := exitOK
			if f := (*failure)(nil); errors.As(all.err(), &f) {
				status = f.status
			}
			if all.verdict() != order[want] || status != statuses[want] {
				t.Errorf("%s with verdicts %v: verdict %s, status %d, want %s, %d", what, each.names(), all.verdict(), status, order[want], statuses[want])
			}
		}
	}
}

// A report that cannot be written after all is a failure of its own, and what was
// seen is told all the same.
func TestReportThatCannotBeWritten(t *testing.T) {
	withEngine(t, fakeEngine)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		r := &runner{flags: &runFlags{json: asJSON, output: output{report: filepath.Join(file, "below")}}, trials: []trial{trialOf("upheld")}, stdout: &out}
		err := r.run(t.Context())
		if f := (*failure)(nil); !errors.As(err, &f) || f.status != exitFailed || !strings.Contains(err.Error(), file) {
			t.Errorf("json %t: run() = %v, want a failure with status 1 and the name", asJSON, err)
		}
		if !strings.Contains(out.String(), "upheld") || strings.Contains(out.String(), "index.html") {
			t.Errorf("json %t: the output is %s, want the verdict, and no report", asJSON, out.String())
		}
	}
}

// Output that cannot be written ends what is left, with status 1.
func TestRunWithoutAnOutput(t *testing.T) {
	runs := 0
	withEngine(t, func(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
		runs++
		return fakeEngine(ctx, d, o)
	})
	r := &runner{flags: new(runFlags), trials: []trial{trialOf("upheld"), trialOf("upheld")}, stdout: broken{}}
	err := r.run(t.Context())
	if f := (*failure)(nil); !errors.As(err, &f) || f.status != exitFailed || err.Error() != "broken" {
		t.Errorf("run() = %v, want a failure with status 1", err)
	}
	if runs != 1 {
		t.Errorf("%d runs, want none after the first", runs)
	}
}

// Only a terminal has a progress line, and colors only where they are wanted.
func TestTerminal(t *testing.T) {
	for _, test := range []struct{ line, color bool }{{false, false}, {true, true}} {
		told := false
		withEngine(t, func(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
			told = o.Progress != nil
			return fakeEngine(ctx, d, o)
		})
		var out bytes.Buffer
		r := &runner{flags: new(runFlags), trials: []trial{trialOf("deviated")}, stdout: &out, stderr: io.Discard, line: test.line, color: test.color}
		if err := r.run(t.Context()); err == nil {
			t.Error("run() = nil, want that it has deviated")
		}
		if colored := strings.Contains(out.String(), "\x1b[31mdeviated    \x1b[0m  deviated  12.3 s\n"); told != test.line || colored != test.color {
			t.Errorf("with %+v: progress %t, output %q", test, told, out.String())
		}
	}
}

// Of a whole library, what is not upheld is named, or else none of it.
func TestAgainOfTheLibrary(t *testing.T) {
	withEngine(t, fakeEngine)
	for second, want := range map[string]string{"upheld-b": "revenant run --all --seed 7", "deviated-b": "revenant run deviated-b.yaml --seed 7"} {
		var out bytes.Buffer
		r := &runner{flags: &runFlags{all: true, seed: 7}, trials: []trial{trialOf("upheld-a"), trialOf(second)}, stdout: &out}
		r.run(t.Context())
		if !strings.HasSuffix(out.String(), "again:   "+want+"\n") {
			t.Errorf("with %s the output is\n%s\nwant it to end with %q", second, out.String(), want)
		}
	}
}

// What the engine itself refuses is no verdict.
func TestEngineThatFails(t *testing.T) {
	withEngine(t, fakeEngine)
	r := &runner{flags: new(runFlags), trials: []trial{trialOf("other")}, stdout: io.Discard}
	err := r.run(t.Context())
	if f := (*failure)(nil); !errors.As(err, &f) || f.status != exitFailed || !strings.Contains(err.Error(), `knows no "other"`) {
		t.Errorf("run() = %v, want a failure with status 1", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "file")
	writes := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			io.WriteString(w, text)
			return err
		}
	}
	wrong := errors.New("wrong")
	if err := writeFile(file, writes("half", wrong)); err != wrong {
		t.Errorf("writeFile() = %v, want %v", err, wrong)
	}
	if left := entriesOf(t, dir); len(left) > 0 {
		t.Errorf("after an error there is %v, want nothing", left)
	}
	for _, text := range []string{"first", "second"} {
		if err := writeFile(file, writes(text, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(file, writes("half", wrong)); err != wrong {
		t.Errorf("writeFile() = %v, want %v", err, wrong)
	}
	got, err := os.ReadFile(file)
	if left := entriesOf(t, filepath.Dir(file)); err != nil || string(got) != "second" || len(left) != 1 {
		t.Errorf("the file has %q, %v, beside %v; want second and nothing beside", got, err, left)
	}
	if err := writeFile(os.DevNull, writes("text", nil)); err != nil {
		t.Errorf("writeFile(%s) = %v, want nil", os.DevNull, err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is %v, %v, want the device that it was", os.DevNull, info, err)
	}
}

func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestQuoted(t *testing.T) {
	for arg, want := range map[string]string{
		"session": "session", "a/b-c_d.yaml": "a/b-c_d.yaml", "": "''", "a b": "'a b'", "$x": "'$x'", "it's": `'it'\''s'`, "ü": "'ü'",
	} {
		if got := quoted(arg); got != want {
			t.Errorf("quoted(%q) = %s, want %s", arg, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 s", 1234 * time.Millisecond: "1.2 s", 59949 * time.Millisecond: "59.9 s", 59951 * time.Millisecond: "1 min 0 s", 125400 * time.Millisecond: "2 min 5 s",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}

// A word that is longer than a line stays whole, on a line of its own.
func TestWrapped(t *testing.T) {
	long := "/" + strings.Repeat("x", 90)
	got := wrapped("first: ", "  ", "one "+long+" two\x1b[2J\n\u202ethree "+strings.Repeat("word ", 20))
	want := []string{"first: one", "  " + long, "  two\ufffd[2J \ufffdthree" + strings.Repeat(" word", 12), "  " + strings.TrimSpace(strings.Repeat("word ", 8)), ""}
	if lines := strings.Split(got, "\n"); !slices.Equal(lines, want) {
		t.Errorf("wrapped() = %q, want %q", lines, want)
	}
}
