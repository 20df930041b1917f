package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// ErrInUse says that another daemon has the data directory.
var ErrInUse = errors.New("is in use")

// folder is a data directory that this process alone has.
type folder struct {
	dir  string
	lock *flock.Flock
}

// The files beside the database. The number of the process has a file of its own,
// because a lock keeps others from reading on some systems.
const (
	lockFile = "lock"
	pidFile  = "pid"
)

// openFolder makes the folder if there is none, and locks it.
func openFolder(dir string) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	if err := private(dir); err != nil {
		return nil, fmt.Errorf("daemon: data directory %s: %w", dir, err)
	}
	f := &folder{dir, flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))}
	switch locked, err := f.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("daemon: data directory %s: %w", dir, err)
	case !locked:
		return nil, fmt.Errorf("daemon: data directory %s %w by %s: stop that, or use another --data-dir", dir, ErrInUse, f.owner())
	}
	if err := os.WriteFile(filepath.Join(dir, pidFile), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: data directory: %w", err), f.lock.Unlock())
	}
	return f, nil
}

// owner says who has the folder.
func (f *folder) owner() string {
	text, err := os.ReadFile(filepath.Join(f.dir, pidFile))
	pid := strings.TrimSpace(string(text))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return "another daemon"
	}
	return "the daemon with pid " + pid
}

// close gives the folder up.
func (f *folder) close() error {
	return errors.Join(os.Remove(filepath.Join(f.dir, pidFile)), f.lock.Unlock())
}

// private sees to it that a folder is there and that nobody else can look into it.
// One that others can enter is theirs, too, for all that is known: it is changed
// only if there is nothing in it.
func private(dir string) error {
	found, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		found, err = os.Stat(dir)
	}
	switch {
	case err != nil:
		return err
	case !found.IsDir():
		return errors.New("it is no directory")
	case found.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows":
		return nil
	}
	inside, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(inside) > 0 {
		return fmt.Errorf("it has mode %04o, want 0700, so that only you can read it: chmod 700 %s", found.Mode().Perm(), dir)
	}
	return os.Chmod(dir, 0o700)
}
