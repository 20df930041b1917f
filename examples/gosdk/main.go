// Command gosdk guards a client of the official Go SDK,
// github.com/modelcontextprotocol/go-sdk. The SDK's own error says that the
// session is gone, at the reconnect and not at some later call, and the
// middleware says why.
//
// The package scene brings the server, and the load balancer that cuts the
// stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

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

	// The drop-in. The client's Timeout stays 0: it would cut the stream.
	guard, err := middleware.New(middleware.Config{})
	if err != nil {
		return err
	}
	httpClient := &http.Client{Transport: guard}
	defer httpClient.CloseIdleConnections()

	received := make(chan any)
	client := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1"}, &mcp.ClientOptions{
		//lint:ignore SA1019 deprecated in the version that has no sessions
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { received <- r.Params.Data },
	})
	connect := func() (*mcp.ClientSession, error) {
		transport := &mcp.StreamableClientTransport{Endpoint: field.URL(), HTTPClient: httpClient}
		// MCP 2026-07-28 has no sessions, and so none that could die. Where a
		// server has both, the SDK would choose that version.
		return client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	}

	session, err := connect()
	if err != nil {
		return err
	}
	field.Emit(session.ID(), "one")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut. The session lives, and the replay comes through:")
	field.Cut()
	field.Emit(session.ID(), "two")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut, and the session is lost. The server replays all the same:")
	field.Cut()
	field.Emit(session.ID(), "three")
	field.Lose(session.ID())
	err = session.Wait()
	if !errors.Is(err, mcp.ErrSessionMissing) {
		return fmt.Errorf("session ended with %v, want mcp.ErrSessionMissing", err)
	}
	// The SDK's error has the session's id in full, and an id is a credential:
	// better log the middleware's, which abbreviates it.
	fmt.Println("error of the SDK:", mcp.ErrSessionMissing)
	var dead *middleware.SessionResumptionError
	if !errors.As(guard.SessionErr(session.ID()), &dead) {
		return errors.New("the session is not fenced")
	}
	fmt.Println("reason:", dead)

	fmt.Println("\nThe client connects again:")
	if session, err = connect(); err != nil {
		return err
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "four"}})
	if err != nil {
		return err
	}
	fmt.Println("called a tool:", result.Content[0].(*mcp.TextContent).Text)
	return session.Close()
}
