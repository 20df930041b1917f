package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// daemonProcess is "revenant serve" in a process of its own.
type daemonProcess struct {
	cmd    *exec.Cmd
	tmp    string // for its temporary files
	client *control.Client
	log    bytes.Buffer
}

func startDaemonProcess(t *testing.T, dir string) *daemonProcess {
	t.Helper()
	d := &daemonProcess{tmp: t.TempDir(), cmd: exec.Command("revenant", "serve", "--data-dir", dir)}
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.tmp)
	d.cmd.Stderr = &d.log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.end(os.Kill) })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		d.end(os.Kill)
		t.Fatalf("it does not serve: %v\n%s", err, d.log.String())
	}
	if d.client, err = control.New(control.ClientConfig{Socket: filepath.Join(dir, socketName)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.client.Close)
	return d
}

// end ends it by a signal, and returns its exit status.
func (d *daemonProcess) end(s os.Signal) int {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Signal(s)
		d.cmd.Wait()
	}
	return d.cmd.ProcessState.ExitCode()
}

// put makes a resource that runs.
func (d *daemonProcess) put(t *testing.T, kind control.Kind, name string, spec any) control.Resource {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := d.client.Put(t.Context(), kind, name, -1, text)
	if err != nil || r.Status.State != control.Running {
		t.Fatalf("Put(%s/%s) = %+v, %v, want it to run", kind, name, r, err)
	}
	return r
}

// underWay begins a run and returns when its method has begun.
func (d *daemonProcess) underWay(t *testing.T) string {
	t.Helper()
	r, err := d.client.Start(t.Context(), "crash", "", control.RunRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := errors.New("begun")
	err = d.client.Events(ctx, r.ID, 0, func(e control.RunEvent) error {
		if e.Phase == "method" {
			return begun
		}
		return nil
	})
	if !errors.Is(err, begun) {
		t.Fatalf("the run's events ended with %v before its method had begun", err)
	}
	return r.ID
}

func (d *daemonProcess) wantInterrupted(t *testing.T, id, reason string) {
	t.Helper()
	r, err := d.client.Run(t.Context(), id)
	if err != nil || r.State != control.Interrupted || !strings.Contains(r.Reason, reason) {
		t.Errorf("the run is %+v, %v, want it interrupted, with %q", r, err, reason)
	}
}

// What a daemon has running goes with it, whether it is told to end or is killed,
// and comes back with the next on the same ports. A halt undoes what a run has
// broken, and leaves the rest.
func TestDaemonProcess(t *testing.T) {
	if err := lb.Available(lb.HAProxy); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	dir := shortDir(t)
	d := startDaemonProcess(t, dir)
	d.put(t, control.Servers, "s", control.ServerSpec{})
	b := d.put(t, control.LoadBalancers, "b", control.LoadBalancerSpec{Server: "s", Settings: json.RawMessage(`{"engine": "haproxy"}`)})
	d.put(t, control.Experiments, "crash", control.ExperimentSpec{
		Definition: fmt.Sprintf(crashing, "  load_balancer: {engine: haproxy, idle_timeout: 5m}\n  links: [front]", "    fault: {target: front, kind: blackhole}"),
	})
	own := func(program string) (n int) {
		return snapshot{processes: processesOf(d.tmp)}.count(program)
	}

	id := d.underWay(t)
	if n := own("haproxy"); n != 5 {
		t.Errorf("there are %d processes of haproxy, want that of the load balancer, and one in each of four cells", n)
	}
	began := time.Now()
	if status, _, text := revenant(noEnv, "halt", "--data-dir", dir, "--reason", "enough"); status != exitOK {
		t.Errorf("revenant halt = %d, %s", status, text)
	}
	t.Logf("the halt of a run of four cells with haproxy took %v", time.Since(began))
	d.wantInterrupted(t, id, "it was halted: enough")
	if n := own("haproxy"); n != 1 {
		t.Errorf("after the halt there are %d processes of haproxy, want that of the load balancer", n)
	}
	if status, _, text := revenant(noEnv, "resume", "--data-dir", dir); status != exitOK {
		t.Errorf("revenant resume = %d, %s", status, text)
	}

	id = d.underWay(t)
	began = time.Now()
	if status := d.end(syscall.SIGTERM); status != exitOK {
		t.Errorf("it ended with %d, want 0:\n%s", status, d.log.String())
	}
	t.Logf("the end in the middle of such a run took %v", time.Since(began))
	if left := processesOf(d.tmp); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if left := filesIn(t, d.tmp); len(left) > 0 {
		t.Errorf("files %v are left", left)
	}
	for _, name := range []string{socketName, "pid", "revenant.db-wal"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	free, err := net.Listen("tcp", b.Status.Addr)
	if err != nil {
		t.Errorf("the load balancer's port is not free: %v", err)
	} else {
		free.Close()
	}

	d = startDaemonProcess(t, dir)
	d.wantInterrupted(t, id, "the daemon was stopped")
	id = d.underWay(t)
	d.end(os.Kill)
	d = startDaemonProcess(t, dir) // in spite of the socket, the lock and the number of the one before
	d.wantInterrupted(t, id, "sudden end")
	after, err := d.client.Get(t.Context(), control.LoadBalancers, "b")
	if err != nil || after.Status.Addr != b.Status.Addr || after.Status.State != control.Running {
		t.Errorf("the load balancer is %+v, %v, want it to run at %s", after.Status, err, b.Status.Addr)
	}
	if status := d.end(os.Interrupt); status != exitOK {
		t.Errorf("it ended with %d, want 0:\n%s", status, d.log.String())
	}
}
