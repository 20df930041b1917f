package interop_test

import (
	"fmt"
	"time"
)

// This file is the checks of I5, and of I6 as far as it is a matter of time:
// what must have ended by now.

// checkReturn is I5 for a RoundTrip that has returned. mu is held.
//
// Kept by: reconnect.open (timer), Transport.verdict (its timer, the client's
// context, session.over), sleep (the context), kill (cancel of victims),
// emptyTimeout; and for what is not to be delayed, session.reconnects.
func (w *world) checkReturn(tr *trip) {
	if late := w.overdue(tr, tr.returnedAt); late != "" {
		w.violate(tooSlow, "trip %d returns %s", tr.n, late)
	}
	// A first GET, or any other request, takes as long as the server does.
	if tr.reconnect || tr.own != nil || !tr.givenUpAt.IsZero() {
		return
	}
	took, planned := tr.returnedAt.Sub(tr.startedAt), tr.planned()
	if took > planned {
		w.violate(firstDelayed, "trip %d, a %s, took %v, the server %v", tr.n, tr.what, took, planned)
	}
}

// planned is how long the server takes for its first answer to a request that
// is not a reconnect.
func (tr *trip) planned() time.Duration {
	if len(tr.plan) > 0 {
		return tr.plan[0].delay + tr.slow
	}
	return tr.call.delay + tr.slow
}

// hangs reports whether the server does not answer a request that is not a
// reconnect.
func (tr *trip) hangs() bool {
	return tr.call.hang || !tr.reconnect && len(tr.plan) > 0 && tr.plan[0].hang
}

// overdue says why a RoundTrip should have returned before now, "" if it should
// not. mu is held.
func (w *world) overdue(tr *trip, now time.Time) string {
	after := func(t time.Time, d time.Duration) bool { return now.Sub(t) > d+grace }
	switch {
	case !tr.givenUpAt.IsZero() && after(tr.givenUpAt, 0):
		return "long after its context"
	case tr.s.fencedTick != 0 && !tr.s.ended && tr.startTick < tr.s.fencedTick && after(tr.s.fencedAt, 0):
		return "long after its session's end"
	case tr.reconnect && after(tr.startedAt, 2*w.cfg.budget):
		return "after more than its budget"
	case !tr.reconnect && !tr.hangs() && after(tr.startedAt, tr.planned()):
		return "long after the server's answer"
	}
	return ""
}

// checkOpen is I5 for what has not ended yet, whenever nothing moves any more:
// RoundTrips that should have returned, and Reads that have something to give.
//
// Kept by: what keeps checkReturn; body.release and body.shut (Broadcast,
// closeUpstream), kill (cancel, fail), body.scanLocked (an event that is whole
// waits for nothing).
func (w *world) checkOpen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.checkProbes(now)
	w.checkDue()
	for _, tr := range w.trips {
		switch {
		case !tr.returned:
			if late := w.overdue(tr, now); late != "" {
				w.violate(tooSlow, "trip %d has not returned, %s", tr.n, late)
			}
		case tr.sse && !tr.over && tr.reading && tr.own == nil && tr.ex != nil:
			if late := w.stuck(tr, now); late != "" {
				w.violate(readTooSlow, "trip %d: %s", tr.n, late)
			}
		}
	}
}

// checkProbes is I6 for what the middleware sends by itself: a probe ends with
// the last request that wants its answer, and so does its body. mu is held.
//
// Kept by: round.leave (cancel), drain (its timer, Close).
func (w *world) checkProbes(now time.Time) {
	wanted := make(map[*session]bool)
	for _, tr := range w.trips {
		if tr.reconnect && !tr.returned || w.cfg.lease > 0 && tr.returned && !tr.finished {
			wanted[tr.s] = true
		}
	}
	for p := range w.wire {
		switch {
		case !p.probe || wanted[p.tr.s]:
			p.orphanAt = time.Time{}
		case p.orphanAt.IsZero():
			p.orphanAt = now
		case now.Sub(p.orphanAt) > grace:
			w.violate(leftRunning, "a probe of trip %d goes on, and nobody wants it", p.tr.n)
		}
	}
	for _, u := range w.bodies {
		if u.probe && !u.closed && now.Sub(u.openedAt) > w.cfg.budget+grace {
			w.violate(leftOpen, "the answer to a probe of trip %d since %v", u.tr.n, now.Sub(u.openedAt))
		}
	}
}

// stuck says why a Read should have returned before now. Without a lease, and
// on a healthy server, it returns in the moment in which there is something to
// return. mu is held.
func (w *world) stuck(tr *trip, now time.Time) string {
	slow := time.Duration(0)
	if tr.s.faulty {
		slow = slowest + time.Millisecond // for the end of its session, after an event that is too large
	}
	if w.cfg.lease > 0 {
		slow = w.cfg.budget + grace
	}
	after := func(t time.Time, d time.Duration) bool { return !t.IsZero() && now.Sub(t) > d }
	since := func(t time.Time) time.Duration { return min(now.Sub(t), now.Sub(tr.readsAt)) }
	ex := tr.ex
	switch {
	case after(tr.givenUpAt, grace):
		return "Read goes on after its context"
	case after(tr.closedAt, grace):
		return "Read goes on after Close"
	case tr.s.fencedTick != 0 && !tr.s.ended && after(tr.s.fencedAt, grace):
		return "Read goes on after its session's end"
	case tr.gaveUp():
		return ""
	case (ex.end == endsClean || ex.end == breaks) && since(ex.endedAt) >= slow:
		return "Read goes on after the server's end of the stream"
	}
	n := whole(ex.sent)
	if w.cfg.pending && len(tr.got)-tr.noteBytes != n {
		c, _ := w.compare(tr)
		switch {
		case c.ends() && tr.failedAt != (moment{}):
			if w.moment().at.Sub(tr.failedAt.at) > slow {
				return "Read goes on after its call was failed"
			}
			return ""
		case c.wrong == "" && skipped(ex.sent, c.used) >= n:
			return ""
		}
	}
	if len(tr.got)-tr.noteBytes < n && since(ex.lastAt) >= slow {
		return fmt.Sprintf("%d of %d bytes that may be handed on", len(tr.got)-tr.noteBytes, n)
	}
	return ""
}
