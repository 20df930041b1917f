package demo

import (
	"fmt"
	"slices"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

var askCriteria = criteria{
	unplanned: unplannedAsk,
	harmless:  harmlessAsk,
	failures:  askFailures,
}

// codeStale is the code of the error by which the middleware fails a call.
const codeStale = -32001

// leastPrompts is how often the control arm has to ask one thing at least:
// less might be an accident, and is no loop.
const leastPrompts = 3

// leastReplays is how many replays of a request the middleware has to have seen
// before it can be expected to have found it stale: the first may be earlier than
// the answer, the second than the end of the grace.
const leastReplays = 4

func unplannedAsk(arm string, r *Recording) (reasons []string) {
	wrong := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	t := CountElicitation(r)
	ask := r.asked(0)
	prompts := r.promptsFor(ask)

	if r.Server.Dropped > 0 {
		wrong("has an incomplete record: %d entries are missing", r.Server.Dropped)
	}
	if slices.ContainsFunc(r.Prompts, func(p Prompt) bool { return p.Stamp == mcpserver.Stamp{} }) {
		wrong("was prompted with a request that the server had not stamped")
	}
	if len(r.Sessions) != 1 {
		wrong("began %d sessions, not one", len(r.Sessions))
	}
	switch {
	case len(prompts) == 0:
		wrong("was never prompted")
		return reasons
	case t.Cuts == 0:
		wrong("was not cut off by the load balancer")
		return reasons
	case !ask.Answered.IsZero():
		wrong("answered before the load balancer had cut the stream")
		return reasons
	case ask.Why != mcpserver.WhyBroken:
		wrong("has a server that still waits for the answer")
		return reasons
	case t.Dropped == 0:
		wrong("never answered")
	}
	switch {
	case t.Reconnects == 0:
		wrong("did not resume the stream")
	case t.SentAgain == 0:
		wrong("was not sent the request again")
	case arm == Control && t.SentAgain < leastPrompts-1, arm == Protected && t.Open && t.SentAgain < leastReplays:
		wrong("was sent the request again only %d times", t.SentAgain)
	}
	if again := r.asked(1); again.Why == mcpserver.WhyBroken && again.Answered.IsZero() {
		wrong("was too late with the answer to the call that it made anew")
	}
	return reasons
}

// harmlessAsk is what the control arm lacks of the failure.
func harmlessAsk(r *Recording) (reasons []string) {
	t := CountElicitation(r)
	if t.Prompts < leastPrompts {
		reasons = append(reasons, fmt.Sprintf("does not show the failure: the person was prompted %d times", t.Prompts))
	}
	if !t.Open {
		reasons = append(reasons, fmt.Sprintf("does not show the failure: its call ended: %v", t.outcome()))
	}
	if !t.Lives {
		reasons = append(reasons, "does not show the failure: its session does not work at the end")
	}
	return reasons
}

func askFailures(r *Recording) (reasons []string) {
	wrong := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	t := CountElicitation(r)
	if t.Prompts != 1 {
		wrong("shows the failure: the person was prompted %d times for one request", t.Prompts)
	}
	switch {
	case t.Open:
		wrong("shows the failure: its call was open at the end")
	case t.Code != codeStale:
		wrong("has a call that ended otherwise than with error %d: %s", codeStale, t.outcome())
	case t.Stale != 1:
		wrong("found the request stale %d times, not once", t.Stale)
	}
	if !t.Open {
		switch {
		case t.Anew != 1 || !t.Done:
			wrong("could not make the call anew")
		case t.AnewPrompts != 1:
			wrong("prompted the person %d times for the call that it made anew", t.AnewPrompts)
		}
	}
	if s, _ := r.session(0); !t.Lives || !s.Ended.IsZero() {
		wrong("has a session that does not work at the end")
	}
	return reasons
}

// outcome is what became of the call, in words.
func (t ElicitationTally) outcome() string {
	switch {
	case t.Open:
		return "open"
	case t.Err == nil:
		return "answered"
	case t.Code != 0:
		return fmt.Sprintf("failed with %d", t.Code)
	}
	return "failed, " + t.Err.Error()
}
