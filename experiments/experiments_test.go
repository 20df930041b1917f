package experiments_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/experiments"
)

// Each experiment of the library can be run, has the name of its file, and says in
// a paragraph what it proves.
func TestLibrary(t *testing.T) {
	names := experiments.List()
	if !slices.Contains(names, "session") || !slices.Contains(names, "elicitation") || !slices.IsSorted(names) {
		t.Errorf("List() = %q, want the two records in it, in order", names)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".yaml") {
			files++
		}
	}
	if files != len(names) {
		t.Errorf("List() = %q, want one for each of the %d files", names, files)
	}
	for _, name := range names {
		file, data, err := experiments.Get(name)
		if err != nil {
			t.Error(err)
			continue
		}
		d, err := experiment.Parse(file, data)
		if err != nil {
			t.Error(err)
			continue
		}
		if d.Name != name || file != name+".yaml" {
			t.Errorf("%s is called %q", file, d.Name)
		}
		if len(strings.Fields(d.Description)) < 40 {
			t.Errorf("%s: its description is shorter than a paragraph", file)
		}
		if d.Hypothesis.Title == "" {
			t.Errorf("%s: its hypothesis has no title", file)
		}
	}
}

func TestGetOfNone(t *testing.T) {
	for _, name := range []string{"", "nothing", "../experiments/session", "session.yaml", "/session", "experiments.go\x00"} {
		if _, _, err := experiments.Get(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%q): %v, want one that is fs.ErrNotExist", name, err)
		}
	}
}

// The documentation has a row for each experiment of the library.
func TestLibraryIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range experiments.List() {
		file, data, err := experiments.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := experiment.Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("| `%s` | %s", name, d.Title)
		takes := fmt.Sprintf("| %.1f s |\n", d.Takes().Seconds())
		if _, rest, ok := strings.Cut(string(doc), row); !ok || !strings.Contains(rest[:strings.Index(rest, "\n")+1], takes) {
			t.Errorf("docs/experiments.md lacks a row that begins with %q and ends with %q", row, takes)
		}
	}
}
