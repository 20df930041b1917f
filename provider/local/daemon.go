package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// How long a start may take, and how often it is tried.
const (
	// startTime is for everything that the daemon kept before to be started again.
	startTime = 60 * time.Second
	// poll is between two looks at the socket of a daemon that starts, and rest
	// before the next one is started when somebody else has the directory.
	poll = 25 * time.Millisecond
	rest = 250 * time.Millisecond
	// maxLog is from which size on a log is put aside at a start.
	maxLog = 4 << 20
)

// Config says which daemon, and how to start it.
type Config struct {
	_ struct{}

	// DataDir is what [CheckDataDir] returns. Required.
	DataDir string
	// Program is started, with Args, when there is no daemon: it calls [Serve].
	// Required.
	Program string
	Args    []string
	// UserAgent is for the daemon's log.
	UserAgent string
	// Started is told of a daemon that was started, by its process. nil: nobody.
	Started func(ctx context.Context, pid int)
}

// Daemon is the daemon of a data directory, as a [control.Backend]. It is started
// when something is asked of it and it is not there, at first or later. Its methods
// may be called from any goroutine.
type Daemon struct {
	// Immutable after New.
	cfg    Config
	client *control.Client

	starting sync.Mutex  // held by who looks for the daemon
	met      atomic.Bool // it was there once, and is understood
}

// New returns a Daemon, and starts nothing yet.
func New(cfg Config) (*Daemon, error) {
	if cfg.DataDir == "" || cfg.Program == "" {
		return nil, errors.New("local: DataDir or Program is empty, want both")
	}
	client, err := control.New(control.ClientConfig{Socket: filepath.Join(cfg.DataDir, SocketName), UserAgent: cfg.UserAgent})
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return &Daemon{cfg: cfg, client: client}, nil
}

// DataDir is the data directory.
func (d *Daemon) DataDir() string { return d.cfg.DataDir }

// Close ends connections that nobody uses. The daemon goes on.
func (d *Daemon) Close() { d.client.Close() }

// Ensure returns what the daemon says of itself, and starts it if there is none. One
// that speaks another version of the API is an error that says what to do.
func (d *Daemon) Ensure(ctx context.Context) (control.Info, error) {
	d.starting.Lock()
	defer d.starting.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no daemon was ready within %v: its log is %s", startTime, d.log()))
	defer cancel()
	var child *process
	var next time.Time // when another may be started
	for {
		info, err := d.client.Handshake(ctx)
		if err == nil || !absent(err) {
			d.met.Store(err == nil)
			return info, d.explain(ctx, err)
		}
		if child == nil && !time.Now().Before(next) {
			if child, err = d.start(); err != nil {
				return control.Info{}, err
			}
			if d.cfg.Started != nil {
				d.cfg.Started(ctx, child.pid)
			}
		}
		pause := time.NewTimer(poll)
		var ended chan struct{}
		if child != nil {
			ended = child.ended
		}
		select {
		case <-pause.C:
		case <-ended:
			if child.status != ExitInUse {
				return control.Info{}, fmt.Errorf("the daemon ended with status %d as it was started: %s", child.status, d.lastWords())
			}
			// Another one is about to be ready, or about to end.
			child, next = nil, time.Now().Add(rest)
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return control.Info{}, context.Cause(ctx)
		}
	}
}

// explain has an error say where the log is, and how to come by another daemon.
func (d *Daemon) explain(ctx context.Context, err error) error {
	var version *control.VersionError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &version):
		return fmt.Errorf("%w; what it keeps is restored by the next one: kill %d, or set another data_dir", err, version.Info.PID)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; the daemon's log is %s", err, d.log())
}

// absent is whether an error says that nobody serves: no socket, one that a daemon
// left behind, or one that is about to go.
func absent(err error) bool {
	if p := (*control.Problem)(nil); errors.As(err, &p) {
		return p.Type == control.Unavailable
	}
	for _, gone := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

// process is a daemon that was started.
type process struct {
	pid    int
	ended  chan struct{} // closed when it has ended
	status int           // readable then
}

// start starts a process that outlives this one.
func (d *Daemon) start() (*process, error) {
	if err := os.MkdirAll(d.cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if found, err := os.Stat(d.log()); err == nil && found.Size() > maxLog {
		// Who has it open goes on in it.
		if err := os.Rename(d.log(), d.log()+".old"); err != nil {
			return nil, fmt.Errorf("the daemon's log: %w", err)
		}
	}
	log, err := os.OpenFile(d.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the daemon's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(d.cfg.Program, d.cfg.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = d.cfg.DataDir
	cmd.Env = environment(os.Environ())
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the daemon cannot be started: %w", err)
	}
	p := &process{pid: cmd.Process.Pid, ended: make(chan struct{})}
	go func() { // else it stays a zombie as long as this process lives
		cmd.Wait()
		p.status = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	return p, nil
}

// environment is what a daemon gets of a provider's: neither what Terraform says to
// its plugins, nor secrets that it does not need.
func environment(of []string) []string {
	var kept []string
	for _, entry := range of {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "TF_") || strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "REVENANT_") {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

func (d *Daemon) log() string { return filepath.Join(d.cfg.DataDir, LogName) }

// lastWords is the end of the log, and where it is.
func (d *Daemon) lastWords() string {
	const lines = 5
	where := "its log is " + d.log()
	data, err := os.ReadFile(d.log())
	if err != nil {
		return where
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return where + ", and ends with\n" + strings.Join(all[max(0, len(all)-lines):], "\n")
}
