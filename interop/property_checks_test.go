package interop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// This file is the invariants of DESIGN 4.6, checked against the model. Each
// check names what in the middleware keeps it, found by taking that away and
// watching the check fail.

// rule is one thing that must hold.
type rule int

const (
	noRule rule = iota
	panics
	replayWithoutLife
	noteWithoutLife
	fencedOnWire
	stillOnWire
	notTheServers
	foreignCursor
	outOfOrder
	askedTwice
	wrongFate
	wronglyFailed
	neverFailed
	answeredTwice
	refusalShown
	bytesDiffer
	eventsLost
	notesLost
	wrongEnd
	liveRefused
	cursorNotRestored
	cursorLost
	leaseExceeded
	tooSlow
	firstDelayed
	readTooSlow
	leftOpen
	leftRunning
	leftInFlight
	deadCosts
	heldTooMuch
)

var rules = map[rule]string{
	noRule:            "the model is broken",
	panics:            "the middleware panics",
	replayWithoutLife: "I1: a replayed event was applied, and no probe that came after the replay had opened was answered as life",
	noteWithoutLife:   "I1: a message of a probe's answer was applied, and no probe was answered as life",
	stillOnWire:       "I2: a client was told that its session is over while requests of it were on the wire",
	fencedOnWire:      "I2: a request of a fenced session has reached the wire",
	notTheServers:     "I4: the application was handed what the server did not send on this stream",
	foreignCursor:     "I4: the client was given the cursor of a probe's answer",
	outOfOrder:        "I4: events of one stream were lost, duplicated or reordered",
	askedTwice:        "I3: the application was asked twice, and the server did not say that it still waits",
	wrongFate:         "I3: a message was handed on, kept back or failed, and should not have been",
	wronglyFailed:     "I3: a call was failed that should not have been, or not so",
	neverFailed:       "I3: a call whose request is stale was never failed",
	answeredTwice:     "I3: a call got an error of the middleware's and the server's answer",
	refusalShown:      "I3: the client was not shown what it should have been in answer to its answers",
	bytesDiffer:       "I4: the bytes that were handed on are not the server's",
	eventsLost:        "I4: the body has ended and whole events were not handed on",
	notesLost:         "I4: a message of a probe's answer was not handed on",
	wrongEnd:          "I4: the body does not end as the server's did",
	liveRefused:       "I4: a live session of a healthy server was refused",
	cursorNotRestored: "I4: the middleware knew the cursor that a client had lost, and it did not reach the server",
	cursorLost:        "I4: a client without a verdict was not given its cursor back",
	leaseExceeded:     "I1: an event was applied after the lease on the session had run out",
	tooSlow:           "I5: a RoundTrip has taken longer than its budget",
	firstDelayed:      "I5: a request that is not a reconnect was delayed",
	readTooSlow:       "I5: a Read has taken longer than its budget",
	leftOpen:          "I6: an upstream body was not closed",
	leftRunning:       "I6: a goroutine has outlived its request",
	leftInFlight:      "I6: a request that is over is still kept as in flight",
	deadCosts:         "I7: a dead session costs the wire more than a GET for a stream and a probe",
	heldTooMuch:       "I8: more is held than Config allows",
}

// violation is a rule that was broken; the first one counts.
type violation struct {
	rule   rule
	detail string
}

// violate notes that a rule was broken. mu is held.
func (w *world) violate(r rule, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.notef("BROKEN %s: %s", rules[r], detail)
	if w.found == nil {
		w.found = &violation{rule: r, detail: detail}
	}
}

const (
	// grace is what may be added to any budget: waitGrace and emptyTimeout of
	// the middleware.
	grace = 250 * time.Millisecond
	// netBuffers is what net/http holds of a stream by itself: 4 KiB of the
	// client's reader, 4 KiB of the server's writer, 2 KiB of its chunk, and
	// the chunk sizes between.
	netBuffers = 12 << 10
	// slowest is how long the model network may keep an answer.
	slowest = 40 * time.Millisecond
	// drained is what the middleware reads of an answer that it is done with.
	drained = 64 << 10
	// maxSpin is for how long after a proof of life an empty replay may pass
	// without a probe, DESIGN 4.4.
	maxSpin = 30 * time.Second
)

