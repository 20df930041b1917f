package demo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
)

func TestVerdictUpheld(t *testing.T) {
	if got := demo.SessionRecord.Judge(control(), protected()); got.Outcome != demo.Upheld || len(got.Reasons) != 0 || got.Unplanned {
		t.Errorf("Judge() = %+v, want upheld without a reason", got)
	}
}

func TestVerdictNamesTheArmThatIsOtherwise(t *testing.T) {
	same := func(make func() *demo.Recording) func() (c, p *demo.Recording) {
		return func() (c, p *demo.Recording) { return make(), make() }
	}
	for _, test := range []struct {
		name    string
		arms    func() (c, p *demo.Recording)
		outcome demo.Outcome
		reasons []string // how they begin, with "the ... arm"
	}{
		{"no failure anywhere", same(protected), demo.Inconclusive, []string{
			"the control arm does not show the failure: its application was given no event of a dead session",
			"the control arm does not show the failure: the death of part 2 was noticed at the reconnect",
		}},
		{"the failure in both", same(control), demo.Deviated, []string{
			"the protected arm shows the failure: its application was given 10 events of a dead session",
			"the protected arm shows the failure: the death of part 2 was noticed at a tool call",
			"the protected arm has no typed error for the death of part 1",
			"the protected arm has no typed error for the death of part 2",
		}},
		{"exchanged", func() (c, p *demo.Recording) { return protected(), control() }, demo.Deviated, []string{
			"the protected arm shows the failure", "the protected arm shows the failure",
			"the protected arm has no typed error", "the protected arm has no typed error",
			"the control arm does not show the failure", "the control arm does not show the failure",
		}},
	} {
		c, p := test.arms()
		checkVerdict(t, test.name, demo.SessionRecord.Judge(c, p), test.outcome, false, test.reasons...)
	}
}

func TestVerdictOnWhatTheProtectedArmMustNotDo(t *testing.T) {
	request := func(when float64, method, rpc, session string) func(*demo.Recording) {
		return func(r *demo.Recording) {
			r.Server.Requests = append(r.Server.Requests, mcpserver.Request{At: at(when), Method: method, RPC: rpc, SessionID: session, Status: 404})
		}
	}
	for _, test := range []struct {
		name   string
		change func(*demo.Recording)
		reason string
	}{
		{"one event", func(r *demo.Recording) {
			r.Applied = append(r.Applied, demo.Applied{Stamp: r.Server.Events[20].Stamp, At: at(39.01)})
		}, "shows the failure: its application was given 1 events"},
		{"an event of the first session, late", func(r *demo.Recording) {
			r.Applied = append(r.Applied, demo.Applied{Stamp: r.Applied[0].Stamp, At: at(40)})
		}, "shows the failure: its application was given 1 events"},
		{"no notice", func(r *demo.Recording) { r.Sessions[1].Err = nil }, "shows the failure: the death of part 2 was noticed not at all"},
		{"a lost event", func(r *demo.Recording) { r.Applied = slices.Delete(r.Applied, 1, 2) }, "got the events of the living session wrong: 1 lost"},
		{"a repeated event", func(r *demo.Recording) { r.Applied = slices.Insert(r.Applied, 2, r.Applied[1]) }, "got the events of the living session wrong: 0 lost, 1 repeated"},
		{"events out of order", func(r *demo.Recording) { r.Applied[1], r.Applied[2] = r.Applied[2], r.Applied[1] }, "got the events of the living session wrong: 0 lost, 0 repeated, 1 out of order"},
		{"a retry on the wire", request(33.001, http.MethodPost, "tools/call", "one"), "sent 2 requests to the dead session of part 1, more than 1"},
		{"a second probe", request(39.011, http.MethodPost, "ping", "two"), "sent 3 requests to the dead session of part 2, more than 2"},
		{"another plain error", func(r *demo.Recording) { r.Sessions[1].Err = errOther }, "was not told by its client that the session of part 2 is missing"},
		{"no typed error", func(r *demo.Recording) { r.Sessions[1].Reason = nil }, "has no typed error for the death of part 2"},
		{"another typed error", func(r *demo.Recording) { r.Calls[0].Reason = errOther }, "has no typed error for the death of part 1"},
		{"no new session", func(r *demo.Recording) { r.Sessions = r.Sessions[:2] }, "had no working session after part 2"},
		{"a new session that fails", func(r *demo.Recording) { r.Calls[len(r.Calls)-1].Err = errOther }, "had no working session after part 2"},
	} {
		p := protected()
		test.change(p)
		checkVerdict(t, test.name, demo.SessionRecord.Judge(control(), p), demo.Deviated, false, "the protected arm "+test.reason)
	}

	p := protected()
	request(40, http.MethodDelete, "", "two")(p)
	checkVerdict(t, "a DELETE", demo.SessionRecord.Judge(control(), p), demo.Deviated, false,
		"the protected arm sent 3 requests to the dead session of part 2",
		"the protected arm sent 1 requests to the dead session of part 2 after it had noticed",
		"the protected arm sent a DELETE to the dead session of part 2")
}

