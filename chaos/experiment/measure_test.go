package experiment_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

// What a history can be asked for can be spoken of in a hypothesis.
func TestMeasuresOfAHistory(t *testing.T) {
	var names []string
	for _, m := range experiment.Measures() {
		names = append(names, string(m.Measure))
	}
	for _, m := range history.Measures() {
		if !slices.Contains(names, m.Name) {
			t.Errorf("history counts %s, and no hypothesis can name it", m.Name)
		}
	}
}

// A measure has words, says how it is counted, and stands once.
func TestMeasures(t *testing.T) {
	seen := make(map[experiment.Measure]bool)
	for _, m := range slices.Concat(experiment.Measures(), experiment.CallMeasures()) {
		if seen[m.Measure] || m.Words == "" || m.Doc == "" || m.Kind == 0 {
			t.Errorf("%+v, want each once, and complete", m)
		}
		seen[m.Measure] = true
		if info, ok := m.Measure.Info(); !ok || info.Words != m.Words {
			t.Errorf("Info() of %s = %+v, %t", m.Measure, info, ok)
		}
	}
	for _, m := range experiment.SessionMeasures() {
		if !seen[m.Measure] {
			t.Errorf("%s is of a session and not of an arm", m.Measure)
		}
	}
}

// The documentation lists every measure, in the words of the package.
func TestMeasuresAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	of := map[experiment.Measure]bool{}
	for _, m := range experiment.SessionMeasures() {
		of[m.Measure] = true
	}
	for _, m := range experiment.Measures() {
		session := ""
		if of[m.Measure] {
			session = "yes"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", m.Measure, session, m.Doc); !strings.Contains(string(doc), row) {
			t.Errorf("docs/experiments.md lacks the row %q", row)
		}
	}
	for _, m := range experiment.CallMeasures() {
		if row := fmt.Sprintf("| `%s` | %s |\n", m.Measure, m.Doc); !strings.Contains(string(doc), row) {
			t.Errorf("docs/experiments.md lacks the row %q", row)
		}
	}
}