// checkApplied is all that must hold of an event at the moment in which the
// application is handed it. mu is held.
func (w *world) checkApplied(tr *trip, ev *event) {
	if ev.s != tr.s || ev.st != nil && ev.st != tr.st {
		w.violate(notTheServers, "trip %d on %s was handed event %d of %s", tr.n, tr.s.id, ev.n, ev.s.id)
	}
	if ev.oversize {
		w.violate(heldTooMuch, "trip %d was handed event %d, of %d bytes", tr.n, ev.n, len(ev.raw))
	}
	if ev.st == nil {
		w.checkNote(tr, ev)
	} else {
		w.checkReplay(tr, ev)
	}
	w.checkLease(tr, ev)
	w.checkOrder(tr, ev)
}

// checkReplay is I1: what a reconnect replays reaches the application only
// after a probe was answered as life that arrived later than the replay had
// opened, at a server whose record was there.
//
// Kept by: reconnect.judge (release for Live alone), session.reconnects,
// Transport.join (never the running round), body.emptyWithin (nothing held),
// jsonRPCJudge.single (the probe's own id; result or −32601), Transport.judge
// (another session's name; any status but 200).
func (w *world) checkReplay(tr *trip, ev *event) {
	if tr.reconnect && (tr.ex == nil || !tr.s.provenSince(tr.ex.openedTick)) {
		w.violate(replayWithoutLife, "trip %d was handed event %d", tr.n, ev.n)
	}
}

// checkNote is I1, and I8, for what comes with a probe's answer: it waits for a
// probe that is answered as life, and is handed on once.
//
// Kept by: Transport.verdict (takeExtra for Live alone, which also empties).
func (w *world) checkNote(tr *trip, ev *event) {
	if ev.times++; ev.times > 1 {
		w.violate(outOfOrder, "note %d was handed on %d times", ev.n, ev.times)
	}
	if !tr.s.provenSince(ev.from.arrivedTick - 1) {
		w.violate(noteWithoutLife, "trip %d was handed note %d", tr.n, ev.n)
	}
	tr.noteBytes += len(ev.bare)
	w.checkNoteBytes(tr.s, len(ev.bare))
}

// checkOrder is I4 within one body.
//
// Kept by: body.release, body.fill, body.compactLocked (each byte once).
func (w *world) checkOrder(tr *trip, ev *event) {
	last := 0
	for _, n := range tr.appliedIn[:len(tr.appliedIn)-1] {
		if n == ev.n {
			w.violate(outOfOrder, "trip %d was handed event %d twice", tr.n, n)
		}
		if w.events[n].st != nil {
			last = n
		}
	}
	if ev.st != nil && ev.n < last {
		w.violate(outOfOrder, "trip %d was handed event %d after %d", tr.n, ev.n, last)
	}
}

// provenSince reports whether a probe that arrived after the given moment was
// answered as life.
func (s *session) provenSince(tick int) bool {
	for _, p := range s.probed {
		if p.live && p.arrivedTick > tick {
			return true
		}
	}
	return false
}

// checkLease is the lease of DESIGN 4.4: no event goes by that much after the
// last proof of life, or after the probe that renewed it. mu is held.
//
// Kept by: session.leaseExpired, body.renew (Ambiguous is not Live), body.pump
// (late: what it reads after the release), proof.check (a result, and not an
// error in a 200).
func (w *world) checkLease(tr *trip, ev *event) {
	if w.cfg.lease == 0 || tr.lag > 0 {
		return
	}
	if age := time.Since(tr.s.lastProof()); age > max(w.cfg.lease, w.cfg.timeout)+2*slowest {
		w.violate(leaseExceeded, "trip %d was handed event %d, the last proof is %v old", tr.n, ev.n, age)
	}
}

