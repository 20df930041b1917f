// Command slog sends what the middleware decides to log/slog, and counts it. The
// hook is in observe.go. The client, one of go-sdk, reconnects to a session that
// lives and then to one that is dead.
//
// The package scene brings the server, and the load balancer that cuts the
// stream.
package main

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"

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

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
	counts := expvar.NewMap("revenant") // at /debug/vars of http.DefaultServeMux, too

	// The drop-in, with the hook. The client's Timeout stays 0: it would cut the
	// stream.
	guard, err := middleware.New(middleware.Config{Observe: observe(logger, counts)})
	if err != nil {
		return err
	}
	httpClient := &http.Client{Transport: guard}
	defer httpClient.CloseIdleConnections()

	received := make(chan any)
	client := mcp.NewClient(&mcp.Implementation{Name: "slog", Version: "1"}, &mcp.ClientOptions{
		//lint:ignore SA1019 deprecated in the version that has no sessions
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { received <- r.Params.Data },
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: field.URL(), HTTPClient: httpClient},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}) // the latest version with sessions
	if err != nil {
		return err
	}
	field.Emit(session.ID(), "one")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut, and the session lives:")
	field.Cut()
	field.Emit(session.ID(), "two")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut, and the session is lost:")
	field.Cut()
	field.Emit(session.ID(), "three")
	field.Lose(session.ID())
	if err := session.Wait(); !errors.Is(err, mcp.ErrSessionMissing) {
		return fmt.Errorf("session ended with %v, want mcp.ErrSessionMissing", err)
	}

	fmt.Println("\nrevenant:", counts)
	return nil
}

// withoutTime keeps this program's output short.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
