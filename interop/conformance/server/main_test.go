package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsageErrorsSayWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-port", "1"}, 2, "-port"},
		{[]string{"extra"}, 2, `"extra"`},
		{[]string{"-addr", "nowhere"}, 1, `Addr is "nowhere"`},
	} {
		var stdout, stderr strings.Builder
		if code := run(t.Context(), test.args, &stdout, &stderr); code != test.code || !strings.Contains(stderr.String(), test.want) || stdout.Len() != 0 {
			t.Errorf("run(%q) = %d, %q, want %d and %q", test.args, code, stderr.String(), test.code, test.want)
		}
	}
}

func TestServesTheSuitesTools(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- run(ctx, nil, stdout, io.Discard) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		//lint:ignore SA1019 In the versions that have sessions, sampling is not deprecated.
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			//lint:ignore SA1019 as above
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "hello"}}, nil
		},
	})
	transport := &http.Transport{}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: strings.TrimSpace(line), HTTPClient: &http.Client{Transport: transport},
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		args    map[string]any
		want    string
		isError bool
	}{
		{"test_simple_text", nil, "This is a simple text response for testing.", false},
		{"test_error_handling", nil, "This tool intentionally returns an error for testing", true},
		{"test_tool_with_logging", nil, "logged 3 times", false},
		{"test_tool_with_progress", nil, "done", false},
		{"test_reconnection", nil, "logged 3 times", false},
		{"test_sampling", map[string]any{"prompt": "hi"}, "LLM response: hello", false},
		{"test_sampling", nil, "prompt", true},
		{"test_elicitation", map[string]any{"message": "?"}, "User response: action=decline, content=", false},
		{"test_elicitation", nil, "message", true},
		{"test_elicitation_sep1034_defaults", nil, "Elicitation completed: action=decline", false},
		{"test_elicitation_sep1330_enums", nil, "Elicitation completed: action=decline", false},
	} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: test.name, Arguments: test.args})
		if err != nil {
			t.Errorf("CallTool(%s) = %v, want nil", test.name, err)
			continue
		}
		if text := result.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, test.want) || result.IsError != test.isError {
			t.Errorf("%s: %q, error %v, want %q, %v", test.name, text, result.IsError, test.want, test.isError)
		}
	}
	session.Close()
	transport.CloseIdleConnections()
	stop()
	if c := <-code; c != 0 {
		t.Errorf("run() = %d, want 0", c)
	}
}
