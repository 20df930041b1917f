package main

import (
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/middleware"
)

func TestTable(t *testing.T) {
	longest := "auth/2025-03-26-oauth-metadata-backcompat"
	rows := []comparison{
		{
			scenario: longest,
			bare:     outcome{checks: map[string]tally{"a": {passed: 1234}}},
			guarded:  outcome{checks: map[string]tally{"a": {passed: 1234}}, stats: middleware.Stats{Probes: 2}},
		},
		{
			scenario: "sse-retry",
			bare:     outcome{checks: map[string]tally{"a": {passed: 3}}},
			guarded: outcome{
				checks: map[string]tally{"a": {passed: 2, failed: 1}},
				faults: []string{"client-sse-retry-timing: Client reconnected too early (412ms instead of 500ms)."},
				stats:  middleware.Stats{Probes: 1},
			},
		},
	}
	var out strings.Builder
	writeClientHead(&out)
	for _, row := range rows {
		writeComparison(&out, row)
	}
	writeClientFoot(&out, rows)
	writeNotRun(&out, "auth/jwt", "no signature")
	server := []result{{"ping", outcome{checks: map[string]tally{"p": {passed: 1}}}}}
	writeServerHead(&out)
	writeResult(&out, server[0])
	writeServerFoot(&out, server)

	const want = `
                                                     bare      middleware
client scenario                             passed failed   passed failed probes
auth/2025-03-26-oauth-metadata-backcompat     1234      0     1234      0      2
sse-retry                                        3      0        2      1      1
    middleware: client-sse-retry-timing: Client reconnected too early (412ms
    instead of 500ms).
all 2                                         1237      0     1236      1      3
not run: auth/jwt
    no signature
server scenario                             passed failed
ping                                             1      0
all 1                                            1      0
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("table:\n%s\nwant:%s", got, want)
	}
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > width {
			t.Errorf("%q has %d columns, want at most %d", line, len(line), width)
		}
	}
}

func TestWrapKeepsLongWords(t *testing.T) {
	if got := strings.Join(wrap("to http://127.0.0.1/long it", 5), "|"); got != "to|http://127.0.0.1/long|it" {
		t.Errorf("wrap = %q", got)
	}
}
