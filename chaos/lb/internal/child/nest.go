//go:build unix

package child

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// grace is how long a program may take to end after SIGTERM.
const grace = 2 * time.Second

// watchdog reads from its standard input what is being run, and acts when that
// ends without "done". Its argument is the directory. The signals of a terminal
// or of a session that ends are not meant for it.
const watchdog = `trap '' HUP INT QUIT TERM
group=
while read -r word id; do
	case $word in
	run) group=$id ;;
	ended) group= ;;
	done) exit 0 ;;
	esac
done
[ -z "$group" ] || kill -s KILL -- "-$group"
rm -rf -- "$0"
`

// Nest is a private directory, and what runs in it. Make one with [New]; it
// belongs to the caller, who closes it. Its methods are for one goroutine at a
// time.
type Nest struct {
	dir   string
	dog   *exec.Cmd
	leash *os.File // the watchdog reads its other end

	closing sync.Once
	err     error // of Close
}

// New makes a directory under [os.TempDir] that only this user can enter. Its
// watchdog is there before it is.
func New() (*Nest, error) {
	n := &Nest{dir: filepath.Join(os.TempDir(), "revenant-lb-"+rand.Text()[:12])}
	if err := n.watch(); err != nil {
		return nil, fmt.Errorf("child: watchdog: %w", err)
	}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		n.dismiss()
		return nil, fmt.Errorf("child: %w", err)
	}
	return n, nil
}

func (n *Nest) watch() error {
	end, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer end.Close()
	n.dog = exec.Command("/bin/sh", "-c", watchdog, n.dir)
	n.dog.Stdin = end
	n.dog.Dir = "/"
	n.dog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.dog.Start(); err != nil {
		leash.Close()
		return err
	}
	n.leash = leash
	return nil
}

// Dir returns the directory.
func (n *Nest) Dir() string { return n.dir }

// gate is what a program is started through: it waits for a line, so that the
// watchdog knows of the program before there is one. If the owner dies before
// that there will be none.
const gate = `read -r _ && exec "$@" </dev/null`

// Command returns a command for Run, for which more may be set: environment,
// files, output. Its standard input is Run's, and empty for the program. When ctx
// ends the program gets SIGTERM, and SIGKILL two seconds later.
func (n *Nest) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", gate, "sh", path}, args...)...)
	cmd.Dir = n.dir
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	if _, err := exec.LookPath(path); err != nil {
		cmd.Err = err // Start returns it
	}
	return cmd
}

// Run runs a command that Command has made. It returns when the process is gone,
// and what it has left of its group killed, and its output has been read, with
// what [exec.Cmd.Run] would return.
func (n *Nest) Run(cmd *exec.Cmd) error {
	// Linux kills the child when the thread dies that has forked it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	wait, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	cmd.Stdin = wait
	err = cmd.Start()
	wait.Close()
	if err != nil {
		return err
	}
	group := cmd.Process.Pid
	// If the watchdog is gone, the kernel still watches on Linux.
	fmt.Fprintf(n.leash, "run %d\n", group)
	io.WriteString(release, "go\n")
	err = cmd.Wait()
	// The number stays the group's while anything is left in it, and is not given
	// away so soon where nothing is.
	syscall.Kill(-group, syscall.SIGKILL)
	io.WriteString(n.leash, "ended\n")
	return err
}

// Close removes the directory and dismisses the watchdog. Nothing may be running
// any more. It is idempotent.
func (n *Nest) Close() error {
	n.closing.Do(func() {
		if err := os.RemoveAll(n.dir); err != nil {
			n.err = fmt.Errorf("child: %w", err)
		}
		n.dismiss()
	})
	return n.err
}

// dismiss ends the watchdog, with nothing left for it to do.
func (n *Nest) dismiss() {
	io.WriteString(n.leash, "done\n")
	n.leash.Close()
	n.dog.Wait()
}

// Inherit returns a file for [exec.Cmd].ExtraFiles that is the same socket as
// conn, which stays the caller's, as the file does. The program gets it in
// non-blocking mode.
func Inherit(conn syscall.Conn) (*os.File, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	fd := -1
	var dup error
	err = raw.Control(func(own uintptr) {
		// As a descriptor that is non-blocking when os gets it, it stays so:
		// one from the File method would be made blocking for the program, and
		// for the owner with it.
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, dup = syscall.Dup(int(own)); dup == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err = errors.Join(err, dup); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}
