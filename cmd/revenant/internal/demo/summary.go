package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// End shows what came of a record: the two arms side by side, what their
// applications were told, and what it means.
func (s *Screen) End(f *Findings) {
	s.quiet()
	s.heading("The two arms side by side")
	s.row("", Control, Protected)
	f.detail.show(s)
	if f.Outcome == Upheld {
		s.heading("Verdict: upheld. The control arm shows the failure, the protected arm does not")
		s.out.print(wrap(f.detail.meaning(), width-1, ""))
		return
	}
	s.heading("Verdict: " + string(f.Outcome))
	for _, reason := range f.Reasons {
		s.out.print(wrap(reason, width-1, "  "))
	}
}

// Finish ends the screen, after the last record.
func (s *Screen) Finish(r *Report) {
	if r.Verdict == Upheld {
		s.out.print("\n" + wrap("Three lines do it in a client of yours, with the module "+
			"github.com/revenant-mcp/revenant/middleware:", width-1, "") + "\n" + dropIn + "\n" +
			"README.md says what happens then, and what the middleware cannot do.\n")
	}
}

func (s *Screen) heading(text string) { s.out.print("\n" + s.bold(text) + "\n") }
func (s *Screen) note(text string)    { s.out.print("\n" + wrap(text, width-1, "")) }

func (s *Screen) row(label, control, protected string) {
	s.out.print(strings.TrimRight(fmt.Sprintf("%-41s%-19s%s", label, control, protected), " ") + "\n")
}

func (s *Screen) number(label string, control, protected int) {
	s.row(label, strconv.Itoa(control), strconv.Itoa(protected))
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

// lasted writes a length of time, in the record's time and really.
func lasted(recordMS, realMS float64) string {
	return fmt.Sprintf("%s min (%.2f s)", Minutes(time.Duration(recordMS*float64(time.Millisecond))), realMS/1000)
}

// dropIn is how to use the middleware.
const dropIn = `    t, err := middleware.New(middleware.Config{})
    client := &http.Client{Transport: t}
    &mcp.StreamableClientTransport{HTTPClient: client, Endpoint: url}
`
