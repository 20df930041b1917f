package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Finish shows what came of a run: the two arms side by side, what their
// applications were told, and what it means.
func (s *Screen) Finish(r *Report) {
	control, protected := r.Arms.Control, r.Arms.Protected
	s.out.print("\n" + s.bold("The two arms side by side") + "\n")
	row := func(label, c, p string) {
		s.out.print(strings.TrimRight(fmt.Sprintf("%-41s%-19s%s", label, c, p), " ") + "\n")
	}
	number := func(label string, c, p int) { row(label, strconv.Itoa(c), strconv.Itoa(p)) }
	row("", Control, Protected)
	number("Events of a dead session applied", control.DeadSessionEventsApplied, protected.DeadSessionEventsApplied)
	for i := range control.Parts {
		c, p := control.Parts[i], protected.Parts[i]
		row(fmt.Sprintf("Part %d: the death was noticed", c.Part), c.NoticedAt.words(), p.NoticedAt.words())
		row("  so long after it", after(c), after(p))
		number("  requests sent to the dead session", c.RequestsToDeadSession, p.RequestsToDeadSession)
		number("  of these after it was noticed", c.RequestsAfterNoticed, p.RequestsAfterNoticed)
	}
	s.out.print("\n" + wrap(alikeOnPurpose, width-1, ""))

	for i := range control.Parts {
		c, p := control.Parts[i], protected.Parts[i]
		s.out.print("\n" + s.bold(fmt.Sprintf("What the application was told in part %d", c.Part)) + "\n")
		s.told(Control, orNothing(c.Error), c.SessionID)
		s.told(Protected, orNothing(p.Error), p.SessionID)
		if p.SessionError != nil {
			s.told("  and", "t.SessionErr(id): "+*p.SessionError, p.SessionID)
		}
	}

	s.out.print("\n" + s.verdict(r))
}

func (s *Screen) told(who, text, sessionID string) {
	lines := wrapAtMost(3, abbreviate(text, sessionID), width-1, strings.Repeat(" ", 11))
	s.out.print(fmt.Sprintf("%-11s", who) + lines[11:])
}

func orNothing(text *string) string {
	if text == nil {
		return "nothing"
	}
	return *text
}

func after(p PartReport) string {
	if p.NoticedAfterMS == nil {
		return "-"
	}
	return fmt.Sprintf("%s min (%.2f s)", Minutes(time.Duration(*p.NoticedAfterRecordMS*float64(time.Millisecond))), *p.NoticedAfterMS/1000)
}

const alikeOnPurpose = "Part 1 is alike in both arms: nothing passes on the wire between the expiry and the tool call, so nothing " +
	"could have told either client sooner. No retry reaches the server because go-sdk gives a session up at its first 404; " +
	"clients that do not are stopped by the middleware's fence."

// dropIn is how to use the middleware.
const dropIn = `    t, err := middleware.New(middleware.Config{})
    client := &http.Client{Transport: t}
    &mcp.StreamableClientTransport{HTTPClient: client, Endpoint: url}
`

func (s *Screen) verdict(r *Report) string {
	if r.Verdict != Upheld {
		text := s.bold("Verdict: "+string(r.Verdict)) + "\n"
		for _, reason := range r.Reasons {
			text += wrap(reason, width-1, "  ")
		}
		return text
	}
	return s.bold("Verdict: upheld. The control arm shows the failure, the protected arm does not") + "\n" + wrap(
		"A replay proves that the log lives, not that the session does: without the middleware the application acted on "+
			"what a dead session had left behind, and a tool call took the blame. With it, the application was given none "+
			"of that and was told at the reconnect. Three lines do it in a client of yours, with the module "+
			"github.com/revenant-mcp/revenant/middleware:", width-1, "") +
		"\n" + dropIn + "\n" +
		"README.md says what happens then, and what the middleware cannot do.\n"
}
