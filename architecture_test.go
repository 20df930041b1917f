package revenant_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// arrows is the architecture: what each part of the tree imports of the others.
// A part may also import whatever its arrows lead to, never what leads to it,
// and never its neighbour. A line of code that needs an arrow that is not here
// stands in the wrong folder; where it does not, the arrow is drawn here, in a
// commit that says why.
//
// Each folder in cmd and in examples is a part of its own, with the arrows of
// "cmd" and "examples".
var arrows = map[string][]string{
	"cmd":              {"provider", "experiments"},
	"provider":         {"chaos/control"},
	"chaos/control":    {"chaos/gameday", "chaos/experiment", "chaos/audit"},
	"chaos/gameday":    {"chaos/mcpserver", "chaos/lb", "chaos/fault", "chaos/journal"},
	"chaos/experiment": {"chaos/mcpserver", "chaos/lb", "chaos/fault", "chaos/journal", "middleware"},
	"chaos/audit":      {"chaos/mcpserver", "chaos/lb", "chaos/fault", "chaos/journal"},
	"chaos/mcpserver":  {},
	"chaos/lb":         {},
	"chaos/fault":      {},
	"chaos/journal":    {},
	"experiments":      {},
	"middleware":       {},
	"interop":          {"middleware", "chaos/mcpserver", "chaos/lb"},
	"examples":         {"examples/internal", "middleware", "chaos/mcpserver", "chaos/lb"},
	memnettest:         {},
	".":                {},
}

// testArrows holds what only the tests of a part import.
var testArrows = map[string][]string{
	"experiments": {"chaos/experiment"},
	".":           {"middleware", "chaos/mcpserver", "chaos/lb"},
}

// memnettest is imported from everywhere, by tests alone.
const memnettest = "internal/memnettest"

const (
	maxLines     = 600
	maxTestLines = 800
)

// A rule returns what is wrong with a tree, each with its place, and with what
// would be right.
var rules = map[string]func([]pkg) []string{
	"standard library only": standardLibraryOnly,
	"no requirements":       noRequirements,
	"arrows":                arrowsPointDown,
	"folder names":          foldersSayWhatTheyHold,
	"package comments":      packagesAreDescribed,
	"file lengths":          filesAreShort,
	"sleep":                 noSleepOutsideBubbles,
}

