// Command nethttp guards a client that speaks MCP with nothing but net/http. The
// client is in client.go: it initializes by POST, reads the event stream by GET,
// and resumes the stream with Last-Event-ID when it breaks. Once its session is
// gone it hears so at the reconnect, with the reason, and initializes again.
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

	"github.com/revenant-mcp/revenant/examples/internal/scene"
	"github.com/revenant-mcp/revenant/middleware"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	field := scene.Start()
	defer field.Stop()

	// The drop-in. The client's Timeout stays 0: it would cut the stream.
	guard, err := middleware.New(middleware.Config{})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: guard}
	defer client.CloseIdleConnections()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	received, over := make(chan string), make(chan error)
	start := func() (*session, error) {
		s, err := initialize(ctx, client, field.URL())
		if err == nil {
			go func() { over <- s.listen(ctx, func(text string) { received <- text }) }()
		}
		return s, err
	}

	s, err := start()
	if err != nil {
		return err
	}
	field.Emit(s.id, "one")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut. The session lives, and the replay comes through:")
	field.Cut()
	field.Emit(s.id, "two")
	fmt.Println("received:", <-received)

	fmt.Println("\nThe stream is cut, and the session is lost. The server replays all the same:")
	field.Cut()
	field.Emit(s.id, "three")
	field.Lose(s.id)
	err = <-over
	var dead *middleware.SessionResumptionError
	if !errors.As(err, &dead) {
		return fmt.Errorf("listen ended with %v, want a *middleware.SessionResumptionError", err)
	}
	fmt.Println("error:", dead)
	for _, e := range dead.Quarantined {
		fmt.Printf("not received: event %s, %s, %d bytes\n", e.EventID, e.Method, e.Bytes)
	}

	fmt.Println("\nThe client initializes again:")
	if s, err = start(); err != nil {
		return err
	}
	field.Emit(s.id, "four")
	fmt.Println("received:", <-received)
	stop()
	<-over
	return s.end(context.Background())
}
