package teeth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests run in their own folder.
const (
	root              = "../.."
	middlewareFolder  = root + "/middleware"
	experimentsFolder = root + "/experiments"
)

// overlay writes what m changes into dir, and returns the file that tells the go
// command so.
func (m mutant) overlay(dir string) (file string, err error) {
	texts, err := m.apply(middlewareFolder)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range texts {
		original, err := filepath.Abs(filepath.Join(middlewareFolder, name))
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, name)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// build compiles cmd/revenant with m in it into dir, which is absolute, and
// returns the program.
func (m mutant) build(ctx context.Context, dir string) (program string, err error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "revenant.exe")
	// Without its symbols the linker has half the work.
	cmd := command(ctx, "go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", program, "./cmd/revenant")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %q does not compile: %w\n%s", m.name, err, out)
	}
	return program, nil
}

// unitTests has the middleware's own tests run with m. Of their output nothing
// matters: there is much of it.
func (m mutant) unitTests(ctx context.Context, dir string) (outcome, error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return outcome{}, err
	}
	// A test that waits for ever has failed as well.
	cmd := command(ctx, "go", "test", "-vet=off", "-failfast", "-timeout=60s", "-overlay", overlay, "./middleware/...")
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return outcome{verdict: upheld}, nil
	case ctx.Err() != nil || bytes.Contains(out, []byte("[build failed]")):
		return outcome{}, fmt.Errorf("mutant %q: the tests did not run: %w\n%s", m.name, err, tail(string(out)))
	}
	return outcome{verdict: deviated}, nil
}

// command is a program that is run at the root of the project. It is interrupted
// at the end of ctx.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// outcome is what a run of an experiment has come to.
type outcome struct {
	verdict string // as the program says it
	reason  string
}

// The verdicts of the program that show something.
const (
	upheld   = "upheld"
	deviated = "deviated"
)

// patience is how long a run may take. Nothing depends on it but how soon it is
// said that one hangs.
const patience = 5 * time.Minute

// run runs an experiment of the library.
func run(ctx context.Context, program, experiment string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := command(ctx, program, "run", experiment, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	status := cmd.Run() // It also says what the verdict is.
	o, err := parse(stdout.Bytes())
	if err != nil {
		return outcome{}, fmt.Errorf("revenant run %s --json: %w (it ended with %v)\n%s", experiment, err, status, tail(stderr.String()))
	}
	return o, nil
}

// parse reads what the program prints of one experiment: its verdict, which is
// the worst of its runs, and the reason of the first run that has it.
func parse(data []byte) (outcome, error) {
	var document struct {
		Verdict string `json:"verdict"`
		Runs    []struct {
			Verdict string `json:"verdict"`
			Reason  string `json:"reason"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return outcome{}, err
	}
	for _, r := range document.Runs {
		if r.Verdict == document.Verdict && r.Verdict != "" {
			return outcome{r.Verdict, r.Reason}, nil
		}
	}
	return outcome{}, fmt.Errorf("none of %d runs has the verdict %q", len(document.Runs), document.Verdict)
}

// tail is the end of a long text.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func TestParse(t *testing.T) {
	for text, want := range map[string]outcome{
		`{"verdict":"upheld","runs":[{"verdict":"upheld","reason":"so"}]}`:                                          {upheld, "so"},
		`{"verdict":"deviated","runs":[{"verdict":"upheld","reason":"a"},{"verdict":"deviated","reason":"b"}]}`:     {deviated, "b"},
		`{"schema_version":1,"verdict":"inconclusive","experiments":[],"runs":[{"verdict":"inconclusive"}],"x":[]}`: {"inconclusive", ""},
	} {
		if got, err := parse([]byte(text)); err != nil || got != want {
			t.Errorf("parse(%s) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{``, `{}`, `{"runs":[{"verdict":""}]}`, `{"verdict":"upheld"}`, `{"verdict":"upheld","runs":[{"verdict":"deviated"}]}`} {
		if got, err := parse([]byte(text)); err == nil {
			t.Errorf("parse(%s) = %+v, want an error", text, got)
		}
	}
}
