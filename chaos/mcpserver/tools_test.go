package mcpserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// answerTo is the answer in a plain JSON body.
func answerTo(t *testing.T, body string) message {
	t.Helper()
	return frame{data: body}.message(t)
}

func TestEchoAnswersPlainlyAndLeavesNoEvent(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		resp, body := b.do("POST", session, "", toolCall(1, "echo", `{"text":"hello"}`))
		m := answerTo(t, body)
		if resp.Header.Get("Content-Type") != "application/json" || m.Result == nil || m.Result.Content[0].Text != "hello" {
			t.Fatalf("echo: %s, want hello as JSON", body)
		}
		if s, ok := mcpserver.StampOf(m.Result.Meta); !ok || s.Session != session {
			t.Errorf("StampOf(%v) = %v, %v, want one of %s", m.Result.Meta, s, ok, session)
		}
		if events := b.server.Oracle().History().Events; len(events) != 0 {
			t.Errorf("%d events, want 0", len(events))
		}
	})
}

func TestToolsRefuseWhatIsOutOfBounds(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		for _, call := range []struct{ name, args, want string }{
			{"echo", `{}`, "text"},
			{"emit", `{"count":-1}`, "count is -1: want 0 to 100000"},
			{"emit", `{"count":100001}`, "count is 100001"},
			{"emit", `{"count":1.5}`, "arguments"},
			{"work", `{"events":-1,"interval_ms":1}`, "events is -1"},
			{"work", `{"events":1,"interval_ms":-1}`, "interval_ms is -1"},
			{"work", `{"events":1,"interval_ms":86400001}`, "interval_ms is 86400001"},
			{"work", `{"events":"x"}`, "arguments"},
		} {
			_, body := b.do("POST", session, "", toolCall(1, call.name, call.args))
			if m := answerTo(t, body); m.Result == nil || !m.Result.IsError || !strings.Contains(m.Result.Content[0].Text, call.want) {
				t.Errorf("%s(%s): %s, want an error that names %q", call.name, call.args, body, call.want)
			}
		}
	})
}

func TestWorkSendsOneEventPerInterval(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		began := time.Now()
		call := b.open("POST", session, "", toolCall(7, "work", `{"events":3,"interval_ms":1000}`))
		for i := range 3 {
			call.next()
			if after := time.Since(began); after != time.Duration(i+1)*time.Second {
				t.Errorf("event %d came after %v, want %d s", i+1, after, i+1)
			}
		}
		if m := call.next().message(t); m.ID == nil || *m.ID != 7 || m.Result.Content[0].Text != "work: 3 sent" {
			t.Errorf("answer: %+v, want that of call 7", m)
		}
		if _, ended := call.settled(); !ended {
			t.Error("stream is open after the answer, want its end")
		}
	})
}

func TestDetachedWorkGoesOnForWhoeverResumesItsStream(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		began := time.Now()
		call := b.open("POST", session, "", toolCall(7, "work", `{"events":8,"interval_ms":1000,"detached":true}`))
		call.next()
		cursor := call.next().id
		call.cut()
		elapse(3500 * time.Millisecond)

		resumed := b.open("GET", session, cursor, "")
		if got, ended := resumed.settled(); len(got) != 3 || ended {
			t.Errorf("at 5.5 s: %d events replayed, ended %v, want 3 and open", len(got), ended)
		}
		var got []string
		for i := 6; i <= 8; i++ {
			f := resumed.next()
			got = append(got, texts(t, []frame{f})...)
			if after := time.Since(began); after != time.Duration(i)*time.Second {
				t.Errorf("event %d came after %v, want %d s", i, after, i)
			}
		}
		if want := []string{"work 6 of 8", "work 7 of 8", "work 8 of 8"}; !slices.Equal(got, want) {
			t.Errorf("after the replay: %q, want %q", got, want)
		}
		rest, ended := resumed.settled()
		if len(rest) != 1 || rest[0].message(t).ID == nil || !ended {
			t.Errorf("then: %+v, ended %v, want the answer and the end", rest, ended)
		}
	})
}

