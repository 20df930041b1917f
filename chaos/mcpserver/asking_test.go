package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// asked is what the tests look at in a server-to-client request, or in a
// notification about one.
type asked struct {
	ID     int64
	Method string
	Params struct {
		Mode, Message, URL, ElicitationID string
		RequestedSchema                   json.RawMessage
		Messages                          json.RawMessage
		MaxTokens                         int
		RequestID                         int64
		Meta                              map[string]any `json:"_meta"`
	}
}

func (f frame) asked(t *testing.T) asked {
	t.Helper()
	var a asked
	if err := json.Unmarshal([]byte(f.data), &a); err != nil {
		t.Fatalf("frame %+v: %v", f, err)
	}
	return a
}

// token is the liveness token of a request, or "".
func (f frame) token(t *testing.T) string {
	t.Helper()
	token, _ := f.asked(t).Params.Meta[mcpserver.LivenessTokenKey].(string)
	return token
}

const yes = `{"action":"accept","content":{"confirm":true}}`

// reply answers a server-to-client request and returns the POST's status.
func (b *bed) reply(session string, id int64, result string) int {
	b.t.Helper()
	resp, _ := b.do("POST", session, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
	return resp.StatusCode
}

// confirm calls the tool, and returns its stream and the question on it.
func (b *bed) confirm(session string, call int, args string) (*stream, frame) {
	b.t.Helper()
	s := b.open("POST", session, "", toolCall(call, "confirm", args))
	f := s.next()
	if f.asked(b.t).Method != "elicitation/create" {
		b.t.Fatalf("first on the call's stream: %+v, want the question", f)
	}
	return s, f
}

// result is the text of a tool's answer, and whether it is an error.
func result(t *testing.T, f frame) (text string, isError bool) {
	t.Helper()
	m := f.message(t)
	if m.Result == nil || len(m.Result.Content) != 1 {
		t.Fatalf("frame %+v, want a tool's result", f)
	}
	return m.Result.Content[0].Text, m.Result.IsError
}

func TestConfirmAsksOnTheStreamOfItsCall(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		alone := b.listen(session)
		call, question := b.confirm(session, 7, `{"message":"Really <b>?\n \"q\" }}"}`)
		a := question.asked(t)
		if a.ID != 1 || a.Params.Mode != "form" || a.Params.Message != "Really <b>?\n \"q\" }}" || question.id == "" {
			t.Errorf("question: %+v, want number 1 in form mode with an event id", question)
		}
		if want := `{"properties":{"confirm":{"type":"boolean"}},"required":["confirm"],"type":"object"}`; string(a.Params.RequestedSchema) != want {
			t.Errorf("requestedSchema: %s, want %s", a.Params.RequestedSchema, want)
		}
		if s, ok := mcpserver.StampOf(a.Params.Meta); !ok || s != (mcpserver.Stamp{Session: session, Seq: 1}) {
			t.Errorf("stamp of the question: %v, %v, want the first one", s, ok)
		}
		if strings.Contains(question.data, "revenant/request") || len(a.Params.Meta) != 1 {
			t.Errorf("question: %s, want nothing of its envelope, and the stamp alone in _meta", question.data)
		}
		elapse(time.Hour)
		if got, ended := call.settled(); len(got) != 0 || ended {
			t.Errorf("before the answer: %+v, ended %v, want silence", got, ended)
		}
		if status := b.reply(session, 1, yes); status != 202 {
			t.Errorf("answer: %d, want 202", status)
		}
		got, ended := call.settled()
		if len(got) != 1 || !ended {
			t.Fatalf("after the answer: %+v, ended %v, want the result and the end", got, ended)
		}
		if text, isError := result(t, got[0]); text != `confirm: accept {"confirm":true}` || isError || got[0].stamp(t).Seq != 2 {
			t.Errorf("result: %s, want what the user answered", got[0].data)
		}
		if got, _ := alone.settled(); len(got) != 0 {
			t.Errorf("standalone stream: %+v, want nothing", got)
		}
	})
}

