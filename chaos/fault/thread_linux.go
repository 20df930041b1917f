package fault

import (
	"errors"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// errExited says that a function ended its goroutine.
var errExited = errors.New("fault: the function called runtime.Goexit")

// onThread calls f on a goroutine that has its thread to itself, which f may
// move to another network namespace. The thread goes back to the others only in
// the namespace that it came from; if it cannot go back there, it ends. A panic
// of f is the caller's.
func onThread(f func() error) error {
	var (
		err      error
		panicked any
		returned bool
		done     = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer func() {
			if !returned {
				panicked = recover()
			}
		}()
		err = callOnThread(f)
		returned = true
	}()
	<-done
	switch {
	case panicked != nil:
		panic(panicked)
	case !returned:
		return errExited
	}
	return err
}

func callOnThread(f func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread is what /proc/self shows of the process, and it cannot
		// end alone. While this goroutine holds it, another has a different one.
		defer runtime.UnlockOSThread()
		return onThread(f)
	}
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return missing("a readable /proc", err)
	}
	defer home.Close()
	defer func() {
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}
