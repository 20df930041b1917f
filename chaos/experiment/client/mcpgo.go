//lint:file-ignore SA1019 In the versions that have sessions, roots, sampling and listening are not deprecated.

package client

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// mcpGoSession is a session of mcp-go's client.
type mcpGoSession struct {
	*client.Client
	alive *life
}

func dialMCPGo(ctx context.Context, c *Client) (session, error) {
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(c.http), // before all that change the client
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	if !c.cfg.CallsOnly {
		options = append(options, transport.WithContinuousListening())
	}
	t, err := transport.NewStreamableHTTP(c.cfg.Endpoint, options...)
	if err != nil {
		return nil, err
	}
	s := &mcpGoSession{alive: newLife(c.life)}
	person := mcpGoPerson{c, s.alive}
	s.Client = client.NewClient(codes{t}, client.WithProtocolVersion(ProtocolVersion),
		client.WithElicitationHandler(person),
		client.WithSamplingHandler(person), client.WithRootsHandler(person))
	s.OnNotification(func(n mcp.JSONRPCNotification) { c.applied(s.alive, n.Method, stampOf(n.Params.Meta)) })
	if err := s.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	_, err = s.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: ProtocolVersion, ClientInfo: mcp.Implementation{Name: "revenant-mcpgo", Version: "1"},
	}})
	if err != nil {
		s.alive.end(err)
		_ = s.Close()
		return nil, err
	}
	c.connected(s.alive, s.GetSessionId())
	return s, nil
}

func (s *mcpGoSession) life() *life { return s.alive }

func (s *mcpGoSession) close() { _ = s.Close() }

func (s *mcpGoSession) call(ctx context.Context, tool string, args map[string]any) CallResult {
	var code int64
	result, err := s.CallTool(context.WithValue(ctx, codeKey{}, &code),
		mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	switch {
	case err == nil:
	case code != 0:
		return CallResult{How: RPCError, Code: code, Err: err}
	case errors.Is(err, transport.ErrSessionTerminated):
		return CallResult{How: SessionError, Err: err}
	default:
		return CallResult{How: TransportError, Err: err}
	}
	r := CallResult{How: Result}
	if result.Meta != nil {
		r.Stamp = stampOf(result.Meta.AdditionalFields)
	}
	if result.IsError {
		r.How = ToolError
	}
	for _, content := range result.Content {
		if text, ok := content.(mcp.TextContent); ok {
			r.Text = text.Text
			break
		}
	}
	return r
}

// codes is mcp-go's transport, which tells a call the code of the JSON-RPC error
// that its client makes a text of, and the person the stamp of a request of which
// its client does not hand the _meta on.
type codes struct{ *transport.StreamableHTTP }

type (
	codeKey  struct{}
	stampKey struct{}
)

// SendRequest implements [transport.Interface].
func (t codes) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := t.StreamableHTTP.SendRequest(ctx, r)
	if code, ok := ctx.Value(codeKey{}).(*int64); ok && err == nil && resp.Error != nil {
		*code = int64(resp.Error.Code)
	}
	return resp, err
}

// SetRequestHandler implements [transport.BidirectionalInterface].
func (t codes) SetRequestHandler(handle transport.RequestHandler) {
	t.StreamableHTTP.SetRequestHandler(func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		params, _ := r.Params.(map[string]any)
		meta, _ := params["_meta"].(map[string]any)
		return handle(context.WithValue(ctx, stampKey{}, stampOf(meta)), r)
	})
}

// mcpGoPerson is the person behind mcp-go's interfaces.
type mcpGoPerson struct {
	client *Client
	of     *life
}

func (p mcpGoPerson) prompt(ctx context.Context, method mcp.MCPMethod) (Action, error) {
	stamp, _ := ctx.Value(stampKey{}).(mcpserver.Stamp)
	return p.client.prompt(ctx, p.of, string(method), stamp)
}

// Elicit implements [client.ElicitationHandler].
func (p mcpGoPerson) Elicit(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	action, err := p.prompt(ctx, mcp.MethodElicitationCreate)
	if err != nil {
		return nil, err
	}
	result := &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseAction(action)}}
	if action == Accept && r.Params.Mode != mcp.ElicitationModeURL {
		result.Content = map[string]any{"confirm": true}
	}
	return result, nil
}

// CreateMessage implements [client.SamplingHandler].
func (p mcpGoPerson) CreateMessage(ctx context.Context, _ mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	action, err := p.prompt(ctx, mcp.MethodSamplingCreateMessage)
	if err == nil && action != Accept {
		err = errRefused
	}
	if err != nil {
		return nil, err
	}
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(sampled)}, Model: "none",
	}, nil
}

// ListRoots implements [client.RootsHandler].
func (p mcpGoPerson) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	if _, err := p.prompt(ctx, mcp.MethodListRoots); err != nil {
		return nil, err
	}
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: root}}}, nil
}
