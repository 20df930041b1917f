// Command client is the client that the official MCP conformance suite tests: a
// client of go-sdk, over http.DefaultTransport or, with -middleware, through
// the middleware. The two differ in nothing else, so that what differs in the
// suite's checks is the middleware's doing.
//
// The suite starts it with the URL of a server of its own as the last argument,
// the name of the scenario in MCP_CONFORMANCE_SCENARIO, and what the scenario
// tells the client, credentials for example, in MCP_CONFORMANCE_CONTEXT. It is
// not a client to use, nor an example of one: see examples/gosdk for that.
//
// A client that did what the scenario asks of it prints the middleware's
// counters as JSON, all zero without -middleware, and ends with status 0. Any
// other says on stderr what went wrong.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// timeout is for everything that a scenario asks. It is shorter than the
// suite's own of 30 s, which kills the shell around this program and not this
// program.
const timeout = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is the program: it returns the exit status, 2 for a wrong call.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: MCP_CONFORMANCE_SCENARIO=name client [-middleware] URL")
		flags.PrintDefaults()
	}
	guarded := flags.Bool("middleware", false, "send everything through the middleware")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	name := getenv("MCP_CONFORMANCE_SCENARIO")
	s, ok := scenarios[name]
	if !ok {
		fmt.Fprintf(stderr, "client: MCP_CONFORMANCE_SCENARIO is %q, want one of %s\n",
			name, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
		return 2
	}
	told, err := parseTold(getenv("MCP_CONFORMANCE_CONTEXT"))
	if err != nil {
		fmt.Fprintf(stderr, "client: MCP_CONFORMANCE_CONTEXT: %v\n", err)
		return 2
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stats, err := play(ctx, s, flags.Arg(0), told, *guarded)
	if err != nil {
		fmt.Fprintf(stderr, "client: %s: %v\n", name, err)
		return 1
	}
	if err := json.NewEncoder(stdout).Encode(stats); err != nil {
		fmt.Fprintf(stderr, "client: %v\n", err)
		return 1
	}
	return 0
}

// play is a whole scenario with a client of its own. Of the middleware it
// returns the counters, also beside an error.
func play(ctx context.Context, s scenario, endpoint string, told told, guarded bool) (middleware.Stats, error) {
	if !guarded {
		return middleware.Stats{}, s.play(ctx, endpoint, &http.Client{}, told)
	}
	guard, err := middleware.New(middleware.Config{})
	if err != nil {
		return middleware.Stats{}, err
	}
	err = s.play(ctx, endpoint, &http.Client{Transport: guard}, told)
	return guard.Stats(), err
}
