// Command server is chaos/mcpserver, as it behaves with no fault asked of it,
// with the tools that the server scenarios of @modelcontextprotocol/conformance
// call. It is for that suite, which says whether the test server of this
// project is a sound one where it is not told to misbehave.
//
// It has what the scenarios about sessions, streams, ping, logging, progress,
// sampling and elicitation want. Prompts, resources and completion are mcp-go's
// alone, and it has none.
//
// Usage:
//
//	server [-addr 127.0.0.1:0]
//
// It prints its URL on one line, and serves until it is interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// retry is what the server asks clients to wait before they come back.
const retry = 500 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", mcpserver.DefaultAddr, "`host:port` to listen on")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "server: no argument is wanted, and %q is one\n", flags.Arg(0))
		return 2
	}
	s, err := mcpserver.New(mcpserver.Config{Addr: *addr, Retry: retry, Extend: addTools})
	if err != nil {
		fmt.Fprintf(stderr, "server: %v\n", err)
		return 1
	}
	fmt.Fprintln(stdout, s.URL())
	if err := s.Run(ctx); err != nil {
		fmt.Fprintf(stderr, "server: %v\n", err)
		return 1
	}
	return 0
}
