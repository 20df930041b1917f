package mcpserver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// rules is a Config with them.
func rules(all ...mcpserver.Rule) mcpserver.Config { return mcpserver.Config{Rules: all} }

// applied are the numbers of the rules that were applied to a session's requests.
func (b *bed) applied(session string) []int {
	var all []int
	for _, r := range b.server.Oracle().History().Requests {
		if r.SessionID == session {
			all = append(all, r.Rule)
		}
	}
	return all
}

func TestRuleIsForTheRequestsThatItSays(t *testing.T) {
	status := func(r mcpserver.Rule, status int) mcpserver.Rule { r.Status = status; return r }
	for _, test := range []struct {
		rule mcpserver.Rule
		// of: initialize, initialized, first GET, ping, its resume, the same
		// without a cursor, tools/call, an answer, a ping again, DELETE
		want []int
	}{
		{mcpserver.Rule{From: 3, To: 3}, []int{4}}, // initialize had no session to count for
		{mcpserver.Rule{On: mcpserver.OnGET}, []int{3, 5, 6}},
		{mcpserver.Rule{On: mcpserver.OnFirstGET}, []int{3}},
		{mcpserver.Rule{On: mcpserver.OnResume}, []int{5, 6}},
		{mcpserver.Rule{On: mcpserver.OnResume, From: 2}, []int{6}},
		{mcpserver.Rule{On: mcpserver.OnPOST, From: 2}, []int{4, 7, 8, 9}},
		{mcpserver.Rule{On: mcpserver.OnPOST, Count: mcpserver.CountServer, From: 3}, []int{4, 7, 8, 9}},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping"}, []int{4, 9}},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 2, To: 5}, []int{9}},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", To: 1}, []int{4}},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "response"}, []int{8}},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "initialize", Count: mcpserver.CountServer, From: 2}, nil},
		{mcpserver.Rule{On: mcpserver.OnDELETE}, []int{10}},
	} {
		// A stream must be there before it can be resumed: the rule does not answer
		// it, it comes late.
		rule := status(test.rule, 418)
		if test.rule.On == mcpserver.OnFirstGET || test.rule.On == mcpserver.OnGET || test.rule.On == mcpserver.OnAny {
			rule.Status, rule.Delay = 0, time.Second
		}
		virtual(t, rules(rule), func(t *testing.T, b *bed) {
			session := b.initialize()
			stream := b.listen(session)
			b.emit(session, "one")
			cursor := stream.next().id
			do := func(method, cursor, body string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				resp, err := b.client.Do(b.request(method, session, cursor, body).WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				synctest.Wait()
			}
			do("POST", "", pingBody)
			do("GET", cursor, "")
			do("GET", "", "")
			do("POST", "", toolCall(1, "echo", `{"text":"x"}`))
			do("POST", "", `{"jsonrpc":"2.0","id":7,"result":{"x":1}}`)
			do("POST", "", pingBody)
			do("DELETE", "", "")
			var got []int
			for _, r := range b.server.Oracle().History().Requests {
				if r.Rule == 1 {
					got = append(got, r.N)
				}
				if r.Rule == 1 && rule.Status != 0 && r.Status != rule.Status {
					t.Errorf("%+v: request %+v, want its status", rule, r)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%+v is applied to the requests %v, want %v", test.rule, got, test.want)
			}
		})
	}
}

func TestRulesCountBySessionOrAllTogether(t *testing.T) {
	third := mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 3, To: 3, Status: 503}
	all := third
	all.Count, all.Status = mcpserver.CountServer, 429
	virtual(t, rules(third, all), func(t *testing.T, b *bed) {
		one, two := b.initialize(), b.initialize()
		var got []int
		for _, session := range []string{one, one, two, two, two, one} {
			got = append(got, b.ping(session))
		}
		if want := []int{200, 200, 429, 200, 503, 503}; !slices.Equal(got, want) {
			t.Errorf("pings of 1 1 2 2 2 1: %v, want %v", got, want)
		}
	})
}

func TestFirstRuleThatWantsARequestIsAppliedAndAllCount(t *testing.T) {
	virtual(t, rules(
		mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 2, To: 2, Status: 500},
		mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 2, To: 3, Status: 501},
	), func(t *testing.T, b *bed) {
		session := b.initialize()
		var got []int
		for range 4 {
			got = append(got, b.ping(session))
		}
		if want := []int{200, 500, 501, 200}; !slices.Equal(got, want) {
			t.Errorf("pings: %v, want %v", got, want)
		}
		if got, want := b.applied(session)[2:], []int{0, 1, 2, 0}; !slices.Equal(got, want) {
			t.Errorf("the oracle says rules %v, want %v", got, want)
		}
	})
}

