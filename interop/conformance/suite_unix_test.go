//go:build unix

package main

import (
	"context"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// standIn is testdata/suite.sh in place of the suite.
func standIn(t *testing.T) suite {
	t.Helper()
	script, err := filepath.Abs("testdata/suite.sh")
	if err != nil {
		t.Fatal(err)
	}
	return suite{node: "sh", script: script}
}

func TestClientScenarios(t *testing.T) {
	got, err := standIn(t).clientScenarios(t.Context())
	if want := []string{"initialize", "auth/basic"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("clientScenarios = %q, %v, want %q", got, err, want)
	}
}

func TestClientScenariosOfNoSuite(t *testing.T) {
	_, err := suite{node: "sh", script: "/nonexistent/index.js"}.clientScenarios(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/index.js") {
		t.Errorf("clientScenarios of a suite that is not there: error %v, want one that names it", err)
	}
}

func TestClient(t *testing.T) {
	// The path is one that neither the suite nor its shell would take in a command.
	work := filepath.Join(t.TempDir(), "a folder (1)")
	program := filepath.Join(work, "client")
	write(t, program, `#!/bin/sh
[ "$MCP_CONFORMANCE_SCENARIO" = auth/bad ] && { echo "client: no token" >&2; exit 1; }
[ "$1" = -middleware ] && echo '{"Probes": 7}' || echo '{}'
`)
	chmod(t, program)
	for _, c := range []struct {
		scenario string
		guarded  bool
		total    tally
		probes   uint64
		fault    string
	}{
		{"auth/good", false, tally{passed: 1}, 0, ""},
		{"auth/good", true, tally{passed: 1}, 7, ""},
		{"auth/bad", true, tally{passed: 1, failed: 1}, 0, checkFinished + ": client: no token"},
		{"no-results", false, tally{failed: 1}, 0, "no such port"},
	} {
		o := standIn(t).client(t.Context(), c.scenario, work, c.guarded)
		if o.total() != c.total || o.stats.Probes != c.probes {
			t.Errorf("client(%s, %t) = %v with %d probes, want %v with %d", c.scenario, c.guarded, o.total(), o.stats.Probes, c.total, c.probes)
		}
		if got := strings.Join(o.faults, "; "); !strings.Contains(got, c.fault) || (c.fault == "") != (got == "") {
			t.Errorf("client(%s, %t): faults %q, want %q", c.scenario, c.guarded, got, c.fault)
		}
	}
}

func TestClientInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := standIn(t).client(ctx, "auth/good", t.TempDir(), false); o.total().passed > 0 || o.total().failed == 0 {
		t.Errorf("client after the end of its context = %v, want a failure", o.total())
	}
}
