package demo

import "fmt"

func (e *ElicitationReport) show(s *Screen) {
	c, p := e.Arms.Control, e.Arms.Protected
	s.number("Reconnects of the call's stream", c.Reconnects, p.Reconnects)
	s.number("Prompts for one request", c.Prompts, p.Prompts)
	s.number("  answers for which nobody waited", c.AnswersDropped, p.AnswersDropped)
	s.row("The call", c.Call.words(), p.Call.words())
	s.row("  so long after it began", c.Call.after(), p.Call.after())
	s.row("The call, made anew", c.CallAnew.words(), p.CallAnew.words())
	if !c.Call.Ended && c.SessionWorks {
		s.note(stillOpen)
	}

	s.heading("What the application was told")
	s.told(Control, orNothing(c.Call.Error), c.SessionID)
	s.told(Protected, orNothing(p.Call.Error), p.SessionID)
}

func (c CallReport) words() string {
	switch {
	case !c.Ended:
		return "open"
	case c.Error == nil:
		return "answered"
	case c.ErrorCode != 0:
		return fmt.Sprintf("failed: %d", c.ErrorCode)
	}
	return "failed"
}

func (c CallReport) after() string { return lasted(c.AfterRecordMS, c.AfterMS) }

func (c *CallAnewReport) words() string {
	switch {
	case c == nil:
		return "-"
	case c.Answered && c.Prompts == 1:
		return "answered, 1 prompt"
	case c.Answered:
		return fmt.Sprintf("answered, %d prompts", c.Prompts)
	}
	return "failed"
}

const stillOpen = "The session lives in both arms, so a probe alone would help neither: it is the request that is dead. The " +
	"record ends here, the control arm does not: the person is asked at every reconnect until the client gives its whole " +
	"session up, which go-sdk does when six in a row have brought nothing new."

func (e *ElicitationReport) meaning() string {
	return "A request that is replayed says that the log has it, not that anybody waits for the answer: without the " +
		"middleware the person confirmed the same thing again and again, and the call never came to an end. With it, the " +
		"person was asked once, the call failed once, and the application made it anew."
}
