package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
)

// An interrupt ends the demo, and TestMain sees that no goroutine is left.
func TestInterrupt(t *testing.T) {
	for _, args := range [][]string{{"demo"}, {"demo", "--json"}} {
		ctx, cancel := context.WithCancel(t.Context())
		var out lockedBuffer
		if len(args) == 1 {
			out.first = cancel
		} else {
			cancel()
		}
		var errs bytes.Buffer
		status := run(ctx, args, func(string) string { return "" }, strings.NewReader(""), &out, &errs)
		cancel()
		const want = "revenant: interrupted: the servers, the load balancers and the clients are closed\n"
		if status != exitInterrupted || errs.String() != want {
			t.Errorf("%v: exit status %d, stderr %q, want 130 and %q", args, status, errs.String(), want)
		}
		if strings.Contains(out.String(), "side by side") || len(args) > 1 && out.String() != "" {
			t.Errorf("%v printed results:\n%s", args, out.String())
		}
	}
}

// lockedBuffer calls first when it is written to for the first time.
type lockedBuffer struct {
	first func()
	buf   bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	if b.first != nil {
		b.first()
		b.first = nil
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string { return b.buf.String() }

func TestSignal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "revenant", "demo") // TestMain has put it into PATH
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitInterrupted || !strings.HasPrefix(errs.String(), "revenant: interrupted: ") {
		t.Errorf("after SIGINT: exit status %d, stderr %q, want 130 and that it was interrupted", got, errs.String())
	}
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	var errs bytes.Buffer
	status := run(t.Context(), []string{"version"}, os.Getenv, strings.NewReader(""), broken{}, &errs)
	if status != exitFailed || errs.String() != "revenant: broken\n" {
		t.Errorf("exit status %d, stderr %q, want 1 and why", status, errs.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// A verdict other than upheld is exit status 1 and one line that names the arm.
func TestVerdictsAsExitStatus(t *testing.T) {
	for _, test := range []struct {
		report demo.Report
		status int
		line   string
	}{
		{demo.Report{Verdict: demo.Upheld}, exitOK, ""},
		{demo.Report{Verdict: demo.Deviated, Reasons: []string{"the protected arm shows the failure", "the protected arm does more"}}, exitFailed,
			"revenant: demo: deviated: the protected arm shows the failure; the protected arm does more\n"},
		{demo.Report{Verdict: demo.Inconclusive, Reasons: []string{"the control arm does not show the failure"}}, exitFailed,
			"revenant: demo: inconclusive: the control arm does not show the failure\n"},
		{demo.Report{Verdict: demo.Inconclusive, Unplanned: true, Scale: 300, Reasons: []string{"the control arm called no tool in part 1"}}, exitFailed,
			"revenant: demo: inconclusive: the control arm called no tool in part 1 (on a slow machine try a smaller --scale than 300)\n"},
	} {
		var errs bytes.Buffer
		root := newRoot(os.Getenv)
		if got := report(&errs, root, judged(&test.report)); got != test.status || errs.String() != test.line {
			t.Errorf("verdict %s: exit status %d, stderr %q, want %d and %q", test.report.Verdict, got, errs.String(), test.status, test.line)
		}
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	var errs bytes.Buffer
	err := &failure{exitFailed, fmt.Errorf("one\r\ntwo\n\n%w", errors.New("three"))}
	if got := report(&errs, newRoot(os.Getenv), err); got != exitFailed || errs.String() != "revenant: one; two; three\n" {
		t.Errorf("exit status %d, stderr %q", got, errs.String())
	}
}
