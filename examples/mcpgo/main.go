// Command mcpgo guards a client of github.com/mark3labs/mcp-go. That client
// loses its place in the stream at every break, and keeps to itself that its
// session is gone until the next call. The middleware restores the place, and
// its hook tells of the death at the reconnect.
//
// The package scene brings the server, and the load balancer that cuts the
// stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/revenant-mcp/revenant/examples/internal/scene"
	"github.com/revenant-mcp/revenant/middleware"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	field := scene.Start()
	defer field.Stop()

	// The drop-in, with a hook. The middleware waits for the hook, which
	// therefore waits for nobody.
	died := make(chan error, 1)
	guard, err := middleware.New(middleware.Config{Observe: func(e middleware.Event) {
		switch e.Kind {
		case middleware.CursorRestored:
			fmt.Println("cursor restored:", e.LastEventID)
		case middleware.SessionDead:
			select {
			case died <- e.Err:
			default:
			}
		}
	}})
	if err != nil {
		return err
	}
	httpClient := &http.Client{Transport: guard}
	defer httpClient.CloseIdleConnections()

	t, err := transport.NewStreamableHTTP(field.URL(),
		// Before all other options: some change the client that they find. Not
		// with WithHTTPTimeout, which would cut the stream.
		transport.WithHTTPBasicClient(httpClient),
		//lint:ignore SA1019 deprecated in the version that has no sessions
		transport.WithContinuousListening(),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)), // it reports every break
	)
	if err != nil {
		return err
	}
	// MCP 2026-07-28 has no sessions, and so none that could die. Where a server
	// has both, mcp-go would choose that version if it could.
	c := client.NewClient(t, client.WithProtocolVersion("2025-11-25"))
	received := make(chan any)
	c.OnNotification(func(n mcp.JSONRPCNotification) { received <- n.Params.AdditionalFields["data"] })
	if err := c.Start(ctx); err != nil {
		return err
	}
	defer c.Close()
	initialize := mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "mcpgo", Version: "1"}}}
	if _, err := c.Initialize(ctx, initialize); err != nil {
		return err
	}
	field.Emit(c.GetSessionId(), "one")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut. The session lives, and the replay comes through:")
	field.Cut()
	field.Emit(c.GetSessionId(), "two")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut, and the session is lost. The server replays all the same:")
	field.Cut()
	field.Emit(c.GetSessionId(), "three")
	field.Lose(c.GetSessionId())
	fmt.Println("reason:", <-died)
	echo := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "four"}}}
	if _, err = c.CallTool(ctx, echo); !errors.Is(err, transport.ErrSessionTerminated) {
		return fmt.Errorf("call of a dead session: %v, want transport.ErrSessionTerminated", err)
	}
	fmt.Println("error of mcp-go:", err)

	fmt.Println("\nThe client initializes again:")
	if _, err := c.Initialize(ctx, initialize); err != nil {
		return err
	}
	result, err := c.CallTool(ctx, echo)
	if err != nil {
		return err
	}
	fmt.Println("called a tool:", mcp.GetTextFromContent(result.Content[0]))
	field.Emit(c.GetSessionId(), "five")
	fmt.Println("received:", <-received)
	return nil
}
