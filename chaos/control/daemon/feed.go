package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// maxEvents is how many events of a run are kept in memory.
const maxEvents = 2000

// errOver closes the feed of a run that is over.
var errOver = errors.New("the run is over")

// feed is the news of a run that is not over, for any number of readers.
type feed struct {
	mu     sync.Mutex
	events []control.RunEvent
	last   int           // the number of the last event
	stored int           // up to which milestones are in the store
	closed error         // no more events come: errOver, or why
	news   chan struct{} // closed when anything of this changes
}

// newFeed makes one whose first event has the number after last. Up to it the
// events are in the store.
func newFeed(last int) *feed {
	return &feed{last: last, stored: last, news: make(chan struct{})}
}

// milestone is whether an event is kept when the run is over: it says more than
// what the clock shows.
func milestone(e, before control.RunEvent) bool {
	return e.Step != "" || e.State != before.State || e.Phase != before.Phase || e.Repeat != before.Repeat || e.Verdict != "" || e.Reason != ""
}

// add numbers an event and adds it.
func (f *feed) add(e control.RunEvent) control.RunEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e.N = f.last
	f.events = append(f.events, e)
	if len(f.events) > maxEvents {
		f.thin()
	}
	f.wakeLocked()
	return e
}

// thin drops of the older half what is no milestone, and all of it if that is not
// enough.
func (f *feed) thin() {
	half := len(f.events) / 2
	kept := milestones(f.events[:half])
	if len(kept) > half/2 {
		kept = nil
	}
	f.events = append(kept, f.events[half:]...)
}

func milestones(events []control.RunEvent) (kept []control.RunEvent) {
	var before control.RunEvent
	for _, e := range events {
		if milestone(e, before) {
			kept = append(kept, e)
		}
		before = e
	}
	return kept
}

// unstored are the milestones that are not in the store.
func (f *feed) unstored() []control.RunEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(milestones(f.events), func(e control.RunEvent) bool { return e.N <= f.stored })
}

// areStored says that events are in the store now.
func (f *feed) areStored(events []control.RunEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		f.stored = max(f.stored, e.N)
	}
}

// close says that no more events come.
func (f *feed) close(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed == nil {
		f.closed = why
		f.wakeLocked()
	}
}

func (f *feed) wakeLocked() {
	close(f.news)
	f.news = make(chan struct{})
}

// after returns the events after the n-th, what is closed when there are more, and
// why there will be none.
func (f *feed) after(n int) (events []control.RunEvent, news <-chan struct{}, closed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, _ := slices.BinarySearchFunc(f.events, n+1, func(e control.RunEvent, n int) int { return e.N - n })
	return slices.Clone(f.events[i:]), f.news, f.closed
}

// follow calls do for the events after the n-th, until there are no more. The error
// is nil when the run is over.
func (f *feed) follow(ctx context.Context, n int, do func(control.RunEvent) error) error {
	for {
		events, news, closed := f.after(n)
		for _, e := range events {
			if err := do(e); err != nil {
				return err
			}
			n = e.N
		}
		switch {
		case closed == errOver:
			return nil
		case closed != nil:
			return closed
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *feed) lastN() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}
