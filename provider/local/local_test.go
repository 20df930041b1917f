//go:build unix

package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/provider/local"
)

func TestADaemonIsStartedAndEndsByItself(t *testing.T) {
	dir := dataDir(t)
	d := find(t, dir, 300*time.Millisecond)
	ctx := testContext(t)
	if _, _, err := d.Put(ctx, control.Servers, "s", 0, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	info, err := d.Info(ctx)
	if err != nil || info.PID == os.Getpid() || info.DataDir != dir {
		t.Fatalf("Info() = %+v, %v, want a process of its own with %s", info, err, dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, local.ReportsName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(ctx, control.Servers, "s", -1); err != nil {
		t.Fatal(err)
	}
	want := []string{local.LogName}
	eventually(t, "the daemon stays though it keeps nothing", func() bool { return slices.Equal(files(t, dir), want) })

	// And the next one is there when it is wanted.
	if list, err := d.List(ctx, control.Servers); err != nil || len(list) != 0 {
		t.Errorf("List() = %v, %v, want nothing of a new daemon", list, err)
	}
	eventually(t, "the second daemon stays", func() bool { return slices.Equal(files(t, dir), want) })
}

func TestADaemonThatKeepsSomethingStays(t *testing.T) {
	dir := dataDir(t)
	d := find(t, dir, 100*time.Millisecond)
	ctx := testContext(t)
	if _, created, err := d.Put(ctx, control.Servers, "s", 0, []byte(`{}`)); err != nil || !created {
		t.Fatalf("Put() = %v, %v, want it created", created, err)
	}
	before, err := d.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait := time.NewTimer(500 * time.Millisecond) // five times as long as one that keeps nothing waits
	<-wait.C
	if after, err := d.Info(ctx); err != nil || after.PID != before.PID {
		t.Errorf("Info() = %+v, %v, want the process %d still", after, err, before.PID)
	}
}

func TestThoseWhoStartAtOnceShareADaemon(t *testing.T) {
	dir := dataDir(t)
	ctx := testContext(t)
	var all sync.WaitGroup
	pids := make([]int, 8)
	for i := range pids {
		d := find(t, dir, time.Minute)
		all.Go(func() {
			info, err := d.Ensure(ctx)
			if err != nil {
				t.Errorf("Ensure() = %v", err)
			}
			pids[i] = info.PID
		})
	}
	all.Wait()
	for _, pid := range pids {
		if pid != pids[0] || pid == 0 {
			t.Fatalf("the processes are %v, want one", pids)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, local.LogName))
	if n := strings.Count(string(log), "the daemon is ready"); err != nil || n != 1 {
		t.Errorf("the log has %d daemons that are ready, %v, want one:\n%s", n, err, log)
	}
}

// What was acknowledged is there again, at the same address, though the socket of
// the one that was killed is still there.
func TestAKilledDaemonIsReplaced(t *testing.T) {
	dir := dataDir(t)
	d := find(t, dir, time.Minute)
	ctx := testContext(t)
	before, _, err := d.Put(ctx, control.Servers, "s", 0, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	info, err := d.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, local.SocketName)); err != nil {
		t.Fatalf("there is no socket left to be in the way: %v", err)
	}
	after, err := d.Get(ctx, control.Servers, "s")
	if err != nil || after.ID != before.ID || after.Status.Addr != before.Status.Addr || after.Status.State != control.Running {
		t.Errorf("Get() = %+v, %v, want %+v", after, err, before)
	}
	if now, err := d.Info(ctx); err != nil || now.PID == info.PID {
		t.Errorf("Info() = %+v, %v, want another process than %d", now, err, info.PID)
	}
}

// A halt is for whoever comes next.
func TestAHaltOutlivesAnIdleDaemon(t *testing.T) {
	dir := dataDir(t)
	d := find(t, dir, 200*time.Millisecond)
	ctx := testContext(t)
	if _, err := d.Halt(ctx, "the fire alarm"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon stays", func() bool { _, err := os.Stat(filepath.Join(dir, "pid")); return err != nil })
	if info, err := d.Info(ctx); err != nil || !info.Halted || info.HaltReason != "the fire alarm" {
		t.Errorf("Info() = %+v, %v, want it halted", info, err)
	}
}

func TestADirectoryThatIsInUse(t *testing.T) {
	dir := dataDir(t)
	if _, err := find(t, dir, time.Minute).Ensure(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := local.Serve(testContext(t), local.ServeConfig{DataDir: dir}); !errors.Is(err, daemon.ErrInUse) {
		t.Errorf("Serve() = %v, want ErrInUse", err)
	}
}

func TestADaemonOfAnotherVersion(t *testing.T) {
	dir := dataDir(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, local.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(control.Info{Version: "v99", API: control.API + 1, PID: os.Getpid()})
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	_, err = find(t, dir, time.Minute).Get(testContext(t), control.Servers, "s")
	var version *control.VersionError
	if !errors.As(err, &version) || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("Get() = %v, want a VersionError that says what to do", err)
	}
}

func TestADaemonThatCannotStart(t *testing.T) {
	dir := dataDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "somebody's"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := find(t, dir, time.Minute).Info(testContext(t))
	for _, want := range []string{"status 1", filepath.Join(dir, local.LogName), "mode 0755, want 0700"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Info() = %v, want an error with %q", err, want)
		}
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	d, err := local.New(local.Config{DataDir: dataDir(t), Program: "/nonexistent/program"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Info(testContext(t)); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("Info() = %v, want an error of the start", err)
	}
}

// Neither secrets nor what Terraform says to its plugins is a daemon's business.
func TestEnvironmentOfADaemon(t *testing.T) {
	t.Setenv("REVENANT_TOKEN", "secret")
	t.Setenv("TF_PLUGIN_MAGIC_COOKIE", "cookie")
	dir := dataDir(t)
	info, err := find(t, dir, time.Minute).Ensure(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(info.PID), "environ"))
	if err != nil {
		t.Skipf("this system does not say what a process has: %v", err)
	}
	for _, name := range []string{"REVENANT_TOKEN", "TF_PLUGIN_MAGIC_COOKIE"} {
		if strings.Contains(string(environ), name) {
			t.Errorf("the daemon has %s", name)
		}
	}
}

// Serve ends with its context, and what it keeps stays.
func TestServeEndsWithItsContext(t *testing.T) {
	dir := dataDir(t)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- local.Serve(ctx, local.ServeConfig{DataDir: dir, Idle: time.Minute}) }()
	c, err := control.New(control.ClientConfig{Socket: filepath.Join(dir, local.SocketName)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "it does not serve", func() bool { _, err := c.Info(ctx); return err == nil })
	if _, _, err := c.Put(ctx, control.Servers, "s", 0, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("Serve() = %v", err)
	}
	if !slices.Contains(files(t, dir), "revenant.db") || slices.Contains(files(t, dir), local.SocketName) {
		t.Errorf("there is %v, want the database and no socket", files(t, dir))
	}
}
