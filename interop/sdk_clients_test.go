package interop_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mark "github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// official is an unmodified go-sdk client and what it handed on.
type official struct {
	*gosdk.ClientSession
	inbox
	ended chan struct{} // closed when Wait has returned
	err   error         // of Wait; set before ended is closed
	at    time.Duration // when it returned
}

// connectOfficial connects a go-sdk client. The test's end closes it.
func (a *arm) connectOfficial() *official {
	a.t.Helper()
	c, err := a.tryOfficial(a.t.Context())
	if err != nil {
		a.t.Fatalf("Connect() = %v, want nil", err)
	}
	return c
}

func (a *arm) tryOfficial(ctx context.Context) (*official, error) {
	c := &official{ended: make(chan struct{})}
	impl := gosdk.NewClient(&gosdk.Implementation{Name: "official", Version: "1"}, &gosdk.ClientOptions{
		//lint:ignore SA1019 deprecated in the version that has no sessions
		LoggingMessageHandler: func(_ context.Context, r *gosdk.LoggingMessageRequest) { c.put(r.Params.Data) },
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
			c.put(r.Params.Message)
		},
	})
	session, err := impl.Connect(ctx, &gosdk.StreamableClientTransport{
		Endpoint: a.url, HTTPClient: a.http, DisableStandaloneSSE: a.quiet,
	},
		&gosdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, err
	}
	c.ClientSession = session
	go func() {
		defer close(c.ended)
		c.err = session.Wait()
		c.at = time.Since(a.tap.began)
	}()
	a.t.Cleanup(func() {
		session.Close()
		<-c.ended
	})
	return c, nil
}

// alive reports whether the client holds its session for alive.
func (c *official) alive() bool {
	synctest.Wait()
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

func (c *official) call(ctx context.Context, tool string, args map[string]any) (string, error) {
	result, err := c.CallTool(ctx, &gosdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*gosdk.TextContent).Text, nil
}

// marks is an unmodified mcp-go client and what it handed on.
type marks struct {
	*client.Client
	inbox
}

// connectMarks connects an mcp-go client; with listen, it keeps a standalone
// stream open. The test's end closes it.
func (a *arm) connectMarks(listen bool) *marks {
	a.t.Helper()
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(a.http),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	if listen {
		//lint:ignore SA1019 deprecated in the version that has no sessions
		options = append(options, transport.WithContinuousListening())
	}
	tr, err := transport.NewStreamableHTTP(a.url, options...)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &marks{Client: client.NewClient(tr, client.WithProtocolVersion(version))}
	c.OnNotification(func(n mark.JSONRPCNotification) {
		if text, ok := n.Params.AdditionalFields["message"]; ok {
			c.put(text) // of a progress notification
		} else {
			c.put(n.Params.AdditionalFields["data"])
		}
	})
	if err := c.Start(context.Background()); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	if err := c.initialize(a.t.Context()); err != nil {
		a.t.Fatalf("Initialize() = %v, want nil", err)
	}
	return c
}

func (c *marks) initialize(ctx context.Context) error {
	_, err := c.Initialize(ctx, mark.InitializeRequest{Params: mark.InitializeParams{
		ProtocolVersion: version, ClientInfo: mark.Implementation{Name: "marks", Version: "1"},
	}})
	return err
}

func (c *marks) call(ctx context.Context, tool string, args map[string]any) (string, error) {
	result, err := c.CallTool(ctx, mark.CallToolRequest{Params: mark.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		return "", err
	}
	return mark.GetTextFromContent(result.Content[0]), nil
}

// outcome is how a call under way ends.
type outcome struct {
	text string
	err  error
	at   time.Duration
}

// caller is either client.
type caller interface {
	call(ctx context.Context, tool string, args map[string]any) (string, error)
}

// start calls a tool in the background.
func (a *arm) start(c caller, tool string, args map[string]any) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		text, err := c.call(context.Background(), tool, args)
		done <- outcome{text, err, time.Since(a.tap.began)}
	}()
	return done
}

// settled is the outcome that is there when nothing moves any more.
func settled(t *testing.T, done <-chan outcome) (o outcome, over bool) {
	t.Helper()
	synctest.Wait()
	select {
	case o = <-done:
		return o, true
	default:
		return outcome{}, false
	}
}
