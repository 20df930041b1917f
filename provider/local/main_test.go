//go:build unix

package local_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/provider/local"
)

// With this argument the program of the tests is a daemon.
const daemonCommand = "daemon"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == daemonCommand {
		os.Exit(runDaemon(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func runDaemon(args []string) int {
	flags := flag.NewFlagSet(daemonCommand, flag.ExitOnError)
	dir := flags.String("data-dir", "", "")
	idle := flags.Duration("idle", time.Minute, "")
	flags.Parse(args)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := local.Serve(ctx, local.ServeConfig{DataDir: *dir, Version: "test", Idle: *idle, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	switch {
	case err == nil:
		return local.ExitOK
	case errors.Is(err, daemon.ErrInUse):
		return local.ExitInUse
	}
	fmt.Fprintln(os.Stderr, err)
	return local.ExitFailed
}

// testTime bounds what a test waits for.
const testTime = 60 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// dataDir is a data directory that is not there yet. Whatever daemon is left in it
// is ended with the test.
func dataDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "revenant") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "data")
	t.Cleanup(func() {
		defer os.RemoveAll(parent)
		c, err := control.New(control.ClientConfig{Socket: filepath.Join(dir, local.SocketName)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if info, err := c.Info(context.Background()); err == nil && info.PID > 0 && info.PID != os.Getpid() {
			syscall.Kill(info.PID, syscall.SIGTERM)
		}
		for _, pid := range started.of(dir) {
			eventually(t, "a daemon has not ended", func() bool { return syscall.Kill(pid, 0) != nil })
		}
	})
	return dir
}

// find returns the daemon of a directory, which waits so long when it is idle.
func find(t *testing.T, dir string, idle time.Duration) *local.Daemon {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d, err := local.New(local.Config{
		DataDir: dir, Program: program, Args: []string{daemonCommand, "--data-dir", dir, "--idle", idle.String()},
		Started: func(_ context.Context, pid int) { started.add(dir, pid) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// started are the processes that were started, by their directories.
var started processes

type processes struct {
	mu   sync.Mutex
	pids map[string][]int
}

func (p *processes) add(dir string, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pids == nil {
		p.pids = make(map[string][]int)
	}
	p.pids[dir] = append(p.pids[dir], pid)
}

func (p *processes) of(dir string) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pids[dir])
}

// eventually waits until something is so.
func eventually(t *testing.T, otherwise string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(testTime)
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal(otherwise)
		}
	}
}

// files are what there is in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}