// lastProof is when the last request arrived that was answered as life.
func (s *session) lastProof() (latest time.Time) {
	for _, at := range s.proofs {
		if at.After(latest) {
			latest = at
		}
	}
	return latest
}

// checkWire is I2, at the border between middleware and network. mu is held.
//
// Kept by: Transport.lookup (the fence) together with Transport.begin (the
// session's dead), either of which alone holds for most; flight.roundTrip
// (dead, before each attempt of a GET); initializeWithout (the header goes);
// retire (dead is set); undecided (kill).
func (w *world) checkWire(tr *trip, req *http.Request) {
	if s := w.byID(req.Header.Get(sessionHeader)); s != nil && s.fencedTick != 0 {
		w.violate(fencedOnWire, "a %s of trip %d with the id of %s", req.Method, tr.n, s.id)
	}
}

// checkArrival is I2 at the server, where the last of it would show. mu is held.
func (w *world) checkArrival(ex *exchange) {
	if ex.s.fencedTick != 0 && ex.arrivedAt.After(ex.s.fencedAt) {
		w.violate(fencedOnWire, "a %s of trip %d has arrived", ex.what, ex.trip.n)
	}
}

// checkCursor is I4 for a GET: it comes with the client's cursor, and for a
// client that has lost it, with that of the last event that it has applied.
// mu is held.
//
// Kept by: Transport.reconnect (restored), body.handedOnLocked (what was read,
// not what was scanned), reconnect.putBack, session.streamForLocked.
func (w *world) checkCursor(ex *exchange) {
	tr := ex.trip
	as := ex.cursor == tr.cursor && (tr.cursor != "" || tr.mayBare)
	restored := tr.cursor == "" && (ex.cursor == tr.applied || tr.st.overlaps)
	if !as && !restored {
		w.violate(cursorNotRestored, "trip %d has arrived with the cursor %q, want %q", tr.n, ex.cursor, tr.applied)
	}
}

// checkTold is DESIGN 4.3, Dead: the terminal outcome comes after everything in
// flight for the session has returned. What is cancelled itself, or refused
// after the fence, is not the terminal outcome, and what a client has open when
// it ends the session is its own to close. mu is held.
//
// Kept by: kill (waitAll, cancel of victims and rounds), reconnect.over (waits
// for the kill), probeRounds (dead).
func (w *world) checkTold(tr *trip) {
	var e *middleware.SessionResumptionError
	if !errors.As(tr.own, &e) || e.Phase == middleware.PhaseFence || tr.err != nil && e.OutcomeUnknown || tr.s.ended {
		return
	}
	for p := range w.wire {
		if p.tr.s == tr.s {
			w.violate(stillOnWire, "trip %d was told so, trip %d is on the wire, a probe: %v", tr.n, p.tr.n, p.probe)
		}
	}
}

// checkRefused is I4 for a session that lives, on a server that is healthy:
// nobody is told otherwise. mu is held.
//
// Kept by: round.leave (a round that was left is not joined), jsonRPCJudge
// (−32601 is life; comments and other messages before the response),
// Transport.ordinary (404 and 410 alone).
func (w *world) checkRefused(tr *trip, err error) {
	if terminal(err) && !tr.s.faulty && tr.s.alive && !tr.s.ended {
		w.violate(liveRefused, "trip %d: %v", tr.n, err)
	}
}

