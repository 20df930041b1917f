package interop_test

// This file is the checks of what the middleware costs: bodies, I6; requests
// for a dead session, I7; memory, I8.

// checkBodies is I6: every body of the network's was closed. mu is held.
//
// Kept by: body.discard and shut (closeUpstream), drain, and each Close in
// reconnect.open and Transport.ordinary. What is left running after that is
// found by the end of the bubble: body.pump (failed).
func (w *world) checkBodies() {
	for _, u := range w.bodies {
		if !u.closed {
			w.violate(leftOpen, "of trip %d, GET %v", u.tr.n, u.get)
		}
	}
}

// checkDead is I7: from the moment in which a session was lost for good, the
// server sees one GET for each stream that reconnects and one probe, whatever
// the client does. What the client gave up before it had an answer does not
// count, nor does an empty replay soon after a proof of life, which DESIGN 4.4
// lets pass.
//
// Kept by: reconnect.open (404 and 410 kill), Probe.dead and Transport.run (so
// does the probe's, without another attempt), fence, probeRounds (one round at
// a time, none of the dead), session.quietNow.
func (w *world) checkDead(s *session) {
	if !s.plain || s.diedTick == 0 {
		return
	}
	probes := 0
	gets := make(map[*stream]int)
	trips := make(map[*trip]int)
	for _, ex := range w.exchanges {
		if ex.s != s || ex.arrivedTick <= s.plainTick {
			continue
		}
		switch ex.what {
		case "probe":
			probes++
		case "get":
			ended := ex.end == endsClean || ex.end == breaks
			events := (&lineParser{}).feed(ex.queued)
			empty := ended && len(events) == 0 && tornOf(ex.queued) == nil && ex.arrivedAt.Sub(s.lastProof()) <= maxSpin
			if ex.trip.reconnect && !ex.trip.gaveUp() && !empty {
				trips[ex.trip]++
				if st := ex.trip.st; !st.overlaps {
					gets[st]++
				}
			}
		}
	}
	if probes > 1+s.abandoned {
		w.violate(deadCosts, "%s has cost %d probes, the client gave up %d times", s.id, probes, s.abandoned)
	}
	for st, n := range gets {
		if n > 1 {
			w.violate(deadCosts, "%s of %s has cost %d GETs", st.name, s.id, n)
		}
	}
	for tr, n := range trips {
		if n > 1 {
			w.violate(deadCosts, "trip %d has cost %d GETs", tr.n, n)
		}
	}
}

// checkHeld is I8, seen from below: what the middleware has read of a replay
// and not handed on, and of an answer to a probe. mu is held.
//
// Kept by: body.pump (MaxHeldBytes, room), Splitter.Max, readSSE (limit).
func (w *world) checkHeld(u *upstream) {
	switch tr := u.tr; {
	case u.probe:
		// What is drained so that the connection can be used again is not held.
		if u.read > w.cfg.maxHeld+4<<10+drained {
			w.violate(heldTooMuch, "%d bytes of the answer to a probe of trip %d were read", u.read, tr.n)
		}
	case !u.get:
	case tr.reconnect && !tr.returned:
		if u.read > w.cfg.maxHeld {
			w.violate(heldTooMuch, "trip %d holds %d bytes", tr.n, u.read)
		}
	case tr.sse && u.read-len(tr.got) > w.cfg.maxHeld+2*w.cfg.maxEvent+2*netBuffers:
		w.violate(heldTooMuch, "trip %d is %d bytes ahead of its reader", tr.n, u.read-len(tr.got))
	}
}

// checkAccepted is I8, seen from the server: how much of a replay it could
// write while that was held. mu is held.
//
// Kept by: what keeps checkHeld.
func (w *world) checkAccepted(ex *exchange) {
	if ex.what == "get" && ex.trip.reconnect && !ex.trip.returned && len(ex.sent) > w.cfg.maxHeld+netBuffers {
		w.violate(heldTooMuch, "the server has written %d bytes of the replay of trip %d", len(ex.sent), ex.trip.n)
	}
}

// checkNoteBytes is I8 for what comes with the answers to probes: it is kept
// until one of them is answered as life. mu is held.
//
// Kept by: session.keepExtra.
func (w *world) checkNoteBytes(s *session, size int) {
	var latest *exchange
	for _, p := range s.probed {
		if p.live {
			latest = p
		}
	}
	if latest != s.noted {
		s.noted, s.noteBytes = latest, 0
	}
	// 4 KiB is what the last read of an answer may exceed the limit by.
	if s.noteBytes += size; s.noteBytes > w.cfg.maxHeld+w.cfg.maxEvent+4<<10 {
		w.violate(heldTooMuch, "%d bytes of messages of probes' answers on %s", s.noteBytes, s.id)
	}
}