func TestConfirmAsksTimesAndThenWorks(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(7, "confirm", `{"message":"?","times":3,"work_events":2,"interval_ms":1000}`))
		for i, answer := range []string{yes, `{"action":"decline"}`, `{"action":"cancel"}`} {
			if a := call.next().asked(t); a.ID != int64(i+1) || a.Method != "elicitation/create" {
				t.Fatalf("question %d: %+v, want that id", i+1, a)
			}
			b.reply(session, int64(i+1), answer)
		}
		began := time.Now()
		for i := range 2 {
			f := call.next()
			if want := fmt.Sprintf("confirm %d of 2", i+1); texts(t, []frame{f})[0] != want || time.Since(began) != time.Duration(i+1)*time.Second {
				t.Errorf("after %v: %+v, want %q after %d s", time.Since(began), f, want, i+1)
			}
		}
		want := "confirm: accept {\"confirm\":true}\nconfirm: decline\nconfirm: cancel"
		if text, _ := result(t, call.next()); text != want {
			t.Errorf("result: %q, want %q", text, want)
		}
	})
}

func TestAskingToolsRefuseWhatIsOutOfBounds(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		for _, call := range []struct{ name, args, want string }{
			{"confirm", `{}`, "message is missing"},
			{"confirm", `{"message":7}`, "arguments"},
			{"confirm", `{"message":"?","times":0}`, "times is 0: want 1 to 100"},
			{"confirm", `{"message":"?","times":101}`, "times is 101"},
			{"confirm", `{"message":"?","times":1.5}`, "arguments"},
			{"confirm", `{"message":"?","work_events":-1}`, "work_events is -1: want 0 to 100000"},
			{"confirm", `{"message":"?","work_events":100001}`, "work_events is 100001"},
			{"confirm", `{"message":"?","interval_ms":-1}`, "interval_ms is -1"},
			{"confirm", `{"message":"?","interval_ms":86400001}`, "interval_ms is 86400001"},
			{"confirm_url", `{"url":"https://example.com"}`, "message"},
			{"confirm_url", `{"message":"?"}`, "url"},
			{"confirm_url", `{"message":"?","url":"/relative"}`, `url is "/relative": want an absolute URL`},
			{"confirm_url", `{"message":"?","url":"https:"}`, "url is"},
			{"sample", `{}`, "prompt"},
		} {
			_, body := b.do("POST", session, "", toolCall(1, call.name, call.args))
			if m := answerTo(t, body); m.Result == nil || !m.Result.IsError || !strings.Contains(m.Result.Content[0].Text, call.want) {
				t.Errorf("%s(%s): %s, want an error that names %q", call.name, call.args, body, call.want)
			}
		}
		if asks := b.server.Oracle().History().Asks; len(asks) != 0 {
			t.Errorf("asked: %+v, want nothing", asks)
		}
	})
}

