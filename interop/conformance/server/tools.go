package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// pause is what the suite wants between two notifications.
const pause = 50 * time.Millisecond

// addTools adds the tools that the suite calls, under its names.
func addTools(s *mcpserver.Server, m *server.MCPServer) {
	add := func(name, description string, handler server.ToolHandlerFunc, options ...mcp.ToolOption) {
		m.AddTool(mcp.NewTool(name, append(options, mcp.WithDescription(description))...), handler)
	}
	add("test_simple_text", "Answers a text.", simpleText)
	add("test_error_handling", "Fails.", fails)
	add("test_tool_with_logging", "Logs three times.", logs(m))
	add("test_tool_with_progress", "Reports its progress three times.", progresses(m))
	add("test_reconnection", "Sends something before it answers.", logs(m))
	add("test_sampling", "Asks the client's model.", samples(s),
		mcp.WithString("prompt", mcp.Required()))
	add("test_elicitation", "Asks the user for a name and an address.", elicitsMessage(s),
		mcp.WithString("message", mcp.Required()))
	add("test_elicitation_sep1034_defaults", "Asks the user with a default for each type.", elicits(s, "Check the defaults", defaults()))
	add("test_elicitation_sep1330_enums", "Asks the user with each kind of enum.", elicits(s, "Choose", enums()))
}

func simpleText(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("This is a simple text response for testing."), nil
}

func fails(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
}

func logs(m *server.MCPServer) server.ToolHandlerFunc {
	return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if err := step(ctx, i); err != nil {
				return nil, err
			}
			if err := m.SendNotificationToClient(ctx, "notifications/message", map[string]any{
				"level": mcp.LoggingLevelInfo, "data": text,
			}); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("logged 3 times"), nil
	}
}

func progresses(m *server.MCPServer) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, progress := range []int{0, 50, 100} {
			if err := step(ctx, i); err != nil {
				return nil, err
			}
			if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
				continue
			}
			if err := m.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": progress, "total": 100,
			}); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	}
}

// step pauses before every step but the first.
func step(ctx context.Context, i int) error {
	if i == 0 {
		return nil
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func samples(s *mcpserver.Server) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		prompt, err := r.RequireString("prompt")
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		result, err := s.AskOnCall(ctx, string(mcp.MethodSamplingCreateMessage), map[string]any{
			"messages":  []any{map[string]any{"role": mcp.RoleUser, "content": mcp.NewTextContent(prompt)}},
			"maxTokens": 100,
		})
		var message struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if err == nil {
			err = json.Unmarshal(result, &message)
		}
		if err != nil {
			return mcp.NewToolResultErrorFromErr("sampling", err), nil
		}
		return mcp.NewToolResultText("LLM response: " + message.Content.Text), nil
	}
}

func elicitsMessage(s *mcpserver.Server) server.ToolHandlerFunc {
	schema := object(map[string]any{
		"username": map[string]any{"type": "string", "description": "User's response"},
		"email":    map[string]any{"type": "string", "description": "User's email address"},
	}, "username", "email")
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		message, err := r.RequireString("message")
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return elicit(ctx, s, "User response", message, schema)
	}
}

func elicits(s *mcpserver.Server, message string, schema map[string]any) server.ToolHandlerFunc {
	return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return elicit(ctx, s, "Elicitation completed", message, schema)
	}
}

// elicit asks the user, and answers what the user did, after the words with
// which the suite wants it to begin.
func elicit(ctx context.Context, s *mcpserver.Server, words, message string, schema map[string]any) (*mcp.CallToolResult, error) {
	result, err := s.AskOnCall(ctx, string(mcp.MethodElicitationCreate), map[string]any{
		"message": message, "requestedSchema": schema,
	})
	var e mcpserver.Elicitation
	if err == nil {
		err = json.Unmarshal(result, &e)
	}
	if err != nil {
		return mcp.NewToolResultErrorFromErr("elicitation", err), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s: action=%s, content=%s", words, e.Action, e.Content)), nil
}

// object is a schema in which the named properties are required.
func object(properties map[string]any, required ...string) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// defaults is SEP-1034: each primitive type with a default.
func defaults() map[string]any {
	return object(map[string]any{
		"name":     map[string]any{"type": "string", "default": "John Doe"},
		"age":      map[string]any{"type": "integer", "default": 30},
		"score":    map[string]any{"type": "number", "default": 95.5},
		"status":   map[string]any{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
		"verified": map[string]any{"type": "boolean", "default": true},
	})
}

// enums is SEP-1330: single and multiple choice, with and without titles, and
// titled as it was before.
func enums() map[string]any {
	plain := []string{"option1", "option2", "option3"}
	return object(map[string]any{
		"untitledSingle": map[string]any{"type": "string", "enum": plain},
		"titledSingle":   map[string]any{"type": "string", "oneOf": titled("Option")},
		"legacyEnum": map[string]any{
			"type": "string", "enum": []string{"opt1", "opt2", "opt3"},
			"enumNames": []string{"Option One", "Option Two", "Option Three"},
		},
		"untitledMulti": map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": plain}},
		"titledMulti":   map[string]any{"type": "array", "items": map[string]any{"anyOf": titled("Choice")}},
	})
}

func titled(what string) []any {
	var all []any
	for i, ordinal := range []string{"First", "Second", "Third"} {
		all = append(all, map[string]any{"const": fmt.Sprintf("value%d", i+1), "title": ordinal + " " + what})
	}
	return all
}
