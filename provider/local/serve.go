package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/control/server"
)

// DefaultIdle is how long a daemon that keeps nothing waits for somebody who asks.
const DefaultIdle = 3 * time.Second

// The exit statuses of a program that calls Serve. [Daemon] reads them.
const (
	ExitOK     = 0
	ExitFailed = 1
	// ExitInUse is for an error that is [daemon.ErrInUse].
	ExitInUse = 3
)

// ServeConfig says how a daemon is.
type ServeConfig struct {
	_ struct{}

	// DataDir is what [CheckDataDir] returns. Required.
	DataDir string
	// Version is the program's.
	Version string
	// Idle is how long it stays when it keeps nothing and nobody asks. 0 is
	// [DefaultIdle].
	Idle time.Duration
	// Log is told what is done, and what goes wrong. nil: nobody.
	Log *slog.Logger
	// Runner runs the experiments. nil: the engine.
	Runner daemon.Runner
}

// Serve is a daemon, until ctx ends or there is nothing left for it to do. Its error
// is [daemon.ErrInUse] if somebody else has the directory.
func Serve(ctx context.Context, cfg ServeConfig) error {
	if cfg.Idle == 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	socket := filepath.Join(cfg.DataDir, SocketName)
	// Who answers there has the directory, whatever became of its lock.
	if answered(socket) {
		return fmt.Errorf("data directory %s %w: somebody answers at %s", cfg.DataDir, daemon.ErrInUse, socket)
	}
	d, err := daemon.Open(ctx, daemon.Config{DataDir: cfg.DataDir, Version: cfg.Version, Log: cfg.Log, Runner: cfg.Runner})
	if err != nil {
		return err
	}
	if !locked(cfg.DataDir) {
		return errors.Join(fmt.Errorf("data directory %s %w: its lock was taken away", cfg.DataDir, daemon.ErrInUse), d.Close())
	}
	s := &service{cfg: cfg, daemon: d, socket: socket}
	s.last = time.Now()
	if s.server, err = server.New(server.Config{Backend: &attended{d, s.touch}, Unix: true, Log: cfg.Log}); err != nil {
		return errors.Join(err, d.Close())
	}
	return s.run(ctx)
}

// service is a daemon with its way in.
type service struct {
	// Immutable after Serve.
	cfg    ServeConfig
	daemon *daemon.Daemon
	server *server.Server
	socket string

	mu   sync.Mutex
	last time.Time // when somebody asked
}

func (s *service) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// run serves until there is nothing more to do.
func (s *service) run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	over := make(chan error, 1)
	go func() { over <- s.daemon.Serve(ctx) }()

	idle := false
	var err error
	for err == nil && !idle && ctx.Err() == nil {
		if idle, err = s.session(ctx, over); err == nil && idle {
			// Nobody can reach it now, but somebody may have, in the last moment.
			idle = s.keepsNothing(ctx)
		}
	}
	halted := false
	if idle {
		info, failed := s.daemon.Info(ctx)
		halted = failed != nil || info.Halted
	}
	end()
	err = errors.Join(err, <-over)
	if err == nil && idle && !halted { // a halt is for whoever comes
		s.cfg.Log.Info("there is nothing left to do")
		err = clean(s.cfg.DataDir)
	}
	return err
}

// session serves at the socket until ctx ends, or there is nothing to do: then idle.
func (s *service) session(ctx context.Context, over chan error) (idle bool, err error) {
	l, err := listen(s.socket)
	if err != nil {
		return false, err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(ctx, l) }()
	ticks := time.NewTicker(s.cfg.Idle / 10)
	defer ticks.Stop()
	for !idle {
		select {
		case <-ticks.C:
			s.mu.Lock()
			quiet := time.Since(s.last) >= s.cfg.Idle
			s.mu.Unlock()
			idle = quiet && s.keepsNothing(ctx)
			continue
		case err = <-over: // it could not go on
			over <- nil
		case <-ctx.Done():
		}
		break
	}
	end()
	return idle, errors.Join(err, <-served)
}

// keepsNothing is whether there are no resources, so that there are no runs either.
func (s *service) keepsNothing(ctx context.Context) bool {
	info, err := s.daemon.Info(ctx)
	if err != nil || info.ActiveRuns > 0 {
		return false
	}
	for _, n := range info.Resources {
		if n > 0 {
			return false
		}
	}
	return true
}

// listen listens on a socket that this user alone can open: the directory keeps
// others out. The directory is this process's, so that a socket in it is a former
// daemon's.
func listen(socket string) (net.Listener, error) {
	found, err := os.Lstat(socket)
	if err == nil && found.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is no socket, want that place free for one: move it away", socket)
	}
	if err == nil {
		err = os.Remove(socket)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// answered is whether somebody listens at a socket.
func answered(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOTSOCK)
	}
	conn.Close()
	return true
}

// attended is a backend that says when somebody asks for what could be there.
type attended struct {
	control.Backend
	touch func()
}

func (a *attended) Info(ctx context.Context) (control.Info, error) {
	defer a.touch()
	a.touch()
	return a.Backend.Info(ctx)
}

func (a *attended) List(ctx context.Context, kind control.Kind) ([]control.Resource, error) {
	defer a.touch()
	a.touch()
	return a.Backend.List(ctx, kind)
}

func (a *attended) Get(ctx context.Context, kind control.Kind, name string) (control.Resource, error) {
	defer a.touch()
	a.touch()
	return a.Backend.Get(ctx, kind, name)
}

func (a *attended) Put(ctx context.Context, kind control.Kind, name string, seen int64, spec []byte) (control.Resource, bool, error) {
	defer a.touch()
	a.touch()
	return a.Backend.Put(ctx, kind, name, seen, spec)
}

func (a *attended) Delete(ctx context.Context, kind control.Kind, name string, seen int64) error {
	defer a.touch()
	a.touch()
	return a.Backend.Delete(ctx, kind, name, seen)
}
