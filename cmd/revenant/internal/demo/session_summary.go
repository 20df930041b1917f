package demo

import "fmt"

func (r *SessionReport) show(s *Screen) {
	control, protected := r.Arms.Control, r.Arms.Protected
	s.number("Events of a dead session applied", control.DeadSessionEventsApplied, protected.DeadSessionEventsApplied)
	for i := range control.Parts {
		c, p := control.Parts[i], protected.Parts[i]
		s.row(fmt.Sprintf("Part %d: the death was noticed", c.Part), c.NoticedAt.words(), p.NoticedAt.words())
		s.row("  so long after it", after(c), after(p))
		s.number("  requests sent to the dead session", c.RequestsToDeadSession, p.RequestsToDeadSession)
		s.number("  of these after it was noticed", c.RequestsAfterNoticed, p.RequestsAfterNoticed)
	}
	s.note(alikeOnPurpose)

	for i := range control.Parts {
		c, p := control.Parts[i], protected.Parts[i]
		s.heading(fmt.Sprintf("What the application was told in part %d", c.Part))
		s.told(Control, orNothing(c.Error), c.SessionID)
		s.told(Protected, orNothing(p.Error), p.SessionID)
		if p.SessionError != nil {
			s.told("  and", "t.SessionErr(id): "+*p.SessionError, p.SessionID)
		}
	}
}

func after(p PartReport) string {
	if p.NoticedAfterMS == nil {
		return "-"
	}
	return lasted(*p.NoticedAfterRecordMS, *p.NoticedAfterMS)
}

const alikeOnPurpose = "Part 1 is alike in both arms: nothing passes on the wire between the expiry and the tool call, so nothing " +
	"could have told either client sooner. No retry reaches the server because go-sdk gives a session up at its first 404; " +
	"clients that do not are stopped by the middleware's fence."

func (r *SessionReport) meaning() string {
	return "A replay proves that the log lives, not that the session does: without the middleware the application acted on " +
		"what a dead session had left behind, and a tool call took the blame. With it, the application was given none " +
		"of that and was told at the reconnect."
}
