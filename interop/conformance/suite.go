package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// scenarioTimeout is for one scenario. The suite itself gives a client 30 s, and
// a server as long as it takes.
const scenarioTimeout = time.Minute

// suite is the installed conformance suite.
type suite struct {
	node   string // the program that runs it
	script string // its dist/index.js
}

// clientScenarios asks the suite what it has.
func (s suite) clientScenarios(ctx context.Context) ([]string, error) {
	text, err := s.command(ctx, "list", "--client").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, lastLine(exit.Stderr))
		}
		return nil, fmt.Errorf("the suite does not list its scenarios: %w", err)
	}
	names := parseList(string(text))
	if len(names) == 0 {
		return nil, fmt.Errorf("the suite lists no client scenarios, only %q", text)
	}
	return names, nil
}

// parseList reads the lines "  - name [versions]".
func parseList(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "-" {
			names = append(names, fields[1])
		}
	}
	return names
}

// client runs a client scenario against the program work/client.
func (s suite) client(ctx context.Context, scenario, work string, guarded bool) outcome {
	// The suite splits the command at spaces, and hands it to a shell: a relative
	// path is safe from both.
	program, arm := "./client", "bare"
	if guarded {
		program, arm = "./client -middleware", "middleware"
	}
	o, folder, err := s.run(ctx, filepath.Join(work, "client-"+arm, scenario), work,
		"client", "--command", program, "--scenario", scenario)
	if err == nil {
		err = o.readClient(folder)
	}
	if err != nil {
		return notRunnable(err)
	}
	return o
}

// server runs a server scenario against the server at url.
func (s suite) server(ctx context.Context, scenario, work, url string) outcome {
	o, _, err := s.run(ctx, filepath.Join(work, "server-results", scenario), work,
		"server", "--url", url, "--scenario", scenario)
	if err != nil {
		return notRunnable(err)
	}
	return o
}

// run starts the suite in the folder work and reads the results that it leaves
// in the folder results.
func (s suite) run(ctx context.Context, results, work string, args ...string) (outcome, string, error) {
	if err := os.MkdirAll(results, 0o755); err != nil {
		return outcome{}, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, scenarioTimeout)
	defer cancel()
	cmd := s.command(ctx, append(args, "--output-dir", results)...)
	cmd.Dir = work
	// Its exit status says no more than the results do: a check that fails is an
	// exit status of 1.
	text, runErr := cmd.CombinedOutput()
	if err := os.WriteFile(filepath.Join(results, "output.txt"), text, 0o644); err != nil {
		return outcome{}, "", err
	}
	if ctx.Err() != nil {
		return outcome{}, "", fmt.Errorf("the suite did not end within %v", scenarioTimeout)
	}
	o, folder, err := readResults(results)
	if err != nil && runErr != nil {
		return outcome{}, "", fmt.Errorf("%w (the suite: %w: %s)", err, runErr, lastLine(text))
	}
	return o, folder, err
}

func (s suite) command(ctx context.Context, args ...string) *exec.Cmd {
	return command(ctx, s.node, append([]string{s.script}, args...)...)
}

func lastLine(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return lines[len(lines)-1]
}