// A client that was refused its first stream is not reconnecting.
func TestGETAfterARefusedFirstOneIsAFirstOne(t *testing.T) {
	virtual(t, rules(
		mcpserver.Rule{On: mcpserver.OnFirstGET, To: 1, Status: 503},
		mcpserver.Rule{On: mcpserver.OnResume, Status: 500},
	), func(t *testing.T, b *bed) {
		session := b.initialize()
		if status := b.get(session, ""); status != 503 {
			t.Errorf("first GET: %d, want 503", status)
		}
		b.listen(session).cut()
		if status := b.get(session, ""); status != 500 {
			t.Errorf("GET after the stream was there: %d, want 500", status)
		}
	})
}

func TestResumeOfACallIsAReconnectAlsoWithoutAStreamByGET(t *testing.T) {
	virtual(t, rules(mcpserver.Rule{On: mcpserver.OnResume, Status: 500}), func(t *testing.T, b *bed) {
		session := b.initialize()
		call, _ := b.open("POST", session, "", toolCall(1, "emit", `{"count":2}`)).settled()
		if status := b.get(session, call[0].id); status != 500 {
			t.Errorf("GET from the call's cursor: %d, want 500", status)
		}
		b.listen(session)
	})
}

func TestProbeHangsForHalfAMinuteAndIsThen404(t *testing.T) {
	virtual(t, rules(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", Delay: 30 * time.Second, Status: 404}), func(t *testing.T, b *bed) {
		session := b.initialize()
		began := time.Now()
		if status := b.ping(session); status != 404 || time.Since(began) != 30*time.Second {
			t.Errorf("ping: %d after %v, want 404 after 30s", status, time.Since(began))
		}
		h := b.server.Oracle().History()
		if last := h.Requests[len(h.Requests)-1]; !last.At.Equal(began) || last.Status != 404 || !last.Ended.Equal(time.Now()) || last.Rule != 1 || !last.SessionAlive {
			t.Errorf("the oracle says %+v, want that it came at %v, was answered 404 by rule 1, and lived", last, began)
		}
		if resp, _ := b.do("POST", session, "", toolCall(1, "echo", `{"text":"x"}`)); resp.StatusCode != 200 {
			t.Errorf("a call: %s, want 200: the session lives", resp.Status)
		}
	})
}

func TestRequestThatCameLateIsServedAsOfThen(t *testing.T) {
	cfg := rules(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", Delay: 30 * time.Second})
	cfg.UnknownSession = mcpserver.UnknownGone
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		time.AfterFunc(10*time.Second, func() { b.server.Reap(session) })
		if status := b.ping(session); status != 410 {
			t.Errorf("ping, while whose delay the session was reaped: %d, want 410", status)
		}
		if status := b.ping(b.initialize()); status != 200 {
			t.Errorf("ping of another: %d, want 200", status)
		}
	})
}

func TestRuleAnswersWithAPage(t *testing.T) {
	const page = "<!DOCTYPE html><title>Sign in</title>"
	virtual(t, rules(
		mcpserver.Rule{On: mcpserver.OnResume, To: 1, Status: 200, ContentType: "text/html; charset=utf-8", Body: page},
		mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", To: 2, Status: 429, RetryAfter: 3 * time.Second},
		mcpserver.Rule{On: mcpserver.OnDELETE, Status: 500, Body: "<p>no"},
		mcpserver.Rule{On: mcpserver.OnResume, Status: 200, ContentType: "text/event-stream", Body: "id: 77\n\n"},
	), func(t *testing.T, b *bed) {
		session := b.initialize()
		b.listen(session)
		for _, want := range []struct {
			method, body string
			status       int
			header       http.Header
			answer       string
		}{
			{"GET", "", 200, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, page},
			{"POST", pingBody, 429, http.Header{"Retry-After": {"3"}}, ""},
			{"DELETE", "", 500, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, "<p>no"},
			{"GET", "", 200, http.Header{"Content-Type": {"text/event-stream"}}, "id: 77\n\n"},
		} {
			resp, body := b.do(want.method, session, "", want.body)
			if resp.StatusCode != want.status || body != want.answer {
				t.Errorf("%s: %s %q, want %d %q", want.method, resp.Status, body, want.status, want.answer)
			}
			for _, name := range []string{"Content-Type", "Retry-After"} {
				if got := resp.Header.Get(name); got != want.header.Get(name) {
					t.Errorf("%s: %s is %q, want %q", want.method, name, got, want.header.Get(name))
				}
			}
		}
		if _, dead := b.server.Oracle().DiedAt(session); dead {
			t.Error("the session is dead, want that no rule touches it")
		}
	})
}

