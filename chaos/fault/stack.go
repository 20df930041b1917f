package fault

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// ErrStackClosed says that a [Stack] has been closed, or is being closed.
var ErrStackClosed = errors.New("fault: the stack is closed")

// Stack keeps the undos of a run and calls all of them, the last first, when it
// is closed or its context ends, whichever comes first. Make one with
// [NewStack], and defer its Close: that runs after a panic too. For a signal
// give it a context of [os/signal.NotifyContext]. Its methods may be called from
// any goroutine.
type Stack struct {
	ctx context.Context // ends when the stack closes
	end context.CancelCauseFunc

	once sync.Once
	err  error // of Close; written within once

	mu       sync.Mutex
	stop     func() bool // takes Close back from the end of the owner's context
	closed   bool
	applying sync.WaitGroup // Add only while !closed, under mu
	applied  []*applied     // in the order in which they were put in force
}

// applied is one undo.
type applied struct {
	what string
	undo func() error
}

// NewStack returns an empty Stack that closes itself when ctx ends. Its owner
// calls Close in any case, and gets the errors there.
func NewStack(ctx context.Context) *Stack {
	s := new(Stack)
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.mu.Lock() // ctx may have ended already
	defer s.mu.Unlock()
	s.stop = context.AfterFunc(ctx, func() { s.Close() })
	return s
}

// Apply is [Fault.Apply], and keeps the undo: it is called by Close at the
// latest, and by the caller before that if the fault is to end earlier. When the
// Stack closes meanwhile, Apply returns an error that wraps [ErrStackClosed] or
// the cause of its context's end, and f is not in force.
func (s *Stack) Apply(ctx context.Context, f Fault, target Target) (undo func() error, err error) {
	if !s.begin() {
		return nil, fmt.Errorf("fault: %v: %w", f, ErrStackClosed)
	}
	defer s.applying.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()

	takeBack, err := f.Apply(ctx, target)
	if err != nil {
		return nil, err
	}
	undo = s.push(f.String(), takeBack)
	if s.ctx.Err() != nil {
		return nil, errors.Join(fmt.Errorf("fault: %v: %w", f, context.Cause(s.ctx)), undo())
	}
	return undo, nil
}

// Push keeps an undo that comes from elsewhere; what names it in errors. The
// undo that it returns calls that one once, and returns what it returned, or an
// error that says how it panicked. If the Stack is closed already, Push calls it
// before it returns, and returns an error that wraps [ErrStackClosed].
func (s *Stack) Push(what string, undo func() error) (func() error, error) {
	if !s.begin() {
		once := guard(what, undo)
		return once, errors.Join(fmt.Errorf("fault: %s: %w", what, ErrStackClosed), once())
	}
	defer s.applying.Done()
	return s.push(what, undo), nil
}

func (s *Stack) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.applying.Add(1)
	return true
}

// push is called between begin and applying.Done, so that Close waits for it.
func (s *Stack) push(what string, undo func() error) func() error {
	a := &applied{what: what, undo: guard(what, undo)}
	s.mu.Lock()
	s.applied = append(s.applied, a)
	s.mu.Unlock()
	return func() error {
		err := a.undo()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.applied = slices.DeleteFunc(s.applied, func(b *applied) bool { return a == b })
		return err
	}
}

// guard makes undo one that runs once and does not panic.
func guard(what string, undo func() error) func() error {
	return sync.OnceValue(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("fault: undo of %s panicked: %v\n%s", what, p, debug.Stack())
			}
		}()
		return undo()
	})
}

// InForce returns the faults whose undo has not been called, in the order in
// which they were applied, each as its String.
func (s *Stack) InForce() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, len(s.applied))
	for i, a := range s.applied {
		all[i] = a.what
	}
	return all
}

// Close waits for the calls of Apply under way, having cancelled them, undoes
// everything that is in force, the last first, and returns all errors, joined.
// An undo that fails or panics does not keep the others from running. Every call
// returns when all is undone, and returns the same.
func (s *Stack) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.stop()
		s.closed = true
		s.mu.Unlock()
		s.end(ErrStackClosed)
		s.applying.Wait()

		s.mu.Lock()
		all := slices.Clone(s.applied) // an undo removes itself
		s.mu.Unlock()
		var errs []error
		for _, a := range slices.Backward(all) {
			errs = append(errs, a.undo())
		}
		s.mu.Lock()
		s.applied = nil
		s.mu.Unlock()
		s.err = errors.Join(errs...)
	})
	return s.err
}
