package mcpserver_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// knobType is what the types of constants have in common.
type knobType interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}

func TestKnobsAreText(t *testing.T) {
	isText(t, mcpserver.ParseRefresh, `mcpserver: refresh is "POST": want "post", "any" or "never"`, 9, map[mcpserver.Refresh]string{
		mcpserver.RefreshPOST: "post", mcpserver.RefreshAny: "any", mcpserver.RefreshNever: "never",
	})
	isText(t, mcpserver.ParseReplay, `mcpserver: replay is "POST": want "exclusive", "inclusive" or "full"`, 9, map[mcpserver.Replay]string{
		mcpserver.ReplayExclusive: "exclusive", mcpserver.ReplayInclusive: "inclusive", mcpserver.ReplayFull: "full",
	})
	isText(t, mcpserver.ParseOnBreak, `mcpserver: on_break is "POST": want "keeps", "cancels" or "cancels_noted"`, 9, map[mcpserver.OnBreak]string{
		mcpserver.BreakKeeps: "keeps", mcpserver.BreakCancels: "cancels", mcpserver.BreakCancelsNoted: "cancels_noted",
	})
	isText(t, mcpserver.ParseConflict, `mcpserver: conflict is "POST": want "takes_over" or "refused"`, 9, map[mcpserver.Conflict]string{
		mcpserver.ConflictTakesOver: "takes_over", mcpserver.ConflictRefused: "refused",
	})
	isText(t, mcpserver.ParseUnknownSession, `mcpserver: unknown_session is "POST": want "not_found", "gone", "bad_request", "unauthorized", "unavailable", "error_in_200", "adopt" or "replace"`, 9, map[mcpserver.UnknownSession]string{
		mcpserver.UnknownNotFound: "not_found", mcpserver.UnknownGone: "gone", mcpserver.UnknownBadRequest: "bad_request",
		mcpserver.UnknownUnauthorized: "unauthorized", mcpserver.UnknownUnavailable: "unavailable",
		mcpserver.UnknownErrorIn200: "error_in_200", mcpserver.UnknownAdopt: "adopt", mcpserver.UnknownReplace: "replace",
	})
	isText(t, mcpserver.ParseOn, `mcpserver: on is "POST": want "any", "get", "get_first", "get_resume", "post" or "delete"`, 9, map[mcpserver.On]string{
		mcpserver.OnAny: "any", mcpserver.OnGET: "get", mcpserver.OnFirstGET: "get_first", mcpserver.OnResume: "get_resume",
		mcpserver.OnPOST: "post", mcpserver.OnDELETE: "delete",
	})
	isText(t, mcpserver.ParseCount, `mcpserver: count is "POST": want "session" or "server"`, 9, map[mcpserver.Count]string{
		mcpserver.CountSession: "session", mcpserver.CountServer: "server",
	})
}

func isText[T knobType](t *testing.T, parse func(string) (T, error), wrong string, none T, names map[T]string) {
	t.Helper()
	var zero T
	if names[zero] == "" {
		t.Errorf("%T: the zero value has no name", zero)
	}
	for v, text := range names {
		if got := v.String(); got != text {
			t.Errorf("String() = %q, want %q", got, text)
		}
		if got, err := parse(text); err != nil || got != v {
			t.Errorf("parse(%q) = %v, %v, want %v", text, got, err, v)
		}
		wire, err := json.Marshal(v)
		if err != nil || string(wire) != `"`+text+`"` {
			t.Errorf("Marshal(%v) = %s, %v, want %q", v, wire, err, text)
		}
		back := none
		if err := json.Unmarshal(wire, &back); err != nil || back != v {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", wire, back, err, v)
		}
		if err := json.Unmarshal([]byte(`"x"`), &back); err == nil || back != v {
			t.Errorf("Unmarshal(x) = %v and %v, want an error and no change", err, back)
		}
	}
	if _, err := parse("POST"); err == nil || err.Error() != wrong {
		t.Errorf(`parse("POST") = %v, want %s`, err, wrong)
	}
	if _, err := none.MarshalText(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%v has no text", none)) {
		t.Errorf("MarshalText() of no %T = %v, want an error", none, err)
	}
}
