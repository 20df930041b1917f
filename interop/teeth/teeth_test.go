package teeth_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	// buildsAtOnce is how many mutants are built at the same time, each with as many
	// compilers as there are processors.
	buildsAtOnce = 2
	// atOnce is how many experiments run at the same time, which mostly wait. Nothing
	// is built then.
	atOnce = 3
)

// aloneEnv says that nothing else is tested at the same time.
const aloneEnv = "REVENANT_TEETH"

// Each mutant is refuted by the experiments that are named to do so, and they
// uphold the middleware as it is.
func TestTeeth(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: no broken middleware was tried, so that nothing shows that the experiments can fail")
	}
	if os.Getenv(aloneEnv) == "" {
		t.Skip("SKIPPED beside other tests, which would take the experiments' time from them: make test runs it by itself; or set " + aloneEnv + "=1")
	}
	noteSources(t)
	var experiments, rows []string
	for _, m := range mutants() {
		experiments = append(experiments, m.by...)
		rows = append(rows, m.name)
	}
	slices.Sort(experiments)
	experiments = slices.Compact(experiments)
	tab := newTable(experiments)
	programs := buildAll(t, append([]mutant{{}}, mutants()...))

	turns := make(chan struct{}, atOnce)
	parallel := func(t *testing.T) {
		t.Parallel()
		turns <- struct{}{}
		t.Cleanup(func() { <-turns })
	}
	t.Run("all", func(t *testing.T) {
		for _, experiment := range experiments {
			t.Run("as it is/"+experiment, func(t *testing.T) {
				parallel(t)
				o, err := run(t.Context(), programs[""], experiment)
				if err != nil {
					t.Fatal(err)
				}
				tab.set("", experiment, o)
				if o.verdict != upheld {
					t.Errorf("%s: %s\nwant it upheld: what it says of a mutant then shows nothing", o.verdict, o.reason)
				}
			})
		}
		for _, m := range mutants() {
			if m.unseen != "" {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				parallel(t)
				for _, experiment := range m.by {
					o, err := run(t.Context(), programs[m.name], experiment)
					if err != nil {
						t.Error(err)
						continue
					}
					tab.set(m.name, experiment, o)
					if o.verdict != deviated {
						t.Errorf("it survives %s, which is %s: %s\nIts harm: %s", experiment, o.verdict, o.reason, m.harm)
					}
				}
			})
		}
	})
	t.Logf("which mutant is refuted by which experiment:\n%s%s", tab.text(rows), reasons())
}

// buildAll returns the programs by the names of their mutants.
func buildAll(t *testing.T, of []mutant) map[string]string {
	t.Helper()
	programs := make(map[string]string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	queue := make(chan mutant)
	for range buildsAtOnce {
		wg.Go(func() {
			for m := range queue {
				program, err := m.build(t.Context(), t.TempDir())
				if err != nil {
					t.Error(err)
					continue
				}
				mu.Lock()
				programs[m.name] = program
				mu.Unlock()
			}
		})
	}
	for _, m := range of {
		queue <- m
	}
	close(queue)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return programs
}

// noteSources has the go command run the test anew when a source of the program
// has changed. It takes note of what a test looks at, and not of what the
// programs do that the test starts.
func noteSources(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "docs"):
			return fs.SkipDir
		case d.Type().IsRegular() && !strings.HasSuffix(path, "_test.go"):
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
