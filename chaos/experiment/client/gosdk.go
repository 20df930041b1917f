//lint:file-ignore SA1019 In the versions that have sessions, roots, sampling and logging are not deprecated.

package client

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// The codes by which go-sdk's own errors are told from a server's: they are of
// the same type.
const (
	goSDKServerClosing = -32004
	goSDKClientClosing = -32003
	goSDKRejected      = -32005
)

// goSDKSession is a session of go-sdk's client. That ends by itself when its
// session is over.
type goSDKSession struct {
	*mcp.ClientSession
	alive *life
	ended chan struct{} // closed when the SDK has said that the session is over
}

func dialGoSDK(ctx context.Context, c *Client) (session, error) {
	s := &goSDKSession{alive: newLife(c.life), ended: make(chan struct{})}
	impl := mcp.NewClient(&mcp.Implementation{Name: "revenant-gosdk", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			action, err := c.prompt(ctx, s.alive, "elicitation/create", stampOf(r.Params.Meta))
			if err != nil {
				return nil, err
			}
			result := &mcp.ElicitResult{Action: string(action)}
			if action == Accept && r.Params.Mode != "url" {
				result.Content = map[string]any{"confirm": true}
			}
			return result, nil
		},
		CreateMessageHandler: func(ctx context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			action, err := c.prompt(ctx, s.alive, "sampling/createMessage", stampOf(r.Params.Meta))
			if err == nil && action != Accept {
				err = errRefused
			}
			if err != nil {
				return nil, err
			}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "none", Content: &mcp.TextContent{Text: sampled}}, nil
		},
	})
	impl.AddRoots(&mcp.Root{URI: root})
	impl.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			switch params := r.GetParams().(type) {
			case *mcp.ListRootsParams: // go-sdk answers it by itself.
				var meta mcp.Meta
				if params != nil {
					meta = params.Meta
				}
				if _, err := c.prompt(ctx, s.alive, method, stampOf(meta)); err != nil {
					return nil, err
				}
			case *mcp.LoggingMessageParams:
				c.applied(s.alive, method, stampOf(params.Meta))
			case *mcp.ElicitationCompleteParams:
				c.applied(s.alive, method, stampOf(params.Meta))
			}
			return next(ctx, method, r)
		}
	})
	began, err := impl.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: c.cfg.Endpoint, HTTPClient: c.http, DisableStandaloneSSE: c.cfg.CallsOnly,
	}, &mcp.ClientSessionOptions{ProtocolVersion: ProtocolVersion})
	if err != nil {
		s.alive.end(err)
		return nil, err
	}
	s.ClientSession = began
	c.connected(s.alive, began.ID())
	go func() {
		defer close(s.ended)
		// A session that the application leaves itself ends without an error.
		if err := began.Wait(); err != nil {
			c.over(s, err, c.edge.endedBy(began.ID()))
		}
	}()
	return s, nil
}

func (s *goSDKSession) life() *life { return s.alive }

func (s *goSDKSession) close() {
	_ = s.Close() // A DELETE that fails tells nothing new.
	<-s.ended
}

func (s *goSDKSession) call(ctx context.Context, tool string, args map[string]any) CallResult {
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		r := CallResult{How: TransportError, Err: err}
		if rpc := (*jsonrpc.Error)(nil); errors.Is(err, mcp.ErrSessionMissing) || errors.Is(err, mcp.ErrConnectionClosed) {
			r.How = SessionError
		} else if errors.As(err, &rpc) && rpc.Code != goSDKServerClosing && rpc.Code != goSDKClientClosing && rpc.Code != goSDKRejected {
			r.How, r.Code = RPCError, rpc.Code
		}
		return r
	}
	r := CallResult{How: Result, Stamp: stampOf(result.Meta)}
	if result.IsError {
		r.How = ToolError
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			r.Text = text.Text
			break
		}
	}
	return r
}

// What the clients answer that have to answer something.
const (
	sampled = "sampled"
	root    = "file:///revenant"
)

var errRefused = errors.New("client: the person refuses")

// stampOf is the oracle's stamp in a message, zero if it has none.
func stampOf(meta map[string]any) mcpserver.Stamp {
	stamp, _ := mcpserver.StampOf(meta)
	return stamp
}

// applied logs that the application was handed a notification.
func (c *Client) applied(of *life, method string, stamp mcpserver.Stamp) {
	c.log.add(Record{Kind: Applied, SessionID: of.name(), Method: method, Stamp: stamp})
}
