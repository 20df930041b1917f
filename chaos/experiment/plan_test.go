package experiment_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

func load(t *testing.T, file string) *experiment.Definition {
	t.Helper()
	d, err := experiment.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The plan says all that is meant to happen, in 80 columns.
func TestPlan(t *testing.T) {
	for _, file := range []string{"testdata/full.yaml", "testdata/harmless.yaml", "../../experiments/elicitation.yaml"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			plan := load(t, file).Plan()
			for i := range plan.Needs { // Not every machine has the same.
				plan.Needs[i].Available, plan.Needs[i].Missing = false, "a test has it so"
			}
			var text bytes.Buffer
			if err := plan.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(text.String()) {
				if n := utf8.RuneCountInString(line) - 1; n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			data, err := json.MarshalIndent(plan, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			name := "testdata/plan/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
			golden(t, name+".txt", text.Bytes())
			golden(t, name+".json", append(data, '\n'))
		})
	}
}

// golden holds what a test has against a file, or rewrites that.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is otherwise, run go test -update ./chaos/experiment if that is right:\n%s", file, got)
	}
}

// A word that is longer than a line is broken, and nothing else is.
func TestPlanOfLongWords(t *testing.T) {
	d := load(t, "testdata/harmless.yaml")
	d.Description = strings.Repeat("x", 300)
	var text strings.Builder
	if err := d.Plan().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "x"); n < 300 {
		t.Errorf("of a word of 300 characters %d are shown", n)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// What an experiment needs is asked of the machine, and what is missing is one
// line.
func TestNeeds(t *testing.T) {
	d := load(t, "testdata/full.yaml")
	needs := d.Needs()
	if len(needs) != 1 || !needs[0].Namespaces {
		t.Errorf("Needs() = %v, want the network alone", needs)
	}
	d = load(t, "testdata/harmless.yaml")
	if needs := d.Needs(); len(needs) != 0 {
		t.Errorf("Needs() = %v, want nothing", needs)
	}
	d.Topology.LoadBalancer.Engine = "haproxy"
	needs = d.Needs()
	if len(needs) != 1 || needs[0].Engine != "haproxy" || needs[0].Namespaces {
		t.Fatalf("Needs() = %v, want haproxy", needs)
	}
	if _, err := os.Stat("/usr/sbin/nginx"); err != nil {
		needs[0].Engine = "nginx"
		err := needs[0].Available()
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "install nginx") {
			t.Errorf("Available() = %v, want what to install, on one line", err)
		}
	}
}
