package daemon

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

const (
	// The pause before what has failed is started again doubles from the one to the
	// other. What had run for the longest pause begins with the shortest again.
	shortestPause = 100 * time.Millisecond
	longestPause  = 10 * time.Second
	// patience is how long a port may be taken at a daemon's start: by what the one
	// before has left behind, which is about to go.
	patience = 2 * time.Second
)

// thing is what a keeper keeps running. run serves until ctx ends, calls ready
// when it does, and has closed its listeners when it returns.
type thing interface {
	run(ctx context.Context, ready func()) error
}

// keeper keeps one thing running on its addresses.
type keeper struct {
	// Immutable after newKeeper.
	log   *slog.Logger
	addrs []string
	// build makes the thing. What it returns has the listeners, and otherwise they
	// are the keeper's.
	build func([]net.Listener) (thing, error)
	// slots bounds how many are about to start at once.
	slots   chan struct{}
	patient bool
	poked   chan struct{} // with room for one
	cancel  context.CancelFunc
	done    chan struct{} // closed by loop

	// Owned by loop.
	held map[string]net.Listener // for the first attempt, by address

	mu      sync.Mutex
	state   control.State
	reason  string
	settled chan struct{} // closed when state is that of the present attempt
}

// newKeeper makes a keeper that is not started.
func newKeeper(log *slog.Logger, slots chan struct{}, addrs []string, held map[string]net.Listener, build func([]net.Listener) (thing, error)) *keeper {
	return &keeper{
		log: log, slots: slots, addrs: addrs, held: held, build: build,
		poked: make(chan struct{}, 1), done: make(chan struct{}), settled: make(chan struct{}),
		cancel: func() {},
	}
}

// start starts it. It runs until ctx ends or stop is called.
func (k *keeper) start(ctx context.Context) {
	ctx, k.cancel = context.WithCancel(ctx)
	go k.loop(ctx)
}

// stop ends it, and waits until its addresses are free.
func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// wait returns the state, when there is one.
func (k *keeper) wait(ctx context.Context) (control.State, string, error) {
	for {
		k.mu.Lock()
		settled, state, reason := k.settled, k.state, k.reason
		k.mu.Unlock()
		select {
		case <-settled:
			return state, reason, nil
		default:
		}
		select {
		case <-settled:
		case <-k.done:
			return control.Failed, "it is stopped", nil
		case <-ctx.Done():
			return "", "", context.Cause(ctx)
		}
	}
}

// retry starts at once what has failed. wait then waits for what becomes of that.
func (k *keeper) retry() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != control.Failed {
		return
	}
	select {
	case <-k.settled:
		k.settled = make(chan struct{})
	default:
	}
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

func (k *keeper) settle(state control.State, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state, k.reason = state, reason
	select {
	case <-k.settled:
	default:
		close(k.settled)
	}
}

func (k *keeper) loop(ctx context.Context) {
	defer close(k.done)
	defer func() { closeAll(slices.Collect(maps.Values(k.held))) }()
	began, pause := time.Now(), shortestPause
	for {
		var running time.Time
		err := k.attempt(ctx, func() {
			running = time.Now()
			k.settle(control.Running, "")
			k.log.Info("runs", "addrs", k.addrs)
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		waiting := k.patient && errors.Is(err, syscall.EADDRINUSE) && time.Since(began) < patience
		if !waiting {
			k.patient = false
			k.settle(control.Failed, err.Error())
			k.log.Warn("has failed", "reason", err)
		}
		if !running.IsZero() && time.Since(running) >= longestPause || waiting {
			pause = shortestPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-k.poked:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// attempt runs the thing once.
func (k *keeper) attempt(ctx context.Context, ready func()) error {
	select {
	case k.slots <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	free := sync.OnceFunc(func() { <-k.slots })
	defer free()
	var listeners []net.Listener
	for _, addr := range k.addrs {
		l, held := k.held[addr]
		delete(k.held, addr)
		if !held {
			var err error
			if l, err = net.Listen("tcp", addr); err != nil {
				closeAll(listeners)
				return err
			}
		}
		listeners = append(listeners, l)
	}
	t, err := k.build(listeners)
	if err != nil {
		closeAll(listeners)
		return err
	}
	return t.run(ctx, func() { free(); ready() })
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}