func TestArchitecture(t *testing.T) {
	pkgs, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	// A walk that sees nothing finds nothing wrong.
	for _, dir := range []string{".", "middleware", "middleware/internal/sse", "interop", memnettest} {
		if !slices.ContainsFunc(pkgs, func(p pkg) bool { return p.dir == dir && len(p.files) > 0 }) {
			t.Errorf("%s: no Go files found: if the folder has moved, follow it here and in arrows", dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		for _, problem := range rules[name](pkgs) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// standardLibraryOnly: who drops the middleware into a client must not get, or
// have moved, any other module.
func standardLibraryOnly(pkgs []pkg) []string {
	var problems []string
	for _, p := range pkgs {
		if part(p.dir) != "middleware" {
			continue
		}
		for _, f := range p.files {
			for _, imp := range f.imports {
				// The go command reserves paths without a dot in the first element.
				first, _, _ := strings.Cut(imp.path, "/")
				standard := !strings.Contains(first, ".") && imp.path != "C"
				if !standard && part(imp.dir) != "middleware" {
					problems = append(problems, fmt.Sprintf(
						"%s:%d: imports %q: middleware takes the standard library and its own packages only; a test of it that needs more belongs in interop/",
						f.path, imp.line, imp.path))
				}
			}
		}
	}
	return problems
}

func noRequirements(pkgs []pkg) []string {
	i := slices.IndexFunc(pkgs, func(p pkg) bool { return p.dir == "middleware" && p.goMod != "" })
	if i < 0 {
		return []string{"middleware/go.mod: missing or empty: middleware is a module of its own, without requirements"}
	}
	var problems []string
	number := 0
	for line := range strings.Lines(pkgs[i].goMod) {
		number++
		// A block may open without a space: require(
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "require") {
			problems = append(problems, fmt.Sprintf(
				"middleware/go.mod:%d: %q: this module requires nothing; remove what needs it, or move that to the root module", number, line))
		}
	}
	return problems
}

func arrowsPointDown(pkgs []pkg) []string {
	var problems []string
	for _, p := range pkgs {
		from := part(p.dir)
		for _, f := range p.files {
			allowed := reach(from, f.test)
			for _, imp := range f.imports {
				to := part(imp.dir)
				if imp.dir == "" || to == from || slices.Contains(allowed, to) {
					continue
				}
				right := "of this project it may import " + strings.Join(allowed, ", ")
				if _, known := arrows[kind(from)]; !known {
					right = from + " has no place in the table of arrows; move the code, or give it one"
				} else if to == memnettest {
					right = "only a _test.go file may"
				} else if len(allowed) == 0 {
					right = "it may import nothing else of this project"
				}
				problems = append(problems, fmt.Sprintf("%s:%d: %s imports %s: %s", f.path, imp.line, from, to, right))
			}
		}
	}
	return problems
}

// part is the part of the tree that a folder belongs to.
func part(dir string) string {
	elems := strings.SplitN(dir, "/", 3)
	switch elems[0] {
	case "chaos", "cmd", "examples", "internal":
		return strings.Join(elems[:min(2, len(elems))], "/")
	}
	return elems[0]
}

// kind is the name of a part in arrows.
func kind(part string) string {
	if first, _, _ := strings.Cut(part, "/"); first == "cmd" || first == "examples" {
		return first
	}
	return part
}

// reach lists the parts that a part's files may import, besides itself.
func reach(from string, test bool) []string {
	next := slices.Clone(arrows[kind(from)])
	if test {
		next = append(next, testArrows[kind(from)]...)
	}
	seen := map[string]bool{}
	for len(next) > 0 {
		to := next[0]
		next = next[1:]
		if !seen[to] {
			seen[to] = true
			next = append(next, arrows[to]...)
		}
	}
	if test {
		seen[memnettest] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func foldersSayWhatTheyHold(pkgs []pkg) []string {
	empty := []string{"util", "utils", "common", "helpers", "types", "misc", "pkg"}
	var problems []string
	for _, p := range pkgs {
		for elem := range strings.SplitSeq(p.dir, "/") {
			if len(p.files) > 0 && slices.Contains(empty, elem) {
				problems = append(problems, fmt.Sprintf(
					"%s: %q says nothing of what is in it; name the folder after what it holds, or move each thing to the package that uses it", p.dir, elem))
			}
		}
	}
	return problems
}

func packagesAreDescribed(pkgs []pkg) []string {
	var problems []string
	for _, p := range pkgs {
		if len(p.files) == 0 {
			continue
		}
		// The comment is for readers of the package: only where there are no
		// other files does that of a test count.
		shipped := slices.DeleteFunc(slices.Clone(p.files), func(f file) bool { return f.test })
		if len(shipped) == 0 {
			shipped = p.files
		}
		if !slices.ContainsFunc(shipped, func(f file) bool { return f.documented }) {
			problems = append(problems, fmt.Sprintf(
				"%s: package %s has no comment: above the package clause of one file (doc.go where there are many) say what it is, for whom, and what it is not",
				p.dir, p.name))
		}
	}
	return problems
}

func filesAreShort(pkgs []pkg) []string {
	var problems []string
	for _, p := range pkgs {
		for _, f := range p.files {
			limit, split := maxLines, "one idea a file, with its name"
			if f.test {
				limit, split = maxTestLines, "by behaviour, as transport_close_test.go"
			}
			if f.lines > limit && !f.generated {
				problems = append(problems, fmt.Sprintf("%s: %d lines, the limit is %d: split it, %s", f.path, f.lines, limit, split))
			}
		}
	}
	return problems
}

func noSleepOutsideBubbles(pkgs []pkg) []string {
	var problems []string
	for _, p := range pkgs {
		for _, f := range p.files {
			if !f.test || f.bubbles {
				continue
			}
			for _, line := range f.sleeps {
				problems = append(problems, fmt.Sprintf(
					"%s:%d: time.Sleep in a test: run the test in a testing/synctest bubble, or wait for the event itself (a channel, a closed connection)",
					f.path, line))
			}
		}
	}
	return problems
}
