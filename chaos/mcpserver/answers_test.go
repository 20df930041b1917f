package mcpserver_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestStaleAnswerGetsWhatTheConfigSays(t *testing.T) {
	for _, test := range []struct {
		stale       int
		want, empty int
	}{
		{0, 400, 202}, // as mcp-go does it
		{400, 400, 400},
		{202, 202, 202},
		{200, 200, 200},
		{409, 409, 409},
		{499, 499, 499},
	} {
		virtual(t, mcpserver.Config{StaleAnswer: test.stale}, func(t *testing.T, b *bed) {
			session := b.initialize()
			call, q := b.confirm(session, 7, `{"message":"?"}`)
			id := q.asked(t).ID
			if status := b.reply(session, id, yes); status != 202 {
				t.Errorf("%d: first answer: %d, want 202", test.stale, status)
			}
			call.settled()
			for _, stale := range []struct {
				what   string
				id     int64
				result string
				want   int
			}{
				{"the same again", id, yes, test.want},
				{"one to nothing", 99, yes, test.want},
				{"an empty one to nothing", 99, `{}`, test.empty},
			} {
				if status := b.reply(session, stale.id, stale.result); status != stale.want {
					t.Errorf("%d: %s: %d, want %d", test.stale, stale.what, status, stale.want)
				}
			}
			if status := b.ping(session); status != 200 {
				t.Errorf("%d: ping: %d, want 200: the session lives", test.stale, status)
			}

			b.server.Reap(session)
			if status := b.reply(session, id, yes); status != 404 {
				t.Errorf("%d: answer of a dead session: %d, want 404", test.stale, status)
			}
		})
	}
}

// What is wrong with an answer's POST is mcp-go's to say, whatever the answer.
func TestAnswerMustBeAGoodPOST(t *testing.T) {
	for _, stale := range []int{0, 202} {
		virtual(t, mcpserver.Config{StaleAnswer: stale}, func(t *testing.T, b *bed) {
			session := b.initialize()
			_, q := b.confirm(session, 7, `{"message":"?"}`)
			body := `{"jsonrpc":"2.0","id":1,"result":` + yes + `}`
			for what, spoil := range map[string]func(*http.Request){
				"no session":       func(r *http.Request) { r.Header.Del(sessionHeader) },
				"unknown version":  func(r *http.Request) { r.Header.Set("MCP-Protocol-Version", "1999-01-01") },
				"modern version":   func(r *http.Request) { r.Header.Set("MCP-Protocol-Version", "2026-07-28") },
				"bad content type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			} {
				r := b.request("POST", session, "", body)
				spoil(r)
				resp, err := b.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != 400 || resp.Header.Get("Content-Type") == "" {
					t.Errorf("%s: %s, want 400 as mcp-go says it", what, resp.Status)
				}
			}
			if status := b.reply("nobody", q.asked(t).ID, yes); status != 404 {
				t.Errorf("unknown session: %d, want 404", status)
			}
			if p := b.server.Oracle().Pending(session); len(p) != 1 {
				t.Errorf("pending: %+v, want that it waits still", p)
			}
		})
	}
}

func TestAnswerProlongsItsSession(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Minute}, func(t *testing.T, b *bed) {
		session := b.initialize()
		for _, tool := range []string{"ping_client", "roots"} { // with an empty result, and without
			call := b.open("POST", session, "", toolCall(1, tool, `{}`))
			id := call.next().asked(t).ID
			elapse(40 * time.Second)
			if status := b.reply(session, id, map[string]string{"ping_client": `{}`, "roots": `{"roots":[]}`}[tool]); status != 202 {
				t.Errorf("answer to %s: %d, want 202", tool, status)
			}
			elapse(40 * time.Second)
			if status := b.ping(session); status != 200 {
				t.Errorf("ping 40s after the answer to %s: %d, want 200", tool, status)
			}
		}
	})
}

