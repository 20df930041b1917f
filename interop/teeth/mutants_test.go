package teeth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is the middleware with a bug.
type mutant struct {
	name string
	// harm is what a user would have of it.
	harm string
	// by are the experiments that refute it, each of them. Where there is none,
	// unseen says why; the middleware's own tests then have to do.
	by     []string
	unseen string

	edits []edit
}

// maxName is how wide the first column of the table is.
const maxName = 24

// edit puts one text of a file of the middleware in the place of another. old
// occurs exactly once.
type edit struct{ file, old, new string }

// mutants returns all of them, in the order in which they are shown.
func mutants() []mutant { return slices.Concat(verdicts, deaths, deliveries, questions) }

// reasons says why no experiment refutes those that none does.
func reasons() string {
	var b strings.Builder
	for _, m := range mutants() {
		if m.unseen != "" {
			fmt.Fprintf(&b, "\nNo experiment is to refute %s. %s\n", m.name, m.unseen)
		}
	}
	return b.String()
}

// apply returns the edited text of each file that m changes. folder is the
// middleware's.
func (m mutant) apply(folder string) (map[string]string, error) {
	texts := make(map[string]string)
	for i, e := range m.edits {
		text, ok := texts[e.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(folder, e.file))
			if err != nil {
				return nil, fmt.Errorf("mutant %q: %w", m.name, err)
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("mutant %q, edit %d: %s has this text %d times, want once:\n%s", m.name, i+1, e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts, nil
}

// The texts that the mutants replace are where they look for them. Where one is
// not, the middleware has changed, and its mutant must follow.
func TestMutantsApply(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range mutants() {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		if len(m.name) > maxName {
			t.Errorf("mutant %q: the name has %d characters, want at most %d, for the table", m.name, len(m.name), maxName)
		}
		if (len(m.by) > 0) == (m.unseen != "") {
			t.Errorf("mutant %q: by %q and unseen %q, want the experiments that refute it, or why there is none", m.name, m.by, m.unseen)
		}
		if _, err := m.apply(middlewareFolder); err != nil {
			t.Error(err)
		}
	}
}

func TestMutantThatDoesNotApplyIsNamed(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "x.go"), []byte("once twice twice"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"once": "", "twice": "2 times", "never": "0 times"} {
		_, err := mutant{name: "m", edits: []edit{{"x.go", old, "other"}}}.apply(folder)
		if got := fmt.Sprint(err); (want == "") != (err == nil) || err != nil && (!strings.Contains(got, want) || !strings.Contains(got, `"m"`)) {
			t.Errorf("apply of %q = %v, want an error with %q and the name", old, err, want)
		}
	}
}
