package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxAsks bounds how often one call of confirm asks.
const maxAsks = 100

// addAskingTools adds the tools that ask the client something.
func (s *process) addAskingTools(m *server.MCPServer) {
	m.AddTool(mcp.NewTool("confirm",
		mcp.WithDescription("Asks the user on the stream of this call with elicitation/create, times times, and answers what the user did. Between the last answer and its own it sends work_events notifications, one every interval_ms. Survives its connection."),
		mcp.WithString("message", mcp.Required()),
		mcp.WithNumber("times", mcp.Min(1), mcp.Max(maxAsks)),
		mcp.WithNumber("work_events", mcp.Min(0), mcp.Max(maxNotifications)),
		mcp.WithNumber("interval_ms", mcp.Min(0), mcp.Max(float64(maxInterval.Milliseconds()))),
	), s.confirm)
	m.AddTool(mcp.NewTool("confirm_url",
		mcp.WithDescription("Asks the user on the stream of this call to open url, with elicitation/create in URL mode. If the user accepts, sends notifications/elicitation/complete. Survives its connection."),
		mcp.WithString("message", mcp.Required()),
		mcp.WithString("url", mcp.Required()),
	), s.confirmURL)
	m.AddTool(mcp.NewTool("sample",
		mcp.WithDescription("Asks the client's model on the stream of this call with sampling/createMessage. Survives its connection."),
		mcp.WithString("prompt", mcp.Required()),
	), s.sample)
	m.AddTool(mcp.NewTool("roots",
		mcp.WithDescription("Asks the client on the stream of this call with roots/list. Survives its connection."),
	), s.roots)
	m.AddTool(mcp.NewTool("ping_client",
		mcp.WithDescription("Pings the client on the stream of this call. Survives its connection."),
	), s.pingClient)
}

func (s *process) confirm(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Message  *string `json:"message"`
		Times    *int    `json:"times"`
		Events   int     `json:"work_events"`
		Interval int64   `json:"interval_ms"`
	}
	if err := r.BindArguments(&args); err != nil {
		return mcp.NewToolResultErrorFromErr("arguments", err), nil
	}
	times := 1
	if args.Times != nil {
		times = *args.Times
	}
	switch {
	case args.Message == nil:
		return mcp.NewToolResultError("message is missing"), nil
	case times < 1 || times > maxAsks:
		return mcp.NewToolResultErrorf("times is %d: want 1 to %d", times, maxAsks), nil
	case args.Events < 0 || args.Events > maxNotifications:
		return mcp.NewToolResultErrorf("work_events is %d: want 0 to %d", args.Events, maxNotifications), nil
	case args.Interval < 0 || args.Interval > maxInterval.Milliseconds():
		return mcp.NewToolResultErrorf("interval_ms is %d: want 0 to %d", args.Interval, maxInterval.Milliseconds()), nil
	}
	var answers []string
	for range times {
		e, err := elicitation(s.askOnCall(ctx, callFrom(ctx), string(mcp.MethodElicitationCreate), confirmForm(*args.Message)))
		if err != nil {
			return failed(ctx, "confirm", err)
		}
		answers = append(answers, strings.TrimSpace(fmt.Sprintf("confirm: %s %s", e.Action, e.Content)))
	}
	if err := s.sendEvery(ctx, "confirm", args.Events, time.Duration(args.Interval)*time.Millisecond, true); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(strings.Join(answers, "\n")), nil
}

func (s *process) confirmURL(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	message, err := r.RequireString("message")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	target, err := r.RequireString("url")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	if u, err := url.Parse(target); err != nil || !u.IsAbs() || u.Host == "" {
		return mcp.NewToolResultErrorf("url is %q: want an absolute URL", target), nil
	}
	id := rand.Text()
	e, err := elicitation(s.askOnCall(ctx, callFrom(ctx), string(mcp.MethodElicitationCreate), map[string]any{
		"mode": mcp.ElicitationModeURL, "message": message, "url": target, "elicitationId": id,
	}))
	if err != nil {
		return failed(ctx, "confirm_url", err)
	}
	if e.Action == "accept" {
		ctx, cancel := within(ctx, s.life)
		defer cancel()
		n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
		n.Method = string(mcp.MethodNotificationElicitationComplete)
		n.Params.AdditionalFields = map[string]any{"elicitationId": id}
		ch := server.ClientSessionFromContext(ctx).NotificationChannel()
		if _, err := s.send(ctx, ch, callFrom(ctx).session, n); err != nil {
			return nil, err
		}
	}
	return mcp.NewToolResultText("confirm_url: " + e.Action), nil
}

func (s *process) sample(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	prompt, err := r.RequireString("prompt")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	result, err := s.askOnCall(ctx, callFrom(ctx), string(mcp.MethodSamplingCreateMessage), map[string]any{
		"messages":  []any{map[string]any{"role": mcp.RoleUser, "content": mcp.NewTextContent(prompt)}},
		"maxTokens": 100,
	})
	var message struct {
		Model   string `json:"model"`
		Content struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	}
	if err == nil {
		err = readResult(mcp.MethodSamplingCreateMessage, result, &message)
	}
	if err != nil {
		return failed(ctx, "sample", err)
	}
	return mcp.NewToolResultText(fmt.Sprintf("sample: %s %s %q", message.Model, message.Content.Type, message.Content.Text)), nil
}

func (s *process) roots(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	result, err := s.askOnCall(ctx, callFrom(ctx), string(mcp.MethodListRoots), nil)
	var list struct {
		Roots []struct {
			URI string `json:"uri"`
		} `json:"roots"`
	}
	if err == nil {
		err = readResult(mcp.MethodListRoots, result, &list)
	}
	if err != nil {
		return failed(ctx, "roots", err)
	}
	text := fmt.Sprintf("roots: %d", len(list.Roots))
	for _, root := range list.Roots {
		text += " " + root.URI
	}
	return mcp.NewToolResultText(text), nil
}

func (s *process) pingClient(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if _, err := s.askOnCall(ctx, callFrom(ctx), string(mcp.MethodPing), nil); err != nil {
		return failed(ctx, "ping_client", err)
	}
	return mcp.NewToolResultText("ping_client: answered"), nil
}

// failed is what a tool answers that was not answered. What ended the call or
// the server is an error of the call, as with the other tools; the rest is the
// tool's own.
func failed(ctx context.Context, tool string, err error) (*mcp.CallToolResult, error) {
	if ctx.Err() != nil || errors.Is(err, ErrSessionGone) || errors.Is(err, ErrClosed) {
		return nil, err
	}
	return mcp.NewToolResultErrorFromErr(tool, err), nil
}
