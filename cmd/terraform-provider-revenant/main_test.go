package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/provider/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"version"}, local.ExitOK, "dev\n", ""},
		{[]string{"serve"}, exitUsage, "", `"serve" is no command`},
		{[]string{"-shrug"}, exitUsage, "", "Terraform starts this program"},
		{[]string{daemonCommand}, exitUsage, "", "want --data-dir"},
		{[]string{daemonCommand, "--data-dir", "x", "y"}, exitUsage, "", "want --data-dir"},
		{[]string{daemonCommand, "--data-dir", "x", "--idle", "1ms"}, exitUsage, "", "100ms or more"},
		{[]string{daemonCommand, "--data-dir", "/" + strings.Repeat("x", 120)}, local.ExitFailed, "", "too long"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, os.Getenv, &stdout, &stderr)
		if code != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("run(%q) = %d, %q, %q, want %d, %q, %q", c.args, code, stdout.String(), stderr.String(), c.code, c.stdout, c.stderr)
		}
	}
}

// A daemon ends by itself when nobody wants anything of it, and another one is told
// that the directory is taken.
func TestDaemonCommand(t *testing.T) {
	parent, err := os.MkdirTemp("", "revenant") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "data")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := control.New(control.ClientConfig{Socket: filepath.Join(dir, local.SocketName)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{daemonCommand, "--data-dir", dir, "--idle", "2s"}, os.Getenv, &bytes.Buffer{}, &log)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for err = errors.New("not asked yet"); err != nil && ctx.Err() == nil; _, err = c.Info(ctx) {
		<-tick.C
	}
	var stderr bytes.Buffer
	if code := run(ctx, []string{daemonCommand, "--data-dir", dir}, os.Getenv, &bytes.Buffer{}, &stderr); code != local.ExitInUse || !strings.Contains(stderr.String(), "is in use") {
		t.Errorf("the second one ends with %d, %q, want %d and that it is in use", code, stderr.String(), local.ExitInUse)
	}
	if code := <-ended; code != local.ExitOK || ctx.Err() != nil {
		t.Errorf("it ends with %d, %v, want %d by itself", code, ctx.Err(), local.ExitOK)
	}
	if !strings.Contains(log.String(), "there is nothing left to do") {
		t.Errorf("the log is\n%s", log.String())
	}
}
