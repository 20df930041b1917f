package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startServer is a stateful server of go-sdk with the tool of the scenario
// tools_call, which fails with fail.
func startServer(t *testing.T, fail error) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	type numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "add_numbers"}, func(_ context.Context, _ *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, any, error) {
		if in.A+in.B != 8 {
			t.Errorf("add_numbers is called with %+v", in)
		}
		return nil, nil, fail
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(s.Close)
	return s.URL
}

// call is run with the suite's part of the environment.
func call(t *testing.T, scenario, told string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	status = run(t.Context(), args, func(name string) string {
		return map[string]string{"MCP_CONFORMANCE_SCENARIO": scenario, "MCP_CONFORMANCE_CONTEXT": told}[name]
	}, &out, &errs)
	return status, out.String(), errs.String()
}

func TestRunPrintsTheCounters(t *testing.T) {
	for _, c := range []struct {
		args     []string
		sessions uint64
	}{
		{nil, 0},
		{[]string{"-middleware"}, 1},
	} {
		status, stdout, stderr := call(t, "tools_call", "", append(c.args, startServer(t, nil))...)
		var stats middleware.Stats
		if err := json.Unmarshal([]byte(stdout), &stats); err != nil || status != 0 {
			t.Errorf("client %q: status %d, output %q (%v), errors %q, want 0 and counters", c.args, status, stdout, err, stderr)
			continue
		}
		if want := (middleware.Stats{Sessions: c.sessions}); stats != want {
			t.Errorf("client %q: counters %+v, want %+v", c.args, stats, want)
		}
	}
}

func TestRunSaysWhatWentWrong(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		name, scenario, told string
		args                 []string
		status               int
		stderr               string
	}{
		{"no server", "initialize", "", []string{gone.URL}, 1, "client: initialize: connect"},
		{"the tool fails", "tools_call", "", []string{startServer(t, errors.New("overflow"))}, 1, "add_numbers: the tool reports an error"},
		{"no such tool", "sse-retry", "", []string{startServer(t, nil)}, 1, "call test_reconnection"},
		{"refused, as it should be", "auth/resource-mismatch", "", []string{startServer(t, nil)}, 0, ""},
		{"unknown scenario", "sse-again", "", []string{gone.URL}, 2, `"sse-again", want one of auth/`},
		{"bad context", "initialize", "{", []string{gone.URL}, 2, "MCP_CONFORMANCE_CONTEXT"},
		{"no URL", "initialize", "", nil, 2, "usage"},
		{"unknown flag", "initialize", "", []string{"-guard", gone.URL}, 2, "usage"},
	} {
		status, stdout, stderr := call(t, c.scenario, c.told, c.args...)
		if status != c.status || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: status %d, errors %q, want %d and %q", c.name, status, stderr, c.status, c.stderr)
		}
		if status != 0 && stdout != "" {
			t.Errorf("%s: a client that did not finish prints %q", c.name, stdout)
		}
	}
}

func TestInVain(t *testing.T) {
	s := scenario{version: version20251125}.inVain()
	if err := s.play(t.Context(), startServer(t, nil), &http.Client{}, told{}); err == nil {
		t.Error("a server that takes everything: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.play(ctx, startServer(t, nil), &http.Client{}, told{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that was stopped: %v, want context.Canceled", err)
	}
}
