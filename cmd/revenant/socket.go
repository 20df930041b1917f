package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// maxSocketPath is the longest path of a Unix socket on any system that there is.
const maxSocketPath = 103

// listenUnix listens on a socket that only this user can open. One that a daemon
// before has left behind is replaced; one that somebody answers at is not.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket %s: its path has %d characters, and a system takes no more than %d: give a shorter one with --socket", path, len(path), maxSocketPath)
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	// Until then the folder keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return l, nil
}

// privateDir makes a folder if there is none, and refuses one that others can
// enter.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("its folder has mode %04o, want 0700, so that only you can open it: chmod 700 %s", mode, dir)
	}
	return nil
}

// removeStale removes a socket at which nobody listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file of that name that is no socket: give another one with --socket")
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return errors.New("somebody answers there already: stop that daemon, or give another one with --socket")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