func TestWorkEndsWithItsConnection(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(7, "work", `{"events":8,"interval_ms":1000}`))
		cursor := call.next().id
		call.cut()
		elapse(time.Minute)
		got, ended := b.open("GET", session, cursor, "").settled()
		if len(got) != 1 || !ended {
			t.Fatalf("resumed: %d events, ended %v, want the error and the end", len(got), ended)
		}
		if m := got[0].message(t); m.Error == nil || *m.ID != 7 {
			t.Errorf("resumed: %+v, want an error for call 7", m)
		}
		if n := len(b.server.Oracle().History().Events); n != 2 {
			t.Errorf("%d events stored, want 2", n)
		}
	})
}

func TestDetachedWorkOutlivesItsSession(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: 2500 * time.Millisecond}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(7, "work", `{"events":4,"interval_ms":1000,"detached":true}`))
		elapse(time.Minute)
		if got, ended := call.settled(); len(got) != 5 || !ended {
			t.Errorf("%d events, ended %v, want 4, the answer and the end", len(got), ended)
		}
		var alive []bool
		for _, e := range b.server.Oracle().History().Events {
			alive = append(alive, e.SessionAlive)
		}
		if want := []bool{true, true, false, false, false}; !slices.Equal(alive, want) {
			t.Errorf("session alive at the events: %v, want %v", alive, want)
		}
	})
}

func TestClientCancelsACall(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		call := b.open("POST", session, "", toolCall(7, "work", `{"events":100,"interval_ms":1000,"detached":true}`))
		bystander := b.open("POST", session, "", toolCall(8, "work", `{"events":5,"interval_ms":1000,"detached":true}`))
		call.settled()
		resp, _ := b.do("POST", session, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if resp.StatusCode != 202 {
			t.Errorf("notifications/cancelled: %s, want 202", resp.Status)
		}
		if got, ended := call.settled(); len(got) != 1 || got[0].message(t).Error == nil || !ended {
			t.Errorf("cancelled call: %+v, ended %v, want an error and the end", got, ended)
		}
		elapse(time.Minute)
		if got, _ := bystander.settled(); len(got) != 6 {
			t.Errorf("other call: %d events, want 5 and the answer", len(got))
		}
	})
}

func TestStampOf(t *testing.T) {
	good := mcpserver.Stamp{Session: "s", Seq: 7}
	for _, test := range []struct {
		value any
		want  bool
	}{
		{good, true},
		{map[string]any{"session": "s", "seq": 7}, true},
		{map[string]any{"session": "s", "seq": int64(7)}, true},
		{map[string]any{"session": "s", "seq": 7.0}, true},
		{map[string]any{"session": "s", "seq": json.Number("7")}, true},
		{map[string]any{"session": "s", "seq": 7.5}, false},
		{map[string]any{"session": "s", "seq": 1e300}, false},
		{map[string]any{"session": "s", "seq": json.Number("x")}, false},
		{map[string]any{"session": "s", "seq": "7"}, false},
		{map[string]any{"session": "s", "seq": 0}, false},
		{map[string]any{"session": "", "seq": 7}, false},
		{map[string]any{"seq": 7}, false},
		{map[string]any{"session": "s"}, false},
		{mcpserver.Stamp{}, false},
		{"s 7", false},
		{nil, false},
	} {
		got, ok := mcpserver.StampOf(map[string]any{mcpserver.StampKey: test.value})
		if ok != test.want || ok && got != good {
			t.Errorf("StampOf(%v) = %v, %v, want %v", test.value, got, ok, test.want)
		}
	}
	if _, ok := mcpserver.StampOf(nil); ok {
		t.Error("StampOf(nil) = true, want false")
	}
	wire, err := json.Marshal(good)
	if want := `{"session":"s","seq":7}`; err != nil || string(wire) != want {
		t.Errorf("Marshal(%v) = %s, %v, want %s", good, wire, err, want)
	}
}