func TestOracleRecordsWhatIsAskedAndAnswered(t *testing.T) {
	virtual(t, mcpserver.Config{StaleAnswer: 409, Replay: mcpserver.ReplayInclusive}, func(t *testing.T, b *bed) {
		session, t0 := b.initialize(), time.Now()
		oracle := b.server.Oracle()
		call := b.open("POST", session, "", `{"jsonrpc":"2.0","id":"seven","method":"tools/call","params":{"name":"confirm","arguments":{"message":"?"}}}`)
		q := call.next()
		ask := mcpserver.Ask{
			SessionID: session, ID: 1, Method: "elicitation/create", CallID: `"seven"`,
			Stamp: mcpserver.Stamp{Session: session, Seq: 1}, At: t0,
		}
		if p := oracle.Pending(session); !reflect.DeepEqual(p, []mcpserver.Ask{ask}) {
			t.Errorf("pending: %+v, want %+v", p, ask)
		}
		if p := oracle.Pending("nobody"); len(p) != 0 {
			t.Errorf("pending of nobody: %+v, want nothing", p)
		}
		elapse(time.Second)
		call.cut()
		b.open("GET", session, q.id, "").settled()
		elapse(time.Second)
		b.reply(session, 1, yes)
		synctest.Wait()
		if p := oracle.Pending(session); len(p) != 0 {
			t.Errorf("pending after the answer: %+v, want nothing", p)
		}
		b.reply(session, 1, yes)
		b.reply(session, 99, yes)
		b.reply("nobody", 1, yes)
		_, q = b.confirm(session, 8, `{"message":"?"}`)
		b.server.Reap(session)

		t2 := t0.Add(2 * time.Second)
		again, answered := ask, ask
		again.SentAgain = 1
		answered.SentAgain, answered.Answered = 1, t2
		second := mcpserver.Ask{SessionID: session, ID: 2, Method: "elicitation/create", CallID: "8", Stamp: q.stamp(t), At: t2}
		cancelled := second
		cancelled.Cancelled, cancelled.Why = t2, mcpserver.WhySession
		answers := []mcpserver.Answer{
			{At: t2, Request: 5, SessionID: session, ID: "1", Status: 202, Taken: true},
			{At: t2, Request: 6, SessionID: session, ID: "1", Status: 409},
			{At: t2, Request: 7, SessionID: session, ID: "99", Status: 409},
			{At: t2, Request: 8, SessionID: "nobody", ID: "1", Status: 404},
		}
		h := oracle.History()
		if want := []mcpserver.Ask{answered, cancelled}; !reflect.DeepEqual(h.Asks, want) {
			t.Errorf("asks\n%+v, want\n%+v", h.Asks, want)
		}
		if !reflect.DeepEqual(h.Answers, answers) {
			t.Errorf("answers\n%+v, want\n%+v", h.Answers, answers)
		}
		for i, a := range answers {
			if r := h.Requests[a.Request-1]; r.RPC != "response" || r.Status != a.Status {
				t.Errorf("answer %d came with %+v, want a response and %d", i, r, a.Status)
			}
		}

		var got []mcpserver.Record
		for kind := mcpserver.AskSent; kind <= mcpserver.AnswerDropped; kind++ {
			got = append(got, b.records(kind)...)
		}
		want := []mcpserver.Record{
			{Kind: mcpserver.AskSent, At: t0, Ask: ask},
			{Kind: mcpserver.AskSent, At: t2, Ask: second},
			{Kind: mcpserver.AskSentAgain, At: t0.Add(time.Second), Ask: again},
			{Kind: mcpserver.AskAnswered, At: t2, Ask: answered, Answer: answers[0]},
			{Kind: mcpserver.AskCancelled, At: t2, Ask: cancelled},
			{Kind: mcpserver.AnswerRefused, At: t2, Ask: answered, Answer: answers[1]},
			{Kind: mcpserver.AnswerRefused, At: t2, Answer: answers[2]},
			{Kind: mcpserver.AnswerRefused, At: t2, Answer: answers[3]},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("records\n%+v, want\n%+v", got, want)
		}
	})
}

func TestDroppedAnswerIsRecordedAsSuch(t *testing.T) {
	for _, stale := range []int{0, 202} {
		virtual(t, mcpserver.Config{StaleAnswer: stale}, func(t *testing.T, b *bed) {
			b.reply(b.initialize(), 5, `{}`)
			dropped := b.records(mcpserver.AnswerDropped)
			if len(dropped) != 1 || dropped[0].Answer.Status != 202 || dropped[0].Answer.Taken {
				t.Errorf("%d: dropped: %+v, want one with 202", stale, dropped)
			}
		})
	}
}

// A client learns nothing of an answer before the oracle has.
func TestOracleHearsFirst(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		_, q := b.confirm(session, 7, `{"message":"?"}`)
		if n := len(b.records(mcpserver.AskSent)); n != 1 {
			t.Errorf("told of %d requests when one is there, want 1", n)
		}
		b.reply(session, q.asked(t).ID, yes)
		if n := len(b.records(mcpserver.AskAnswered)); n != 1 {
			t.Errorf("told of %d answers when one is taken, want 1", n)
		}
	})
}

func TestStaleAnswerIsValidated(t *testing.T) {
	for _, status := range []int{1, 100, 199, 300, 307, 404, 410, 500, 503, -1} {
		s, err := mcpserver.New(mcpserver.Config{StaleAnswer: status})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "StaleAnswer is ") || !strings.Contains(err.Error(), "the session is dead") {
			t.Errorf("New() with StaleAnswer %d = %v, want an error that says why", status, err)
		}
	}
}
