package fault_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaceOf is the network namespace of a thread of this process.
func namespaceOf(t *testing.T, tid int) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/self/task/%d/ns/net", tid))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// No thread that other goroutines run on is left on a side.
func TestThreadsComeHome(t *testing.T) {
	n := newNetwork(t)
	home := namespaceOf(t, unix.Gettid())
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if err := n.Client().Do(func() error {
				if got := namespaceOf(t, unix.Gettid()); got == home {
					return errors.New("Do is at home")
				}
				runtime.Gosched()
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		if got, err := os.Readlink(task); err == nil && got != home {
			t.Errorf("%s is %s, want %s", task, got, home)
		}
	}
}

func TestDo(t *testing.T) {
	n := newNetwork(t)
	broken := errors.New("broken")
	if err := n.Client().Do(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Do() = %v, want %v", err, broken)
	}
	if err := n.Client().Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("Do() of a function that does not return = nil, want an error")
	}
	func() {
		defer func() {
			if p := recover(); p != "out of hand" {
				t.Errorf("recovered %v, want the panic", p)
			}
		}()
		n.Client().Do(func() error { panic("out of hand") })
	}()
	// A process started on a side is on it.
	var out []byte
	err := n.Server().Do(func() (err error) {
		out, err = exec.Command("readlink", "/proc/self/ns/net").Output()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, home := strings.TrimSpace(string(out)), namespaceOf(t, unix.Gettid()); got == home || !strings.HasPrefix(got, "net:[") {
		t.Errorf("the process is in %s, and so is the test", got)
	}
}

// withoutCapabilities calls f on a thread that has none of the capabilities, and
// that ends afterwards.
func withoutCapabilities(t *testing.T, f func()) (dropped bool) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never back
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		err := unix.Capset(&header, &none[0])
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Errorf("capset: %v", err)
		return false
	}
	return true
}