// checkBody is I4 for one body that the server has filled: the client has read
// the server's bytes, but for a torn event at the end. mu is held.
//
// Kept by: body.release, pull, fill (late bytes, the rest of a read),
// compactLocked, endLocked (Torn, whole), hold (backpressure, no loss),
// insertLocked, reconnect.open (its timer does not outlive it).
func (w *world) checkBody(tr *trip) {
	if w.cfg.pending && tr.ex != nil {
		w.checkPendingBody(tr)
		return
	}
	got := bytes.Clone(tr.got)
	if tr.gaveUp() || terminal(tr.readErr) {
		got = got[:whole(got)] // it was in the middle of a whole event
	}
	for _, n := range tr.appliedIn {
		if ev := w.events[n]; ev.st == nil {
			if at := bytes.Index(got, ev.bare); at >= 0 {
				got = append(got[:at], got[at+len(ev.bare):]...)
			}
		}
	}
	ex := tr.ex
	if ex == nil {
		w.violate(notTheServers, "trip %d has a stream that the server did not send", tr.n)
		return
	}
	if !bytes.HasPrefix(ex.queued, got) {
		w.violate(bytesDiffer, "trip %d has read %q, the server wrote %q", tr.n, got, ex.queued)
		return
	}
	if tr.gaveUp() {
		return
	}
	if w.checkRefused(tr, tr.readErr); terminal(tr.readErr) {
		return
	}
	if rest := tornOf(got); rest != nil {
		w.violate(bytesDiffer, "trip %d was handed a torn event: %q", tr.n, rest)
	}
	torn, want := tornOf(ex.sent) != nil, len(ex.sent)
	if torn || ex.end != endsClean {
		want = whole(ex.sent)
	}
	if len(got) < want {
		w.violate(eventsLost, "trip %d has read %d of %d bytes, end %v: %v", tr.n, len(got), want, ex.end, tr.readErr)
	}
	if clean := errors.Is(tr.readErr, io.EOF); clean == (torn || ex.end == breaks) {
		w.violate(wrongEnd, "trip %d ends with %v, the server: %v, torn %v", tr.n, tr.readErr, ex.end, torn)
	}
}

// tornOf returns the torn event at the end of a stream, nil for none. An
// unfinished comment is none.
func tornOf(b []byte) []byte {
	if rest := b[whole(b):]; len(rest) > 0 && rest[0] != ':' {
		return rest
	}
	return nil
}

// checkStream is I4 over all reconnects: what the client has applied of a
// stream is the beginning of the server's log of it, in its order, nothing
// twice. all says that it must be the whole log.
//
// Kept by: body.release, body.handedOnLocked, reconnect.comeBack (the cursor).
func (w *world) checkStream(st *stream, all bool) {
	if st.overlaps || st.bare && st.s.history == afterCursor {
		return
	}
	var log []*event // but for what may be kept back
	for _, e := range st.log {
		if e.quiet() {
			log = append(log, e)
		}
	}
	at, last := 0, 0
	for _, n := range st.applied {
		if n <= last {
			w.violate(outOfOrder, "%s of %s: event %d was applied after %d", st.name, st.s.id, n, last)
		}
		last = n
		if w.events[n].id == "" {
			continue
		}
		if at == len(log) || log[at].n != n {
			w.violate(outOfOrder, "%s of %s: event %d was applied as number %d of the log", st.name, st.s.id, n, at)
			return
		}
		at++
	}
	if all && at < len(log) {
		w.violate(outOfOrder, "%s of %s: %d events of %d were applied", st.name, st.s.id, at, len(log))
	}
}

// checkNotesOf is I4 for what comes with the answer to a probe: where the
// session lives and nobody has left, it is handed on once.
//
// Kept by: Transport.verdict (takeExtra), session.keepExtra, body.insertLocked
// (not behind an unfinished comment), jsonRPCJudge.readSSE (a comment in pieces
// is no part of the next event).
func (w *world) checkNotesOf(s *session) {
	if !s.alive || s.faulty || s.abandoned > 0 || s.fencedTick != 0 {
		return
	}
	for _, ev := range w.events {
		if ev.s == s && ev.st == nil && ev.from != nil && ev.times != 1 {
			w.violate(notesLost, "note %d of %s was handed on %d times", ev.n, s.id, ev.times)
		}
	}
}
