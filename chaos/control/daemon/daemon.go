package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon/internal/store"
)

// startSlots is how many servers and load balancers are about to start at once.
// A program's check of its configuration takes a processor for a while.
const startSlots = 8

// Daemon is a [control.Backend] with a data directory. Make one with [Open], and
// call Serve: until that has started what there is to start, the methods of the API
// wait.
type Daemon struct {
	// Immutable after Open.
	cfg     Config
	folder  *folder
	store   *store.Store
	started time.Time
	slots   chan struct{} // of keepers
	ready   chan struct{} // closed by Serve
	over    chan struct{} // closed when everything has ended
	life    context.Context
	end     context.CancelCauseFunc

	claimed atomic.Bool // by Serve, or by a Close that came first
	turns   turns

	mu        sync.RWMutex
	resources map[key]*resource
	closing   bool
	calls     sync.WaitGroup // of the API; grows only if !closing

	// runs are those that are not over, and those that are and could not be stored
	// as such, by their ids.
	runs   map[string]*execution
	queue  []*execution
	queued chan struct{} // has room for one; there is something in queue

	halted     bool
	haltReason string
}

var _ control.Backend = (*Daemon)(nil)

var errClosing = errors.New("the daemon was stopped")

// Open locks the data directory, which it makes if there is none, and reads what
// there is. It starts nothing. The caller calls Serve or Close.
//
// An error wraps [ErrInUse] if another daemon has the directory.
func Open(ctx context.Context, cfg Config) (*Daemon, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	folder, err := openFolder(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		cfg: cfg, folder: folder, started: time.Now().UTC(),
		slots: make(chan struct{}, startSlots), ready: make(chan struct{}), over: make(chan struct{}), queued: make(chan struct{}, 1),
		turns: turns{taken: make(map[key]chan struct{})}, resources: make(map[key]*resource), runs: make(map[string]*execution),
	}
	d.life, d.end = context.WithCancelCause(context.Background())
	if d.store, err = store.Open(ctx, folder.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: %w", err), folder.close())
	}
	err = d.loadResources(ctx)
	if err == nil {
		err = d.loadRuns(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("daemon: %w", err), d.store.Close(), folder.close())
	}
	return d, nil
}

// Ready returns a channel that is closed when all that was there has been started,
// and runs or has failed.
func (d *Daemon) Ready() <-chan struct{} { return d.ready }

// Serve starts everything and keeps it running until ctx ends. Then it interrupts
// what runs, waits until all is undone and stopped, and returns nil. It works once.
func (d *Daemon) Serve(ctx context.Context) error {
	if !d.claimed.CompareAndSwap(false, true) {
		return errors.New("daemon: Serve was called before, or Close")
	}
	defer close(d.over)
	defer context.AfterFunc(ctx, func() { d.end(errClosing) })()

	d.startAll(d.life)
	if d.life.Err() == nil {
		d.cfg.Log.Info("the daemon is ready", "data_dir", d.folder.dir, "pid", os.Getpid())
		close(d.ready)
	}
	var workers sync.WaitGroup
	for range d.cfg.Concurrency {
		workers.Go(d.work)
	}
	<-d.life.Done()

	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	workers.Wait()
	d.calls.Wait()
	d.leaveRuns()
	d.stopAll()
	d.cfg.Log.Info("the daemon has ended")
	return d.release()
}

// Close ends a daemon that runs, and waits for it; one that never ran gives up its
// directory. It may be called again.
func (d *Daemon) Close() error {
	d.end(errClosing)
	if d.claimed.CompareAndSwap(false, true) {
		defer close(d.over)
		return d.release()
	}
	<-d.over
	return nil
}

func (d *Daemon) release() error {
	return errors.Join(d.store.Close(), d.folder.close())
}

// enter lets a call of the API in, which calls d.calls.Done at its end. It waits
// until the daemon is ready.
func (d *Daemon) enter(ctx context.Context) error {
	select {
	case <-d.ready:
	case <-d.life.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing || d.life.Err() != nil {
		return unavailable()
	}
	d.calls.Add(1)
	return nil
}

func unavailable() error {
	return control.NewProblem(control.Unavailable, "the daemon is about to end")
}

// Info implements [control.Backend].
func (d *Daemon) Info(ctx context.Context) (control.Info, error) {
	if err := d.enter(ctx); err != nil {
		return control.Info{}, err
	}
	defer d.calls.Done()
	return d.info(), nil
}

func (d *Daemon) info() control.Info {
	i := control.Info{
		Version: d.cfg.Version, API: control.API, PID: os.Getpid(), DataDir: d.folder.dir, Started: d.started,
		Resources: make(map[control.Kind]int),
	}
	for _, kind := range control.Kinds() {
		i.Resources[kind] = 0
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	i.Halted, i.HaltReason = d.halted, d.haltReason
	for k := range d.resources {
		i.Resources[k.kind]++
	}
	for _, e := range d.runs {
		if e.get().State == control.Active {
			i.ActiveRuns++
		}
	}
	return i
}

// storing is an error of the store for the API.
func (d *Daemon) storing(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	d.cfg.Log.Error("cannot store", "error", err)
	what := "it is in the log"
	for _, known := range []error{store.ErrFull, store.ErrUnwritable, store.ErrDamaged} {
		if errors.Is(err, known) {
			what = fmt.Sprintf("%s: %v", d.folder.dir, known)
		}
	}
	return control.NewProblem(control.Internal, "nothing was stored, and nothing has changed: %s", what)
}