// What is measured is worth nothing where the run was another one.
func TestVerdictChecksItsAssumptions(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*demo.Recording)
		reason string
	}{
		{"an incomplete history", func(r *demo.Recording) { r.Server.Dropped = 3 }, "has an incomplete record: 3"},
		{"an event without a stamp", func(r *demo.Recording) { r.Applied = append(r.Applied, demo.Applied{At: at(7)}) }, "was handed an event that the server had not stamped"},
		{"one session", func(r *demo.Recording) { r.Sessions = r.Sessions[:1] }, "began 1 sessions"},
		{"no cut in part 1", func(r *demo.Recording) { r.Balancer = nil }, "was not cut off by the load balancer in part 1"},
		{"a cut by hand", func(r *demo.Recording) { r.Balancer[2].Err = lb.ErrCut }, "was not cut off by the load balancer in part 2"},
		{"a cut of another request", func(r *demo.Recording) { r.Balancer[2].Method = http.MethodPost }, "was not cut off by the load balancer in part 2"},
		{"no reconnect", func(r *demo.Recording) { r.Server.Requests[4].LastEventID = "" }, "did not reconnect with its cursor in part 2"},
		{"a reconnect of its own accord", func(r *demo.Recording) { r.Server.Requests[4].At = at(37) }, "reconnected in part 2 before the load balancer had cut the stream"},
		{"too little missed", func(r *demo.Recording) { r.Server.Events[2].At = at(6.5) }, "missed 1 events while it was away in part 1, not 2"},
		{"too much missed", func(r *demo.Recording) { r.Server.Events[3].At = at(5.5) }, "missed 3 events while it was away in part 1, not 2"},
		{"a server without the defect", func(r *demo.Recording) { r.Server.Requests[4].Status = 404 }, "was answered 404 to the reconnect of part 2, not 200"},
		{"no expiry", func(r *demo.Recording) {
			r.Server.Sessions[0].Died, r.Server.Sessions[0].Why = time.Time{}, ""
		}, "has a session that is alive at the end of part 1, not expired"},
		{"another death", func(r *demo.Recording) { r.Server.Sessions[1].Why = mcpserver.WhyDeleted }, "has a session that is deleted at the end of part 2, not reaped"},
		{"a death before the reconnect of part 1", func(r *demo.Recording) { r.Server.Sessions[0].Died = at(5.5) }, "reconnected in part 1 after its session had died"},
		{"a death after the reconnect of part 2", func(r *demo.Recording) { r.Server.Sessions[1].Died = at(39.5) }, "reconnected in part 2 before its session had died"},
		{"no call", func(r *demo.Recording) { r.Calls = r.Calls[4:] }, "called no tool in part 1"},
		{"a call too early", func(r *demo.Recording) { r.Calls[0].Start = at(30) }, "called the tool of part 1 before its session had died"},
		{"a call answered otherwise", func(r *demo.Recording) { r.Server.Requests[2].Status = 200 }, "was not answered 404 to the tool call of part 1"},
	} {
		for _, arm := range []string{demo.Control, demo.Protected} {
			c, p := control(), protected()
			r := map[string]*demo.Recording{demo.Control: c, demo.Protected: p}[arm]
			test.change(r)
			got := demo.SessionRecord.Judge(c, p)
			if got.Outcome != demo.Inconclusive || !got.Unplanned || len(got.Reasons) == 0 || !strings.HasPrefix(got.Reasons[0], "the "+arm+" arm "+test.reason) {
				t.Errorf("%s, in the %s arm: %+v, want inconclusive, unplanned, since it %s", test.name, arm, got, test.reason)
			}
		}
	}
}

// The events of a living session are the server's doing where there is no
// middleware.
func TestVerdictOnAControlArmThatGetsEventsWrong(t *testing.T) {
	c := control()
	c.Applied = slices.Insert(c.Applied, 2, c.Applied[1])
	checkVerdict(t, "a repeated event", demo.SessionRecord.Judge(c, protected()), demo.Inconclusive, true,
		"the control arm got the events of the living session wrong: 0 lost, 1 repeated")
}

func checkVerdict(t *testing.T, name string, got demo.Verdict, outcome demo.Outcome, unplanned bool, reasons ...string) {
	t.Helper()
	if got.Outcome != outcome || got.Unplanned != unplanned || !slices.EqualFunc(got.Reasons, reasons, strings.HasPrefix) {
		t.Errorf("%s: %s, unplanned %t, because\n  %s\nwant %s, unplanned %t, because\n  %s", name,
			got.Outcome, got.Unplanned, strings.Join(got.Reasons, "\n  "), outcome, unplanned, strings.Join(reasons, "\n  "))
	}
}
