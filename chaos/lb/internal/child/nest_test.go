//go:build unix

package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb/internal/child"
	"go.uber.org/goleak"
)

// ownerEnv makes the test binary an owner, and says how it is to end.
const ownerEnv = "REVENANT_TEST_OWNER_ENDS_BY"

// patience is after what a test gives up.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if how := os.Getenv(ownerEnv); how != "" {
		own(how)
	}
	goleak.VerifyTestMain(m)
}

// tree is a program that stays, with a process of its own beside it, and ignores
// SIGTERM. It writes a line when both are there. Both hold descriptor 3.
const tree = `trap '' TERM; sleep 1000 & echo up; wait`

// own runs tree and ends in the way of how.
func own(how string) {
	nest, err := child.New()
	if err != nil {
		panic(err)
	}
	os.WriteFile(filepath.Join(nest.Dir(), "file"), nil, 0o600)
	cmd := nest.Command(context.Background(), "/bin/sh", "-c", tree)
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "pipe")}
	go nest.Run(cmd)
	bufio.NewReader(os.Stdin).ReadByte() // until the test has seen it up
	switch how {
	case "panic":
		go panic("on purpose")
		select {}
	case "exit":
		os.Exit(0)
	}
	select {} // until it is killed
}

// Whatever becomes of the owner, nothing of the program is left.
func TestNothingOutlivesTheOwner(t *testing.T) {
	for _, how := range []string{"SIGKILL", "SIGTERM", "panic", "exit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			held, hold, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			owner := exec.Command(os.Args[0])
			owner.Env = append(os.Environ(), ownerEnv+"="+how, "TMPDIR="+tmp)
			owner.ExtraFiles = []*os.File{hold}
			stdin, _ := owner.StdinPipe()
			stdout, _ := owner.StdoutPipe()
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			hold.Close()
			if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "up\n" {
				t.Fatalf("owner says %q, %v, want up", line, err)
			}
			if made := entries(t, tmp); len(made) != 1 {
				t.Fatalf("files in use are %v, want one directory", made)
			}
			switch how {
			case "SIGKILL":
				owner.Process.Kill()
			case "SIGTERM":
				owner.Process.Signal(syscall.SIGTERM)
			default:
				io.WriteString(stdin, "\n")
			}
			owner.Wait()

			// The end of the pipe is the end of all that held it.
			held.SetReadDeadline(time.Now().Add(patience))
			if _, err := held.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the program's processes: %v, want %v when they have ended", err, io.EOF)
			}
			eventually(t, "the directory is removed", func() bool { return len(entries(t, tmp)) == 0 })
			eventually(t, "the watchdog ends", func() bool { return !mentioned(tmp) })
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	nest := newNest(t)
	held, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := nest.Command(ctx, "/bin/sh", "-c", tree)
	cmd.Stdout = writer(func() { cancel() })
	cmd.ExtraFiles = []*os.File{hold}
	if err := nest.Run(cmd); err == nil {
		t.Error("Run() = nil, want how it ended")
	}
	hold.Close()
	held.SetReadDeadline(time.Now().Add(patience))
	if _, err := held.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the program's processes: %v, want %v when they have ended", err, io.EOF)
	}
}

func TestRunReportsHowTheProgramEnded(t *testing.T) {
	nest := newNest(t)
	cmd := nest.Command(t.Context(), "/bin/sh", "-c", "pwd; exit 3")
	var out strings.Builder
	cmd.Stdout = &out
	var exit *exec.ExitError
	if err := nest.Run(cmd); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Run() = %v, want exit status 3", err)
	}
	if got, _ := filepath.EvalSymlinks(nest.Dir()); strings.TrimSpace(out.String()) != got {
		t.Errorf("it ran in %q, want %q", out.String(), got)
	}
	if err := nest.Run(nest.Command(t.Context(), "/nowhere/to/be/found")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Run() of what is missing = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestTheProgramHasAGroupOfItsOwn(t *testing.T) {
	nest := newNest(t)
	cmd := nest.Command(t.Context(), "/bin/sh", "-c", "echo; exec sleep 1000")
	var group int
	cmd.Stdout = writer(func() {
		group, _ = syscall.Getpgid(cmd.Process.Pid)
		cmd.Cancel()
	})
	nest.Run(cmd)
	if group != cmd.Process.Pid {
		t.Errorf("its process group is %d, want its own, %d", group, cmd.Process.Pid)
	}
}

func TestDirectory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	nest, err := child.New()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(nest.Dir())
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("directory is %v, %v, want drwx------", info, err)
	}
	os.WriteFile(filepath.Join(nest.Dir(), "file"), nil, 0o600)
	for range 2 {
		if err := nest.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	}
	if left := entries(t, tmp); len(left) > 0 {
		t.Errorf("Close leaves %v, want nothing", left)
	}
	if mentioned(tmp) {
		t.Error("the watchdog is there after Close")
	}
}

func TestNewWithoutPlace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	if nest, err := child.New(); err == nil || !strings.HasPrefix(err.Error(), "child: ") {
		t.Errorf("New() = %v, %v, want an error of child", nest, err)
	}
}

func newNest(t *testing.T) *child.Nest {
	t.Helper()
	nest, err := child.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nest.Close() })
	return nest
}

// writer calls a function for the first thing that is written to it.
func writer(f func()) io.Writer { return &funcWriter{f} }

type funcWriter struct{ f func() }

func (w *funcWriter) Write(p []byte) (int, error) {
	if w.f != nil {
		w.f()
		w.f = nil
	}
	return len(p), nil
}

func entries(t *testing.T, dir string) []fs.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// mentioned says whether a process has text in its arguments. Where there is no
// /proc it cannot tell, and says no.
func mentioned(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Error(fmt.Sprint("not in time: ", what))
			return
		}
	}
}
