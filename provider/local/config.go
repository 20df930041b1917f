package local

import (
	"errors"
	"fmt"
	"path/filepath"
)

// The files in the data directory that are not package daemon's.
const (
	// SocketName is where the daemon is asked, LogName what it has to say.
	SocketName = "revenant.sock"
	LogName    = "daemon.log"
	// ReportsName is the folder for what the provider writes.
	ReportsName = "reports"
)

// maxSocketPath is the longest path of a Unix socket that every system takes.
const maxSocketPath = 103

// DefaultDataDir is the data directory where none is named: revenant below
// $XDG_STATE_HOME, or below ~/.local/state.
func DefaultDataDir(getenv func(string) string) (string, error) {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification has such a one ignored
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("no data_dir is given, and neither XDG_STATE_HOME nor HOME is set")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "revenant"), nil
}

// CheckDataDir returns a data directory as an absolute path, or why it cannot be
// one.
func CheckDataDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if socket := filepath.Join(dir, SocketName); len(socket) > maxSocketPath {
		return "", fmt.Errorf("%q is too long: with the socket in it, it has %d characters, and a system takes no more than %d; give a shorter one",
			dir, len(socket), maxSocketPath)
	}
	return dir, nil
}
