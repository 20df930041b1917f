// Package examples_test builds the examples and runs them as they stand, so that
// none of them can rot.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// phrases are what each program's output must have, in this order. How much of a
// replay had arrived when it was quarantined is not among them: the verdict may
// be quicker.
var phrases = map[string][]string{
	"nethttp": {
		"received: one", "cut. The session lives", "received: two", "the session is lost",
		"error: middleware: session is dead (session", "phase probe, status 404", "initializes again", "received: four",
	},
	"gosdk": {
		"received: one", "cut. The session lives", "received: two", "the session is lost",
		"error of the SDK: session not found", "reason: middleware: session is dead", "connects again", "called a tool: four",
	},
	"mcpgo": {
		"received: one", "cut. The session lives", "cursor restored: 1", "received: two", "the session is lost",
		"reason: middleware: session is dead", "session terminated (404)", "initializes again", "called a tool: four", "received: five",
	},
	"slog": {
		"received: one", "the session lives",
		"level=DEBUG msg=held session=…", "level=DEBUG msg=\"probe answered\"", "verdict=live", "level=INFO msg=released", "received: two",
		"the session is lost",
		"level=DEBUG msg=held session=…", "verdict=dead", "level=WARN msg=\"session dead\"", "level=WARN msg=quarantined",
		`revenant: {`, `"released": 1`, `"session dead": 1`,
	},
}

const (
	maxLines   = 25
	maxRuntime = 30 * time.Second // on a busy machine; alone each takes about 3 s
)

func TestExamplesRunAsTheyStand(t *testing.T) {
	dir := t.TempDir() + string(filepath.Separator)
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", dir, "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./... = %v\n%s", err, out)
	}
	programs, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(programs) != len(phrases) {
		t.Errorf("%d programs were built, want the %d in phrases", len(programs), len(phrases))
	}
	for _, p := range programs {
		name := strings.TrimSuffix(p.Name(), ".exe")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, dir+p.Name(), phrases[name])
		})
	}
}

func run(t *testing.T, program string, want []string) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("phrases does not say what it must print")
	}
	ctx, cancel := context.WithTimeout(t.Context(), maxRuntime)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	output := stdout.String()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, want status 0 and nothing on stderr\n%s\n%s", err, output, stderr.String())
	}
	if n := strings.Count(output, "\n"); n >= maxLines {
		t.Errorf("%d lines, want fewer than %d", n, maxLines)
	}
	rest := output
	for _, phrase := range want {
		_, after, found := strings.Cut(rest, phrase)
		if !found {
			t.Fatalf("%q is missing, or in the wrong place, in\n%s", phrase, output)
		}
		rest = after
	}
}
