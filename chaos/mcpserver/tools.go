package mcpserver

import (
	"context"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Bounds of what a client may ask a tool for.
const (
	maxNotifications = 100_000
	maxInterval      = 24 * time.Hour
)

func (s *process) addTools(m *server.MCPServer) {
	m.AddTool(mcp.NewTool("echo",
		mcp.WithDescription("Answers its text."),
		mcp.WithString("text", mcp.Required()),
	), s.echo)
	m.AddTool(mcp.NewTool("emit",
		mcp.WithDescription("Sends notifications on the stream of this call, then answers."),
		mcp.WithNumber("count", mcp.Required(), mcp.Min(0), mcp.Max(maxNotifications)),
	), s.emitTool)
	m.AddTool(mcp.NewTool("work",
		mcp.WithDescription("Sends a notification on the stream of this call every interval_ms, events times, then answers. Ends with its connection unless detached."),
		mcp.WithNumber("events", mcp.Required(), mcp.Min(0), mcp.Max(maxNotifications)),
		mcp.WithNumber("interval_ms", mcp.Required(), mcp.Min(0), mcp.Max(float64(maxInterval.Milliseconds()))),
		mcp.WithBoolean("detached"),
	), s.work)
	s.addAskingTools(m)
}

// stampAnswers puts a stamp on every answer of a tool.
func (s *process) stampAnswers(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := next(ctx, r)
		if result != nil {
			stamp := s.oracle.stamp(callFrom(ctx).session)
			result.Meta = &mcp.Meta{AdditionalFields: map[string]any{StampKey: stamp}}
		}
		return result, err
	}
}

func (s *process) echo(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := r.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(text), nil
}

func (s *process) emitTool(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Count int `json:"count"`
	}
	if err := r.BindArguments(&args); err != nil {
		return mcp.NewToolResultErrorFromErr("arguments", err), nil
	}
	if args.Count < 0 || args.Count > maxNotifications {
		return mcp.NewToolResultErrorf("count is %d: want 0 to %d", args.Count, maxNotifications), nil
	}
	return s.notify(ctx, "emit", args.Count, 0, false)
}

func (s *process) work(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Events   int   `json:"events"`
		Interval int64 `json:"interval_ms"`
		Detached bool  `json:"detached"`
	}
	if err := r.BindArguments(&args); err != nil {
		return mcp.NewToolResultErrorFromErr("arguments", err), nil
	}
	if args.Events < 0 || args.Events > maxNotifications {
		return mcp.NewToolResultErrorf("events is %d: want 0 to %d", args.Events, maxNotifications), nil
	}
	if args.Interval < 0 || args.Interval > maxInterval.Milliseconds() {
		return mcp.NewToolResultErrorf("interval_ms is %d: want 0 to %d", args.Interval, maxInterval.Milliseconds()), nil
	}
	return s.notify(ctx, "work", args.Events, time.Duration(args.Interval)*time.Millisecond, args.Detached)
}

// notify sends count notifications on the stream of a call, one per interval,
// and answers. It ends early with the call's connection unless it is detached,
// and in any case with the server or when the client cancels the call.
func (s *process) notify(ctx context.Context, name string, count int, interval time.Duration, detached bool) (*mcp.CallToolResult, error) {
	if err := s.sendEvery(ctx, name, count, interval, detached); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s: %d sent", name, count)), nil
}

// sendEvery is notify without the answer.
func (s *process) sendEvery(ctx context.Context, name string, count int, interval time.Duration, detached bool) error {
	c := callFrom(ctx)
	ends := []context.Context{s.life}
	if !detached {
		ends = append(ends, c.ctx)
	}
	ctx, cancel := within(ctx, ends...)
	defer cancel()
	ch := server.ClientSessionFromContext(ctx).NotificationChannel()
	tick := time.NewTimer(interval)
	defer tick.Stop()
	for i := range count {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		tick.Reset(interval)
		if _, err := s.send(ctx, ch, c.session, logMessage(fmt.Sprintf("%s %d of %d", name, i+1, count))); err != nil {
			return err
		}
	}
	return nil
}