func TestRequestThatIsNotAnsweredEndsWithItsClientOrTheServer(t *testing.T) {
	for _, rule := range []mcpserver.Rule{{Hang: true}, {Delay: 24 * time.Hour, Status: 404}} {
		rule.On, rule.RPC = mcpserver.OnPOST, "ping"
		virtual(t, rules(rule), hangs)
	}
}

func hangs(t *testing.T, b *bed) {
	session := b.initialize()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	began := time.Now()
	if resp, err := b.client.Do(b.request("POST", session, "", pingBody).WithContext(ctx)); err == nil {
		t.Errorf("ping: %s, want none", resp.Status)
	}
	synctest.Wait()
	h := b.server.Oracle().History()
	last := h.Requests[len(h.Requests)-1]
	if last.RPC != "ping" || last.Status != 0 || !last.Ended.Equal(began.Add(time.Hour)) || last.Rule != 1 {
		t.Errorf("the oracle says %+v, want that it ended after an hour without an answer", last)
	}

	failed := make(chan string, 1)
	go func() {
		resp, err := b.client.Do(b.request("POST", session, "", pingBody))
		if err == nil {
			resp.Body.Close()
			failed <- resp.Status
			return
		}
		failed <- ""
	}()
	synctest.Wait()
	if err := b.stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	if status := <-failed; status != "" {
		t.Errorf("at the server's end, ping gets %s, want that it breaks", status)
	}
}

func TestSessionIsReapedBetweenReplayAndProbe(t *testing.T) {
	cfg := rules(mcpserver.Rule{On: mcpserver.OnResume, From: 2, To: 2, ReapAfterReplay: true})
	cfg.LogRetention = time.Hour
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		b.emit(session, "two")
		b.emit(session, "three")
		cursor := stream.next().id
		_, q := b.confirm(session, 1, `{"message":"?"}`)
		stream.cut()
		stream = b.open("GET", session, cursor, "")
		if got, _ := stream.settled(); len(got) != 2 || b.ping(session) != 200 {
			t.Errorf("first resume: %q, want [two three] of a living session", texts(t, got))
		}
		stream.cut()
		elapse(time.Minute)
		before := time.Now()
		stream = b.open("GET", session, cursor, "")
		got, ended := stream.settled()
		if !slices.Equal(texts(t, got), []string{"two", "three"}) || ended {
			t.Errorf("second resume: %q, ended %v, want [two three] and open", texts(t, got), ended)
		}
		if at, dead := b.server.Oracle().DiedAt(session); !dead || !at.Equal(before) {
			t.Errorf("DiedAt() = %v, %v, want now", at, dead)
		}
		if status := b.ping(session); status != 404 {
			t.Errorf("ping after the replay: %d, want 404", status)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 404 {
			t.Errorf("answer after the replay: %d, want 404", status)
		}
		died := b.records(mcpserver.SessionDied)
		if len(died) != 1 || died[0].Session.Why != mcpserver.WhyReaped {
			t.Errorf("deaths %+v, want one, reaped", died)
		}
		if asks := b.server.Oracle().History().Asks; len(asks) != 1 || asks[0].Why != mcpserver.WhySession {
			t.Errorf("asks %+v, want that it ended with the session", asks)
		}

		// In the order in which it happened.
		b.mu.Lock()
		var order []mcpserver.Kind
		for _, r := range b.observed {
			if r.At.Equal(before) && r.Kind != mcpserver.RequestArrived && r.Kind != mcpserver.RequestEnded {
				order = append(order, r.Kind)
			}
		}
		b.mu.Unlock()
		want := []mcpserver.Kind{mcpserver.RequestAnswered, mcpserver.RequestReplayed, mcpserver.SessionDied, mcpserver.AskCancelled}
		if len(order) < len(want) || !slices.Equal(order[:len(want)], want) {
			t.Errorf("records %v, want %v first", order, want)
		}
		replays := b.records(mcpserver.RequestReplayed)
		if len(replays) != 2 || replays[1].Request.Replayed != 2 || replays[1].Request.Rule != 1 {
			t.Errorf("replays %+v, want two, of two events, the second with rule 1", replays)
		}

		stream.cut()
		elapse(2 * time.Hour)
		synctest.Wait()
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions in the end, want 0", n)
		}
	})
}

