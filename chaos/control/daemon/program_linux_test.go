package daemon_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
)

// children are the processes of a name whose parent is one, by their numbers.
func children(t *testing.T, parent int, name string) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
		fields := strings.Fields(string(data[end+1:]))
		if string(data[begin+1:end]) == name && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, pid)
		}
	}
	return all
}

func TestAProgramThatIsKilledIsStartedAgain(t *testing.T) {
	for _, engine := range []string{"haproxy", "nginx"} {
		t.Run(engine, func(t *testing.T) {
			needs(t, engine)
			d, stop := start(t, daemon.Config{DataDir: dataDir(t)})
			put(t, d, control.Servers, "s", 0, `{}`)
			before := put(t, d, control.LoadBalancers, "b", 0, fmt.Sprintf(`{"server": "s", "settings": {"engine": %q}}`, engine))
			pids := children(t, os.Getpid(), engine)
			if len(pids) != 1 {
				t.Fatalf("there are processes %v, want one", pids)
			}
			if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			failed := await(t, d, control.LoadBalancers, "b", control.Failed)
			wantState(t, failed, control.Failed, "killed")
			after := await(t, d, control.LoadBalancers, "b", control.Running)
			if after.Status.Addr != before.Status.Addr || initialize(t, after.Status.URL) != "200" {
				t.Errorf("it is %+v, want it to serve at %s", after.Status, before.Status.Addr)
			}
			stop()
			if left := children(t, os.Getpid(), engine); len(left) != 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: this user cannot make a disk that is full soon: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	g := newGate()
	d, stop := with(t, dir, g)
	run := begin(t, d, "small", "", control.RunRequest{})
	g.await(t)
	put(t, d, control.Servers, "before", 0, `{}`)

	large, _ := json.Marshal(control.ServerSpec{Settings: fmt.Appendf(nil, `{"rules": [{"on": "post", "status": 500, "body": %q}]}`, strings.Repeat("x", 60_000))})
	var stored []string
	for i := range 100 {
		name := fmt.Sprintf("s-%d", i)
		_, _, err := d.Put(testContext(t), control.Servers, name, 0, large)
		if err != nil {
			wantProblem(t, err, control.Internal, "nothing has changed", "the disk is full", dir)
			_, err := d.Get(testContext(t), control.Servers, name)
			wantProblem(t, err, control.NotFound)
			break
		}
		stored = append(stored, name)
	}
	if len(stored) == 100 {
		t.Fatal("the disk is not full, and nothing is shown")
	}
	// What is called for in an emergency works all the same.
	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full, and nothing is shown")
	}
	i, err := d.Halt(testContext(t), "no room")
	if r, _ := d.Run(testContext(t), run.ID); !i.Halted || r.State != control.Interrupted {
		t.Errorf("Halt() = %+v, %v, and the run is %s, want it interrupted", i, err, r.State)
	}
	if err != nil {
		wantProblem(t, err, control.Internal, "the disk is full")
	}
	if err := os.Remove(filepath.Join(dir, "more")); err != nil {
		t.Fatal(err)
	}
	stop()
	d, stop = start(t, daemon.Config{DataDir: dir, Runner: g})
	for _, name := range append(stored, "before") {
		wantState(t, get(t, d, control.Servers, name), control.Running, "")
	}
	if r, _ := d.Run(testContext(t), run.ID); r.State != control.Interrupted {
		t.Errorf("after a restart the run is %s, want interrupted", r.State)
	}
	stop()
}
