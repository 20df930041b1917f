package demo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
	"github.com/revenant-mcp/revenant/middleware"
)

func judgeAsk(c, p *demo.Recording) demo.Verdict { return demo.ElicitationRecord.Judge(c, p) }

func TestElicitationVerdictUpheld(t *testing.T) {
	checkVerdict(t, "as it should be", judgeAsk(askedAgain(), askedOnce()), demo.Upheld, false)

	// Three prompts are enough, whatever a slow machine makes of the rest.
	c := askedAgain()
	c.Prompts = c.Prompts[:3]
	checkVerdict(t, "three prompts", judgeAsk(c, askedOnce()), demo.Upheld, false)
}

func TestElicitationVerdictNamesTheArmThatIsOtherwise(t *testing.T) {
	// As in the control arm: the middleware is told nothing that it could count.
	checkVerdict(t, "the failure in both", judgeAsk(askedAgain(), askedAgain()), demo.Deviated, false,
		"the protected arm shows the failure: the person was prompted 6 times for one request",
		"the protected arm shows the failure: its call was open at the end")

	// One whose call has failed is sent the request no more.
	c := askedOnce()
	checkVerdict(t, "no failure anywhere", judgeAsk(c, askedOnce()), demo.Inconclusive, false,
		"the control arm does not show the failure: the person was prompted 1 times",
		"the control arm does not show the failure: its call ended: failed with -32001")
}

func TestElicitationVerdictOnTheControlArm(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*demo.Recording)
		reason string
	}{
		{"two prompts", func(r *demo.Recording) { r.Prompts = r.Prompts[:2] }, "the person was prompted 2 times"},
		{"an answered call", func(r *demo.Recording) { r.Calls[0].End = at(2) }, "its call ended: answered"},
		{"a client that gives up", func(r *demo.Recording) { r.Calls[0].End, r.Calls[0].Err = at(6.9), errOther }, "its call ended: failed, something else"},
		{"a session that does not work", func(r *demo.Recording) { r.Calls[1].Err = errOther }, "its session does not work at the end"},
	} {
		c := askedAgain()
		test.change(c)
		checkVerdict(t, test.name, judgeAsk(c, askedOnce()), demo.Inconclusive, false,
			"the control arm does not show the failure: "+test.reason)
	}
}

func TestElicitationVerdictOnTheProtectedArm(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*demo.Recording)
		reasons []string
	}{
		{"a second prompt", func(r *demo.Recording) {
			r.Prompts = append(r.Prompts, demo.Prompt{Stamp: question(1), At: at(1.26)})
		}, []string{"shows the failure: the person was prompted 2 times for one request"}},
		{"a call that stays open", func(r *demo.Recording) {
			r.Calls[0].End, r.Calls[0].Err = time.Time{}, nil
			r.Server.Asks[0].SentAgain = 4
		}, []string{"shows the failure: its call was open at the end"}},
		{"an answered call", func(r *demo.Recording) { r.Calls[0].Err = nil },
			[]string{"has a call that ended otherwise than with error -32001: answered"}},
		{"another error", func(r *demo.Recording) { r.Calls[0].Err = errOther },
			[]string{"has a call that ended otherwise than with error -32001: failed, something else"}},
		{"never stale", func(r *demo.Recording) { r.Guard = r.Guard[:1] }, []string{"found the request stale 0 times, not once"}},
		{"stale twice", func(r *demo.Recording) {
			r.Guard = append(r.Guard, middleware.Event{Kind: middleware.Stale, SessionID: "s", RequestID: "1"})
		}, []string{"found the request stale 2 times, not once"}},
		{"not made anew", func(r *demo.Recording) {
			r.Calls = []demo.Call{r.Calls[0], r.Calls[2]}
			r.Server.Asks = r.Server.Asks[:1]
		}, []string{"could not make the call anew"}},
		{"made anew in vain", func(r *demo.Recording) { r.Calls[1].Err = errOther }, []string{"could not make the call anew"}},
		{"made anew, and open", func(r *demo.Recording) { r.Calls[1].End = time.Time{} }, []string{"could not make the call anew"}},
		{"made anew twice", func(r *demo.Recording) { called(r, "confirm", 3) }, []string{"could not make the call anew"}},
		{"made anew, with two prompts", func(r *demo.Recording) {
			r.Prompts = append(r.Prompts, demo.Prompt{Stamp: question(2), At: at(2.6)})
		}, []string{"prompted the person 2 times for the call that it made anew"}},
		{"a session that does not work", func(r *demo.Recording) { r.Calls[2].Err = errOther },
			[]string{"has a session that does not work at the end"}},
		{"a session that ended", func(r *demo.Recording) { r.Sessions[0].Ended, r.Sessions[0].Err = at(3), errMissing },
			[]string{"has a session that does not work at the end"}},
	} {
		p := askedOnce()
		test.change(p)
		for i := range test.reasons {
			test.reasons[i] = "the protected arm " + test.reasons[i]
		}
		checkVerdict(t, test.name, judgeAsk(askedAgain(), p), demo.Deviated, false, test.reasons...)
	}
}

