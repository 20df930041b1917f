package mcpserver_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestRuleNamesEachFault(t *testing.T) {
	late := time.Second
	for _, test := range []struct {
		rule mcpserver.Rule
		want string // lines; "": it is valid
	}{
		{mcpserver.Rule{Delay: late}, ""},
		{mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping", From: 2, To: 2, Delay: 30 * time.Second, Status: 404}, ""},
		{mcpserver.Rule{On: mcpserver.OnResume, Delay: late, ReapAfterReplay: true}, ""},
		{mcpserver.Rule{Status: 204}, ""},
		{mcpserver.Rule{Hang: true, Delay: late}, ""},
		{mcpserver.Rule{}, "rule is without an effect: want a delay, a status, hang or reap_after_replay"},
		{mcpserver.Rule{On: 9, Count: 8, Delay: late}, `on is On(9): want "any", "get", "get_first", "get_resume", "post" or "delete"` + "\n" +
			`count is Count(8): want "session" or "server"`},
		{mcpserver.Rule{On: mcpserver.OnGET, RPC: "ping", Delay: late}, `rpc is "ping": want none, or on: post`},
		{mcpserver.Rule{From: -1, To: -2, Delay: -late}, "from is -1: want 0 (the first) or more\n" +
			"to is -2: want 0 (without end), or 1 or more\ndelay is -1s: want 0 or more"},
		{mcpserver.Rule{From: 3, To: 2, Hang: true}, "to is 2: want 0 (without end), or 3 or more"},
		{mcpserver.Rule{Status: 199}, "status is 199: want 0 (the request is served), or 200 to 599"},
		{mcpserver.Rule{Status: 600}, "status is 600: want 0 (the request is served), or 200 to 599"},
		{mcpserver.Rule{Status: 503, RetryAfter: 1500 * time.Millisecond}, "retry_after is 1.5s: want 0 (none) or whole seconds"},
		{mcpserver.Rule{Status: 503, RetryAfter: -late}, "retry_after is -1s: want 0 (none) or whole seconds"},
		{mcpserver.Rule{Delay: late, RetryAfter: late, ContentType: "text/html", Body: "x"}, "retry_after is 1s: want none, or a status to go with it\n" +
			`content_type is "text/html": want none, or a status to go with it` + "\n" + `body is "x": want none, or a status to go with it`},
		{mcpserver.Rule{Status: 200, ContentType: "a\r\nb"}, `content_type is "a\r\nb": want one line`},
		{mcpserver.Rule{Status: 304, Body: "x"}, `body is "x": want none with status 304`},
		{mcpserver.Rule{Status: 503, Hang: true}, "hang is true: want false with a status"},
		{mcpserver.Rule{On: mcpserver.OnGET, Status: 503, ReapAfterReplay: true}, "reap_after_replay is true: want false with a status or hang: there is no replay"},
		{mcpserver.Rule{On: mcpserver.OnGET, Hang: true, ReapAfterReplay: true}, "reap_after_replay is true: want false with a status or hang: there is no replay"},
		{mcpserver.Rule{On: mcpserver.OnPOST, ReapAfterReplay: true}, `reap_after_replay is true: want false, or on: "get", "get_first" or "get_resume"`},
	} {
		var want []string
		for line := range strings.Lines(test.want) {
			want = append(want, "mcpserver: rule: "+strings.TrimSpace(line))
		}
		got := ""
		if err := test.rule.Validate(); err != nil {
			got = err.Error()
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("Validate(%+v) =\n%s\nwant\n%s", test.rule, got, strings.Join(want, "\n"))
		}
	}
}

func TestRuleIsJSON(t *testing.T) {
	for _, test := range []struct {
		text string
		rule mcpserver.Rule
	}{
		{`{"hang":true}`, mcpserver.Rule{Hang: true}},
		{`{"on":"get_resume","reap_after_replay":true}`, mcpserver.Rule{On: mcpserver.OnResume, ReapAfterReplay: true}},
		{
			`{"on":"post","rpc":"ping","count":"server","from":2,"to":3,"delay":"30s","status":429,"retry_after":"1m30s","content_type":"text/html","body":"\u003cp\u003e"}`,
			mcpserver.Rule{
				On: mcpserver.OnPOST, RPC: "ping", Count: mcpserver.CountServer, From: 2, To: 3, Delay: 30 * time.Second,
				Status: 429, RetryAfter: 90 * time.Second, ContentType: "text/html", Body: "<p>",
			},
		},
	} {
		var got mcpserver.Rule
		if err := json.Unmarshal([]byte(test.text), &got); err != nil || got != test.rule {
			t.Errorf("Unmarshal(%s) = %+v, %v, want %+v", test.text, got, err, test.rule)
		}
		if again, err := json.Marshal(test.rule); err != nil || string(again) != test.text {
			t.Errorf("Marshal(%+v) = %s, %v, want %s", test.rule, again, err, test.text)
		}
	}
	for text, want := range map[string]string{
		`{"hang":true,"sattus":503}`:      `json: unknown field "sattus"`,
		`{"on":"put","hang":true}`:        `mcpserver: rule: on is "put": want "any", "get", "get_first", "get_resume", "post" or "delete"`,
		`{"count":"all","hang":true}`:     `count is "all": want "session" or "server"`,
		`{"delay":"30"}`:                  `duration is "30": want a number with a unit, as in 30s or 1m30s`,
		`{"delay":30}`:                    "cannot unmarshal number",
		`{"on":"post","status":99}`:       "status is 99: want 0 (the request is served), or 200 to 599",
		`{"on":"post","status":"many"}`:   "cannot unmarshal string",
		`{}`:                              "rule is without an effect",
		`{"on":"get_resume","body":"x"} `: "want none, or a status to go with it",
	} {
		before := mcpserver.Rule{Status: 404}
		got := before
		if err := json.Unmarshal([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) || got != before {
			t.Errorf("Unmarshal(%s) = %+v, %v, want no change, and an error with %s", text, got, err, want)
		}
	}
	if _, err := json.Marshal(mcpserver.Rule{On: 9, Hang: true}); err == nil {
		t.Error("Marshal() of a rule for no kind of request = nil, want an error")
	}
}

// A YAML library hands over a function that decodes.
func TestRuleIsYAML(t *testing.T) {
	decode := func(text string) func(any) error {
		return func(into any) error { return json.Unmarshal([]byte(text), into) }
	}
	want := mcpserver.Rule{On: mcpserver.OnResume, To: 2, Delay: time.Minute, ReapAfterReplay: true}
	var got mcpserver.Rule
	text := `{"on":"get_resume","to":2,"delay":"1m","reap_after_replay":true}`
	if err := got.UnmarshalYAML(decode(text)); err != nil || got != want {
		t.Errorf("UnmarshalYAML(%s) = %+v, %v, want %+v", text, got, err, want)
	}
	for _, bad := range []string{`{"on":"get","reap":true}`, `{"delay":60}`, `[]`, `{"on":"get"}`} {
		if err := got.UnmarshalYAML(decode(bad)); err == nil || got != want {
			t.Errorf("UnmarshalYAML(%s) = %+v, %v, want an error and no change", bad, got, err)
		}
	}
	fields, err := want.MarshalYAML()
	if want := (map[string]any{"delay": "1m0s", "on": "get_resume", "to": int64(2), "reap_after_replay": true}); err != nil || !reflect.DeepEqual(fields, want) {
		t.Errorf("MarshalYAML() = %#v, %v, want %#v", fields, err, want)
	}
	if _, err := (mcpserver.Rule{On: 9}).MarshalYAML(); err == nil {
		t.Error("MarshalYAML() of a rule for no kind of request = nil, want an error")
	}
}