func TestAskingToolsSayWhatTheClientAnswered(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		const refusal = `"error":{"code":-32601,"message":"no handler"}`
		for _, test := range []struct {
			name, args, method, answer string
			want                       string
			isError                    bool
		}{
			{"sample", `{"prompt":"hi"}`, "sampling/createMessage", `"result":{"role":"assistant","model":"m","content":{"type":"text","text":"hello"}}`, `sample: m text "hello"`, false},
			{"roots", `{}`, "roots/list", `"result":{"roots":[{"uri":"file:///a"},{"uri":"file:///b","name":"b"}]}`, "roots: 2 file:///a file:///b", false},
			{"roots", `{}`, "roots/list", `"result":{"roots":[]}`, "roots: 0", false},
			{"ping_client", `{}`, "ping", `"result":{}`, "ping_client: answered", false},
			{"confirm", `{"message":"?"}`, "elicitation/create", refusal, "the client answers elicitation/create with error -32601: no handler", true},
			{"confirm_url", `{"message":"?","url":"https://example.com/"}`, "elicitation/create", refusal, "the client answers elicitation/create with error -32601: no handler", true},
			{"sample", `{"prompt":"hi"}`, "sampling/createMessage", refusal, "the client answers sampling/createMessage with error", true},
			{"roots", `{}`, "roots/list", refusal, "the client answers roots/list with error", true},
			{"ping_client", `{}`, "ping", refusal, "the client answers ping with error", true},
			{"confirm", `{"message":"?"}`, "elicitation/create", `"result":{}`, `the client's action is "": want accept, decline or cancel`, true},
			{"confirm", `{"message":"?"}`, "elicitation/create", `"result":[]`, "the client's result of elicitation/create", true},
			{"roots", `{}`, "roots/list", `"result":{"roots":7}`, "the client's result of roots/list", true},
			{"ping_client", `{}`, "ping", `"error":7`, "the client's answer to ping", true},
		} {
			call := b.open("POST", session, "", toolCall(1, test.name, test.args))
			question := call.next().asked(t)
			if question.Method != test.method {
				t.Errorf("%s asks %q, want %q", test.name, question.Method, test.method)
			}
			resp, _ := b.do("POST", session, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, question.ID, test.answer))
			if resp.StatusCode != 202 {
				t.Errorf("%s, answered %s: %s, want 202", test.name, test.answer, resp.Status)
			}
			if text, isError := result(t, call.next()); !strings.Contains(text, test.want) || isError != test.isError {
				t.Errorf("%s, answered %s: %q, error %v, want %q, %v", test.name, test.answer, text, isError, test.want, test.isError)
			}
		}
	})
}

func TestSampleSendsItsPrompt(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		a := b.open("POST", b.initialize(), "", toolCall(1, "sample", `{"prompt":"hi"}`)).next().asked(t)
		if want := `[{"content":{"type":"text","text":"hi"},"role":"user"}]`; string(a.Params.Messages) != want || a.Params.MaxTokens != 100 {
			t.Errorf("messages %s, maxTokens %d, want %s and 100", a.Params.Messages, a.Params.MaxTokens, want)
		}
	})
}

func TestConfirmURLSaysWhenItIsComplete(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		const args = `{"message":"sign","url":"https://example.com/?a=1&b=2"}`
		call := b.open("POST", session, "", toolCall(1, "confirm_url", args))
		a := call.next().asked(t)
		if a.Params.Mode != "url" || a.Params.URL != "https://example.com/?a=1&b=2" || a.Params.Message != "sign" || a.Params.ElicitationID == "" || a.Params.RequestedSchema != nil {
			t.Errorf("question: %+v, want one in URL mode", a)
		}
		b.reply(session, a.ID, `{"action":"accept"}`)
		if done := call.next().asked(t); done.Method != "notifications/elicitation/complete" || done.Params.ElicitationID != a.Params.ElicitationID {
			t.Errorf("after the answer: %+v, want that it is complete", done)
		}
		if text, _ := result(t, call.next()); text != "confirm_url: accept" {
			t.Errorf("result: %q, want confirm_url: accept", text)
		}

		call = b.open("POST", session, "", toolCall(2, "confirm_url", args))
		second := call.next().asked(t)
		if second.Params.ElicitationID == a.Params.ElicitationID {
			t.Error("two elicitations share their elicitationId")
		}
		b.reply(session, second.ID, `{"action":"decline"}`)
		if text, _ := result(t, call.next()); text != "confirm_url: decline" {
			t.Errorf("after it was declined: %q, want the result at once", text)
		}
	})
}

func TestAnswersReachTheCallThatAsked(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session, other := b.initialize(), b.initialize()
		one, q1 := b.confirm(session, 1, `{"message":"one"}`)
		two, q2 := b.confirm(session, 2, `{"message":"two"}`)
		if q1.asked(t).ID == q2.asked(t).ID {
			t.Fatalf("both questions have the id %d", q1.asked(t).ID)
		}
		if status := b.reply(other, q2.asked(t).ID, yes); status != 400 {
			t.Errorf("another session's answer: %d, want 400", status)
		}
		b.reply(session, q2.asked(t).ID, `{"action":"decline"}`)
		if text, _ := result(t, two.next()); text != "confirm: decline" {
			t.Errorf("second call: %q, want its own answer", text)
		}
		if got, ended := one.settled(); len(got) != 0 || ended {
			t.Errorf("first call: %+v, ended %v, want that it waits", got, ended)
		}
		b.reply(session, q1.asked(t).ID, yes)
		if text, _ := result(t, one.next()); text != `confirm: accept {"confirm":true}` {
			t.Errorf("first call: %q, want its own answer", text)
		}
	})
}