// What happens in an arm with and without the middleware, and did not happen.
func TestElicitationVerdictChecksItsAssumptions(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*demo.Recording)
		reason string
	}{
		{"an incomplete record", func(r *demo.Recording) { r.Server.Dropped = 3 }, "has an incomplete record: 3 entries are missing"},
		{"a prompt without a stamp", func(r *demo.Recording) { r.Prompts = append(r.Prompts, demo.Prompt{At: at(2)}) }, "was prompted with a request that the server had not stamped"},
		{"two sessions", func(r *demo.Recording) { r.Sessions = append(r.Sessions, demo.Session{ID: "t"}) }, "began 2 sessions, not one"},
		{"no prompt", func(r *demo.Recording) { r.Prompts = nil }, "was never prompted"},
		{"no cut", func(r *demo.Recording) { r.Balancer = nil }, "was not cut off by the load balancer"},
		{"only cuts by hand", func(r *demo.Recording) {
			for i := range r.Balancer {
				r.Balancer[i].Err = lb.ErrCut
			}
		}, "was not cut off by the load balancer"},
		{"an answer in time", func(r *demo.Recording) {
			r.Server.Asks[0].Answered, r.Server.Asks[0].Cancelled, r.Server.Asks[0].Why = at(0.9), time.Time{}, ""
		}, "answered before the load balancer had cut the stream"},
		{"a server that still waits", func(r *demo.Recording) {
			r.Server.Asks[0].Cancelled, r.Server.Asks[0].Why = time.Time{}, ""
		}, "has a server that still waits for the answer"},
		{"a request that ended otherwise", func(r *demo.Recording) { r.Server.Asks[0].Why = mcpserver.WhyAsker }, "has a server that still waits for the answer"},
		{"no answer", func(r *demo.Recording) { r.Server.Answers = nil }, "never answered"},
		{"no reconnect", func(r *demo.Recording) { r.Server.Requests = nil }, "did not resume the stream"},
		{"refused reconnects", func(r *demo.Recording) {
			for i := range r.Server.Requests {
				r.Server.Requests[i].Status = 400
			}
		}, "did not resume the stream"},
		{"a replay without the request", func(r *demo.Recording) { r.Server.Asks[0].SentAgain = 0 }, "was not sent the request again"},
	} {
		for _, arm := range []string{demo.Control, demo.Protected} {
			c, p := askedAgain(), askedOnce()
			test.change(map[string]*demo.Recording{demo.Control: c, demo.Protected: p}[arm])
			got := judgeAsk(c, p)
			if got.Outcome != demo.Inconclusive || !got.Unplanned || len(got.Reasons) == 0 || !strings.HasPrefix(got.Reasons[0], "the "+arm+" arm "+test.reason) {
				t.Errorf("%s, in the %s arm: %+v, want inconclusive, unplanned, since it %s", test.name, arm, got, test.reason)
			}
		}
	}
}

// On a slow machine there may be too few replays to say anything.
func TestElicitationVerdictOnARecordThatIsTooShort(t *testing.T) {
	c := askedAgain()
	c.Server.Asks[0].SentAgain = 1
	c.Prompts = c.Prompts[:2]
	checkVerdict(t, "one replay", judgeAsk(c, askedOnce()), demo.Inconclusive, true,
		"the control arm was sent the request again only 1 times")

	p := askedOnce()
	p.Calls[0].End, p.Calls[0].Err, p.Server.Asks[0].SentAgain = time.Time{}, nil, 3
	checkVerdict(t, "three replays, and an open call", judgeAsk(askedAgain(), p), demo.Inconclusive, true,
		"the protected arm was sent the request again only 3 times")

	p = askedOnce()
	p.Server.Asks[1].Answered, p.Server.Asks[1].Cancelled, p.Server.Asks[1].Why = time.Time{}, at(3.52), mcpserver.WhyBroken
	p.Calls[1].End = time.Time{}
	checkVerdict(t, "a late answer to the call made anew", judgeAsk(askedAgain(), p), demo.Inconclusive, true,
		"the protected arm was too late with the answer to the call that it made anew")
}
