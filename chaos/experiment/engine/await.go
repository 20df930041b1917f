package engine

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// awaitEvery is the time between two looks at the clients' streams.
const awaitEvery = time.Millisecond

// await waits until the clients are away or back, but no longer than until.
func (c *cell) await(ctx context.Context, when experiment.When, users []*user, until experiment.Duration) error {
	ctx, cancel := context.WithDeadlineCause(ctx, c.r.instant(until), &awaitError{c, when, until})
	defer cancel()
	watches := make([]*watch, len(users))
	for i, u := range users {
		watches[i] = &watch{u: u, calls: !c.r.d.Clients.Of(c.kind).Streams(), open: map[exchange]bool{}}
	}
	for {
		all := true
		for _, w := range watches {
			w.look()
			all = all && w.is(when)
		}
		if all {
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(awaitEvery)); err != nil {
			return err
		}
	}
}

// awaitError is that a cell's clients were not away, or not back, in time.
type awaitError struct {
	cell  *cell
	when  experiment.When
	until experiment.Duration
}

func (e *awaitError) Error() string {
	return fmt.Sprintf("not all clients were %s until T+%v", e.when, e.until)
}

// failed is whether that is the protected arm's failure: the control arm of the
// same kind of client has done the step.
func (e *awaitError) failed(r *run) bool {
	if e.cell.arm != experiment.Protected {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.steps {
		if len(a.fails) == 0 {
			continue
		}
		for c, succeeded := range a.ended {
			if succeeded && c.arm == experiment.Control && c.kind == e.cell.kind {
				return true
			}
		}
		return false
	}
	return false
}

// exchange names one of a log.
type exchange struct {
	layer client.Layer
	ref   int
}

// watch follows a client's streams in its log: the standalone one, and where there
// is none, those of its calls.
type watch struct {
	u     *user
	calls bool
	seen  int
	asked map[exchange]bool // requests that may get a stream
	open  map[exchange]bool // streams
	had   bool
}

func (w *watch) look() {
	if w.asked == nil {
		w.asked = map[exchange]bool{}
	}
	for _, r := range w.u.log.Since(w.seen) {
		w.seen = r.N
		x := exchange{r.Layer, r.Ref}
		switch r.Kind {
		case client.Asked:
			if r.HTTPMethod == http.MethodGet || w.calls && r.HTTPMethod == http.MethodPost && r.Method == "tools/call" {
				w.asked[x] = true
			}
		case client.Headed:
			if w.asked[x] && r.Status == http.StatusOK && strings.HasPrefix(r.ContentType, "text/event-stream") {
				w.open[x] = true
				w.had = true
			}
		case client.Over:
			delete(w.open, x)
			delete(w.asked, x)
		}
	}
}

// is whether the client is away, which is seen on the wire, or back, as it is seen
// by the client itself: a replay that is held has not come back.
func (w *watch) is(when experiment.When) bool {
	layer := client.Wire
	if when == experiment.WhenBack {
		layer = client.Edge
	}
	open := false
	for x := range w.open {
		open = open || x.layer == layer
	}
	return w.had && open == (when == experiment.WhenBack)
}
