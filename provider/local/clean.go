package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// lockName is the file that package daemon locks.
const lockName = "lock"

// leftovers are the files of a daemon that has ended and kept nothing. The token of
// revenant serve is none of them: its owner has given it to others.
var leftovers = []string{"revenant.db", "revenant.db-wal", "revenant.db-shm", lockName}

// clean takes away what a daemon that kept nothing has left, unless somebody has the
// directory again.
func clean(dir string) error {
	lock := flock.New(filepath.Join(dir, lockName))
	switch taken, err := lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case !taken:
		return nil
	}
	defer lock.Unlock()
	for _, name := range leftovers {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	// Only if nobody has left a report in it.
	os.Remove(filepath.Join(dir, ReportsName))
	return nil
}

// locked is whether the lock that this process has taken is still that of the
// directory: clean may have taken it away between the opening of the file and its
// locking.
func locked(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, lockName))
	return err == nil
}
