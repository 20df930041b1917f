// Command conformance runs the official MCP conformance suite: its client
// scenarios against a go-sdk client, once over the bare transport and once
// through the middleware, and those of its server scenarios that concern
// sessions and streams against the chaos suite's server. It prints one table,
// and ends with status 1 if the middleware costs a client a single check, or if
// the server fails one.
//
// It is for whoever changes the middleware or the server, by way of make
// conformance: scripts/conformance.sh gets the suite, and the Node.js that it
// needs, and starts this. The client and the server under test are the programs
// in the folders below.
//
// What it cannot show is the defect that the middleware is there for: no
// scenario of the suite lets a session die. The interop package does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// packages is where the programs under test are, from the root of the module:
// the go command says of a missing folder that it is missing, of a missing
// package that it could be downloaded.
const packages = "./interop/conformance/"

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // what shells make of SIGINT
)

func main() {
	// A terminal that closes and a pager that is left are interruptions too: what
	// was started must not outlive them.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it returns the exit status. When it returns, all that it
// started has ended.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var s suite
	flags.StringVar(&s.node, "node", "node", "Node.js, 22 or later")
	flags.StringVar(&s.script, "suite", "", "the suite's dist/index.js (scripts/conformance.sh installs it)")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if s.script == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "conformance: want -suite and no argument: run make conformance, which installs the suite and says where")
		return exitUsage
	}

	work, err := os.MkdirTemp("", "revenant-conformance-")
	if err != nil {
		fmt.Fprintln(stderr, "conformance:", err)
		return exitFailed
	}
	problems, err := judge(ctx, s, work, stdout)
	if ctx.Err() != nil {
		os.RemoveAll(work)
		fmt.Fprintln(stderr, "conformance: interrupted")
		return exitInterrupted
	}
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		fmt.Fprintln(stderr, "conformance:", p)
	}
	if len(problems) > 0 {
		fmt.Fprintln(stderr, "conformance: what the suite wrote is in", work)
		return exitFailed
	}
	os.RemoveAll(work)
	return exitOK
}

// judge runs everything, prints the table to out, and returns what is wrong. An
// error is for what kept it from finishing. The folder work takes the programs
// and the suite's results.
func judge(ctx context.Context, s suite, work string, out io.Writer) (problems []string, err error) {
	clients, err := runClients(ctx, s, work, out)
	if err != nil {
		return nil, err
	}
	problems = judgeClients(clients)
	fmt.Fprintln(out)
	servers, err := runServer(ctx, s, work, out)
	if err != nil {
		return problems, fmt.Errorf("the server scenarios did not run: %w", err)
	}
	return append(problems, judgeServer(servers)...), nil
}

func runClients(ctx context.Context, s suite, work string, out io.Writer) ([]comparison, error) {
	names, err := s.clientScenarios(ctx)
	if err != nil {
		return nil, err
	}
	if err := build(ctx, packages+"client", filepath.Join(work, "client")); err != nil {
		return nil, err
	}
	var rows []comparison
	writeClientHead(out)
	for _, name := range names {
		if notRun[name] != "" {
			continue
		}
		// One after the other: the suite measures how long a client waits.
		row := comparison{
			scenario: name,
			bare:     s.client(ctx, name, work, false),
			guarded:  s.client(ctx, name, work, true),
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rows = append(rows, row)
		writeComparison(out, row)
	}
	writeClientFoot(out, rows)
	for _, name := range names {
		if reason := notRun[name]; reason != "" {
			writeNotRun(out, name, reason)
		}
	}
	return rows, nil
}

func runServer(ctx context.Context, s suite, work string, out io.Writer) ([]result, error) {
	program := filepath.Join(work, "server")
	if err := build(ctx, packages+"server", program); err != nil {
		return nil, err
	}
	server, err := startServer(ctx, program, filepath.Join(work, "server.log"))
	if err != nil {
		return nil, err
	}
	defer server.stop()

	var rows []result
	writeServerHead(out)
	for _, name := range serverScenarios {
		row := result{scenario: name, outcome: s.server(ctx, name, work, server.url)}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rows = append(rows, row)
		writeResult(out, row)
	}
	writeServerFoot(out, rows)
	return rows, nil
}

// build is go build: what is tested is what stands in the tree.
func build(ctx context.Context, pkg, program string) error {
	cmd := command(ctx, "go", "build", "-o", program, pkg)
	if text, err := cmd.CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("go build %s: %s", pkg, strings.TrimSpace(string(text)))
		}
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	return nil
}