func TestArrayOfAnswersIsRefused(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		_, q := b.confirm(session, 1, `{"message":"?"}`)
		resp, _ := b.do("POST", session, "", fmt.Sprintf(`[{"jsonrpc":"2.0","id":%d,"result":%s}]`, q.asked(t).ID, yes))
		if resp.StatusCode != 400 || len(b.server.Oracle().Pending(session)) != 1 {
			t.Errorf("array: %s, want 400 and that the request stays pending", resp.Status)
		}
	})
}

func TestPendingRequestSurvivesItsConnection(t *testing.T) {
	for _, when := range []string{"after", "before"} {
		virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
			session := b.initialize()
			call, q := b.confirm(session, 7, `{"message":"?","work_events":1}`)
			call.cut()
			elapse(time.Hour)
			answer := func() {
				if status := b.reply(session, q.asked(t).ID, yes); status != 202 {
					t.Errorf("answer: %d, want 202", status)
				}
				synctest.Wait()
			}
			if when == "before" {
				answer()
			}
			resumed := b.open("GET", session, q.id, "")
			if when == "after" {
				answer()
			}
			got, ended := resumed.settled()
			if len(got) != 2 || !ended {
				t.Fatalf("answered %s the resume: %+v, ended %v, want an event, the result and the end", when, got, ended)
			}
			if text, _ := result(t, got[1]); text != `confirm: accept {"confirm":true}` || *got[1].message(t).ID != 7 {
				t.Errorf("answered %s the resume: %s, want the answer", when, got[1].data)
			}
		})
	}
}

func TestClientCancelsACallThatWaits(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call, q := b.confirm(session, 7, `{"message":"?"}`)
		b.do("POST", session, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if got, ended := call.settled(); len(got) != 1 || got[0].message(t).Error == nil || !ended {
			t.Errorf("cancelled call: %+v, ended %v, want an error and the end", got, ended)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 400 {
			t.Errorf("late answer: %d, want 400", status)
		}
		if asks := b.server.Oracle().History().Asks; len(asks) != 1 || asks[0].Why != mcpserver.WhyAsker {
			t.Errorf("asks: %+v, want one that its asker gave up", asks)
		}
	})
}

func TestEndOfRunEndsWhatIsPending(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		alone := b.listen(session)
		waiting, _ := b.confirm(session, 1, `{"message":"?"}`)
		lost, _ := b.confirm(session, 2, `{"message":"?"}`)
		lost.cut()
		done := b.ask(session, "standalone")
		alone.next()
		began := time.Now()
		if err := b.stop(); err != nil || time.Since(began) >= time.Second {
			t.Errorf("Run() = %v after %v, want nil within the grace of 1s", err, time.Since(began))
		}
		if a := <-done; a.err == nil || !strings.Contains(a.err.Error(), mcpserver.ErrClosed.Error()) {
			t.Errorf("Ask() = %v, want ErrClosed", a.err)
		}
		if got, ended := waiting.settled(); len(got) != 1 || got[0].message(t).Error == nil || !ended {
			t.Errorf("call: %+v, ended %v, want an error and the end", got, ended)
		}
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions, want 0", n)
		}
		for _, a := range b.server.Oracle().History().Asks {
			if a.Cancelled.IsZero() {
				t.Errorf("ask %+v is pending after the end", a)
			}
		}
	})
}

func TestIdsCountFromOneInEveryServer(t *testing.T) {
	for range 2 {
		virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
			var ids []int64
			for range 2 {
				_, q := b.confirm(b.initialize(), 1, `{"message":"?"}`)
				ids = append(ids, q.asked(t).ID)
			}
			if want := []int64{1, 2}; !slices.Equal(ids, want) {
				t.Errorf("ids %v, want %v", ids, want)
			}
		})
	}
}