// A session without anything else is let go of, too.
func TestSessionIsReapedWhereThereIsNothingToReplay(t *testing.T) {
	for _, cursor := range []bool{false, true} {
		cfg := rules(mcpserver.Rule{On: mcpserver.OnGET, From: 2, ReapAfterReplay: true})
		virtual(t, cfg, func(t *testing.T, b *bed) {
			session := b.initialize()
			stream := b.listen(session)
			from := ""
			if cursor {
				b.emit(session, "one")
				from = stream.next().id
			}
			stream.cut()
			stream = b.open("GET", session, from, "")
			if got, ended := stream.settled(); len(got) != 0 || ended {
				t.Errorf("cursor %q: %+v, ended %v, want an open stream", from, got, ended)
			}
			if status := b.ping(session); status != 404 {
				t.Errorf("cursor %q: ping %d, want 404", from, status)
			}
			if n := len(b.records(mcpserver.RequestReplayed)); n != len(from) {
				t.Errorf("cursor %q: %d replays, want %d", from, n, len(from))
			}
			stream.cut()
			synctest.Wait()
			if n := pumps(); n != len(from) {
				t.Errorf("cursor %q: mcp-go keeps %d sessions, want %d", from, n, len(from))
			}
		})
	}
}

// What waits for an answer is let go of when nobody can reach it any more, here
// because the log has forgotten it before.
func TestReapingInAReplayLetsGoOfWhoAsks(t *testing.T) {
	cfg := rules(mcpserver.Rule{On: mcpserver.OnResume, ReapAfterReplay: true})
	cfg.LogRetention = time.Minute
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		b.listen(session).cut()
		call, _ := b.confirm(session, 1, `{"message":"?"}`)
		elapse(2 * time.Minute)
		b.listen(session)
		if _, ended := call.settled(); !ended {
			t.Error("the call's stream is open, want that the tool has ended")
		}
	})
}

func TestInjectedRuleIsThereUntilRemoved(t *testing.T) {
	virtual(t, rules(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 9, Status: 500}), func(t *testing.T, b *bed) {
		session := b.initialize()
		b.ping(session)
		if _, err := b.server.Inject(mcpserver.Rule{Status: 99}); err == nil || !strings.Contains(err.Error(), "status is 99") {
			t.Errorf("Inject() of a bad rule = %v, want an error", err)
		}
		remove, err := b.server.Inject(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 2, Status: 503})
		if err != nil {
			t.Fatal(err)
		}
		got := []int{b.ping(session), b.ping(session), b.ping(session)}
		remove()
		remove()
		got = append(got, b.ping(session))
		if want := []int{200, 503, 503, 200}; !slices.Equal(got, want) {
			t.Errorf("pings: %v, want %v: it counts from its injection", got, want)
		}
		if got, want := b.applied(session)[2:], []int{0, 0, 2, 2, 0}; !slices.Equal(got, want) {
			t.Errorf("the oracle says rules %v, want %v", got, want)
		}
	})
}

// The client has no eye for the content type of a reconnect.
func TestSDKClientOnAPageInPlaceOfItsStream(t *testing.T) {
	cfg := rules(mcpserver.Rule{On: mcpserver.OnResume, Status: 200, ContentType: "text/html", Body: "<p>\nSign in: here\n</p>\n\n"})
	cfg.Retry = time.Second
	virtual(t, cfg, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		b.emit(c.ID(), "one")
		c.seen()
		c.cut()
		elapse(time.Minute)
		resumes := 0
		for _, r := range b.server.Oracle().History().Requests {
			if r.Rule == 1 {
				resumes++
			}
		}
		if resumes == 0 {
			t.Error("the client did not come back, want that it got the page")
		}
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}}); err == nil {
			t.Error("CallTool() = nil, want that the page has ended the client's session")
		}
	})
}
