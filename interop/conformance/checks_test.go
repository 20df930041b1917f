package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseChecks(t *testing.T) {
	text, err := os.ReadFile("testdata/checks.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseChecks(text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]tally{"token-used": {passed: 2}, "reconnects": {failed: 1}, "cursor": {warned: 1}}
	if !maps.Equal(got.checks, want) {
		t.Errorf("checks = %v, want %v", got.checks, want)
	}
	if got, want := got.total(), (tally{passed: 2, failed: 1, warned: 1}); got != want {
		t.Errorf("total = %v, want %v", got, want)
	}
	faults := []string{"reconnects: No GET was seen", "cursor: warning: Client SHOULD send Last-Event-ID"}
	if !reflect.DeepEqual(got.faults, faults) {
		t.Errorf("faults = %q, want %q", got.faults, faults)
	}
}

func TestParseChecksRefusesWhatProvesNothing(t *testing.T) {
	for text, want := range map[string]string{
		`[{"id": "a", "status": "SUC`:      "unexpected end",
		`[{"id": "a", "status": "MAYBE"}]`: `unknown status "MAYBE"`,
		`[{"id": "a", "status": "INFO"}]`:  "no check",
		`[]`:                               "no check",
	} {
		if _, err := parseChecks([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseChecks(%s): error %v, want one with %q", text, err, want)
		}
	}
}

func TestReadResultsWantsOneFile(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := readResults(dir); err == nil {
		t.Error("readResults of an empty folder: no error")
	}
	write(t, filepath.Join(dir, "auth", "basic-2026", "checks.json"), `[{"id": "a", "status": "SUCCESS"}]`)
	o, folder, err := readResults(dir)
	if err != nil || o.total().passed != 1 || folder != filepath.Join(dir, "auth", "basic-2026") {
		t.Errorf("readResults = %v, %q, %v, want one check passed", o, folder, err)
	}
	write(t, filepath.Join(dir, "initialize-2026", "checks.json"), `[{"id": "a", "status": "SUCCESS"}]`)
	if _, _, err := readResults(dir); err == nil {
		t.Error("readResults with the results of two runs: no error")
	}
}

func TestReadClient(t *testing.T) {
	for _, c := range []struct {
		name, stdout, stderr string
		failed, fault        string
	}{
		{name: "bare", stdout: `{"Sessions": 0}`},
		{name: "a reconnect found Live", stdout: `{"Sessions": 1, "Probes": 1, "Live": 1, "ReleasedEvents": 3}`},
		{name: "gave up", stderr: "client: connect:\n  refused\n", failed: checkFinished, fault: "client: connect: refused"},
		{name: "stopped", failed: checkFinished, fault: "stopped"},
		{name: "found dead", stdout: `{"Dead": 1}`, failed: checkNoFalseDeath, fault: "1 sessions"},
		{name: "no verdict", stdout: `{"Ambiguous": 2}`, failed: checkNoFalseDeath, fault: "2 reconnects"},
		{name: "quarantined", stdout: `{"Quarantined": 3}`, failed: checkNoFalseDeath, fault: "3 events"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "stdout.txt"), c.stdout)
		write(t, filepath.Join(dir, "stderr.txt"), c.stderr)
		var o outcome
		if err := o.readClient(dir); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// What the client says of itself never passes for a check of the suite's.
		want := map[string]tally{}
		if c.failed != "" {
			want[c.failed] = tally{failed: 1}
		}
		if !maps.Equal(o.checks, want) {
			t.Errorf("%s: checks = %v, want %v", c.name, o.checks, want)
		}
		if got := strings.Join(o.faults, "; "); !strings.Contains(got, c.fault) || (c.fault == "") != (got == "") {
			t.Errorf("%s: faults = %q, want %q", c.name, got, c.fault)
		}
	}
}

func TestReadClientRefusesWhatItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "stdout.txt"), "all is well\n")
	var o outcome
	if err := o.readClient(dir); err == nil {
		t.Error("readClient of a client that prints no counters: no error")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
