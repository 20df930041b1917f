package daemon

import (
	"slices"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func TestFeedIsBounded(t *testing.T) {
	f := newFeed(7)
	var steps []int
	for i := range 3 * maxEvents {
		e := control.RunEvent{State: control.Active, Phase: "method", Clock: float64(i)}
		if i%100 == 50 {
			e.Step = "a step"
		}
		e = f.add(e)
		if e.Step != "" || i == 0 {
			steps = append(steps, e.N)
		}
	}
	if len(f.events) > maxEvents {
		t.Errorf("it has %d events, want at most %d", len(f.events), maxEvents)
	}
	all, _, closed := f.after(0)
	if closed != nil || all[0].N != 8 || all[len(all)-1].N != 7+3*maxEvents {
		t.Errorf("its events are from %d to %d (%v), want from 8 to %d", all[0].N, all[len(all)-1].N, closed, 7+3*maxEvents)
	}
	var kept []int
	for _, e := range f.unstored() {
		kept = append(kept, e.N)
	}
	if !slices.Equal(kept, steps) {
		t.Errorf("worth keeping are %v, want the first and the steps, %v", kept, steps)
	}
	last := all[len(all)-1]
	if rest, _, _ := f.after(last.N - 3); len(rest) != 3 || rest[0].N != last.N-2 {
		t.Errorf("after all but 3 there are %+v, want 3", rest)
	}
	f.areStored(all)
	if rest := f.unstored(); len(rest) != 0 {
		t.Errorf("when all are stored there are %d to store", len(rest))
	}
}

func TestMilestonesAreBoundedToo(t *testing.T) {
	f := newFeed(0)
	for range 3 * maxEvents {
		f.add(control.RunEvent{Step: "a step"})
	}
	if len(f.events) > maxEvents || f.events[len(f.events)-1].N != 3*maxEvents {
		t.Errorf("it has %d events up to %d, want at most %d", len(f.events), f.events[len(f.events)-1].N, maxEvents)
	}
}
