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
)

// An interrupt ends the demo, and TestMain sees that no goroutine is left.
func TestInterrupt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := lockedBuffer{first: cancel}
	var errs bytes.Buffer
	status := run(ctx, []string{"demo"}, func(string) string { return "" }, strings.NewReader(""), &out, &errs)
	const want = "revenant: interrupted, and everything is undone; aborted: session, elicitation\n"
	if status != exitAborted || errs.String() != want {
		t.Errorf("exit status %d, stderr %q, want 4 and %q", status, errs.String(), want)
	}
	if strings.Contains(out.String(), "Three lines do it") {
		t.Errorf("the demo ended as if nothing had been:\n%s", out.String())
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
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
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
	if got := cmd.ProcessState.ExitCode(); got != exitAborted || !strings.HasPrefix(errs.String(), "revenant: interrupted, ") {
		t.Errorf("after SIGINT: exit status %d, stderr %q, want 4 and that it was interrupted", got, errs.String())
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

func TestErrorsAreOneLine(t *testing.T) {
	var errs bytes.Buffer
	err := &failure{exitFailed, fmt.Errorf("one\r\ntwo\n\n%w", errors.New("three"))}
	if got := report(&errs, newRoot(os.Getenv), err); got != exitFailed || errs.String() != "revenant: one; two; three\n" {
		t.Errorf("exit status %d, stderr %q", got, errs.String())
	}
}
