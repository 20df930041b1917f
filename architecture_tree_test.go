package revenant_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pkg is one package of one folder, its tests and its external tests included.
// A go.mod is a pkg of its own, without a name and without files.
type pkg struct {
	name  string // without the _test of an external test
	dir   string // slash-separated, "." for the root
	files []file // ordered by name
	goMod string
}

type file struct {
	path       string
	test       bool
	generated  bool // says "Code generated ... DO NOT EDIT."
	documented bool // has a package comment
	bubbles    bool // imports testing/synctest
	lines      int
	imports    []imported
	sleeps     []int // the lines where time.Sleep is named
}

type imported struct {
	path string
	line int
	dir  string // the folder of this project that it is, or ""
}

// readTree parses every Go file below the root, whatever its build constraints
// say. Folders that the go command ignores are ignored here too.
func readTree(root fs.FS) ([]pkg, error) {
	goMod, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return nil, err
	}
	module := modulePath(string(goMod))
	if module == "" {
		return nil, fmt.Errorf("go.mod names no module")
	}

	var pkgs []pkg
	err = fs.WalkDir(root, ".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); dir != "." && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return fs.SkipDir
		}
		found, err := readFolder(root, dir, module)
		pkgs = append(pkgs, found...)
		return err
	})
	return pkgs, err
}

func readFolder(root fs.FS, dir, module string) ([]pkg, error) {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil, err
	}
	var goMod string
	byName := map[string][]file{}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.Name() == "go.mod":
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			goMod = string(text)
		case path.Ext(name) == ".go" && e.Type().IsRegular():
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			pkgName, f, err := parse(name, text, module)
			if err != nil {
				return nil, err
			}
			byName[pkgName] = append(byName[pkgName], f)
		}
	}
	var pkgs []pkg
	for name, files := range byName {
		pkgs = append(pkgs, pkg{name: name, dir: dir, files: files})
	}
	slices.SortFunc(pkgs, func(a, b pkg) int { return strings.Compare(a.name, b.name) })
	if goMod != "" {
		pkgs = append(pkgs, pkg{dir: dir, goMod: goMod})
	}
	return pkgs, nil
}

// parse returns the name of the package that the file belongs to, and the file.
func parse(name string, text []byte, module string) (string, file, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", file{}, err
	}
	f := file{
		path:       name,
		test:       strings.HasSuffix(name, "_test.go"),
		generated:  ast.IsGenerated(parsed),
		documented: strings.TrimSpace(parsed.Doc.Text()) != "",
		lines:      bytes.Count(text, []byte("\n")),
	}
	timeName := "" // what the file calls package time
	for _, spec := range parsed.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return "", file{}, fmt.Errorf("%s: import %s: %v", name, spec.Path.Value, err)
		}
		imp := imported{path: importPath, line: fset.Position(spec.Pos()).Line}
		if importPath == module {
			imp.dir = "."
		} else if rest, ok := strings.CutPrefix(importPath, module+"/"); ok {
			imp.dir = rest
		}
		f.imports = append(f.imports, imp)

		switch {
		case importPath == "testing/synctest":
			f.bubbles = true
		case importPath == "time" && spec.Name != nil:
			timeName = spec.Name.Name
		case importPath == "time":
			timeName = "time"
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == timeName && n.Sel.Name == "Sleep" {
				f.sleeps = append(f.sleeps, fset.Position(n.Pos()).Line)
			}
		case *ast.CallExpr:
			if fun, ok := n.Fun.(*ast.Ident); ok && timeName == "." && fun.Name == "Sleep" {
				f.sleeps = append(f.sleeps, fset.Position(n.Pos()).Line)
			}
		}
		return true
	})

	pkgName := parsed.Name.Name
	if f.test {
		pkgName = strings.TrimSuffix(pkgName, "_test")
	}
	return pkgName, f, nil
}

func modulePath(goMod string) string {
	for line := range strings.Lines(goMod) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return fields[1]
		}
	}
	return ""
}
