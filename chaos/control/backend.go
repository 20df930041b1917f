package control

import (
	"context"
	"io"
)

// Backend is what the API does: the daemon behind the handlers. Its errors that
// are somebody else's fault are *[Problem]. Its methods may be called from any
// goroutine.
type Backend interface {
	Info(ctx context.Context) (Info, error)

	List(ctx context.Context, kind Kind) ([]Resource, error)
	Get(ctx context.Context, kind Kind, name string) (Resource, error)
	// Put creates a resource or changes its spec, and returns when that is stored
	// and, for what runs, runs or has failed. seen is the generation that the
	// caller has seen: 0 wants that there is none yet, -1 does not care. created is
	// whether there was none. To put the spec that is there already succeeds,
	// whatever seen is, and changes nothing.
	Put(ctx context.Context, kind Kind, name string, seen int64, spec []byte) (r Resource, created bool, err error)
	// Delete stops and removes a resource; seen as for Put, without 0. One that is
	// not there is a NotFound, and one that another refers to a Conflict.
	Delete(ctx context.Context, kind Kind, name string, seen int64) error

	// Start begins a run, or returns the one that was begun with the same key
	// before; key "" is nobody's.
	Start(ctx context.Context, experiment, key string, r RunRequest) (Run, error)
	// Runs are the latest first, at most limit; experiment "" is all.
	Runs(ctx context.Context, experiment string, limit int) ([]Run, error)
	Run(ctx context.Context, id string) (Run, error)
	// Cancel ends a run, which rolls back. To cancel one that is over is no error.
	Cancel(ctx context.Context, id string) (Run, error)
	// Events calls f for the events of a run after the n-th, those to come
	// included, until the run is over, ctx ends or f has an error, which it returns.
	Events(ctx context.Context, id string, after int, f func(RunEvent) error) error
	// Journal writes the journal of a run's n-th repeat, from 1, as JSON; Report its
	// page.
	Journal(ctx context.Context, id string, n int, w io.Writer) error
	Report(ctx context.Context, id string, n int, w io.Writer) error

	// Halt undoes every fault and ends every run, and refuses new ones until
	// Resume. It returns when that is done.
	Halt(ctx context.Context, reason string) (Info, error)
	Resume(ctx context.Context) (Info, error)
}
