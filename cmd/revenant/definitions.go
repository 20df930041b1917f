package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/experiments"
)

// definition is an experiment that an argument has named.
type definition struct {
	// file is where it stands, or what it is called in the library.
	file string
	// arg is an argument that names it and nothing else.
	arg string
	// of is the experiment, nil if it is not valid.
	of *experiment.Definition
	// problems is what is wrong with it.
	problems experiment.Problems
}

// wholeLibrary is an argument for all experiments of the library, if no file and
// no folder has that name.
const wholeLibrary = "all"

// namingDefinitions is for the help of the commands that take some.
const namingDefinitions = `An argument is a file, a folder, of which every *.yaml and *.yml is taken, the
name of an experiment of the library (see "revenant list"), or the word all, for
the whole library.`

// findDefinitions reads what the arguments name. Its error is about an argument
// that names nothing, not about what is wrong in a file.
func findDefinitions(args []string) ([]definition, error) {
	var all []definition
	for _, arg := range args {
		found, err := findDefinition(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func findDefinition(arg string) ([]definition, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return readFolder(arg)
	case err == nil:
		d, err := readDefinition(arg)
		return []definition{d}, err
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%q: %w", arg, reason(err))
	}
	if arg == wholeLibrary {
		return findLibrary()
	}
	d, err := fromLibrary(arg)
	if err != nil {
		return nil, fmt.Errorf("%q is no file and no folder here, and no experiment of the library: that has %s",
			arg, strings.Join(experiments.List(), ", "))
	}
	return []definition{d}, nil
}

// findLibrary reads all experiments of the library.
func findLibrary() ([]definition, error) {
	var all []definition
	for _, name := range experiments.List() {
		d, err := fromLibrary(name)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

func fromLibrary(name string) (definition, error) {
	file, data, err := experiments.Get(name)
	if err != nil {
		return definition{}, err
	}
	of, err := experiment.Parse(file, data)
	return judge(file, name, of, err), nil
}

// readFolder reads all definitions in a folder, not those in folders below it.
func readFolder(dir string) ([]definition, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", dir, reason(err))
	}
	var all []definition
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, ext) {
			continue
		}
		d, err := readDefinition(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%q has no *.yaml and no *.yml in it", dir)
	}
	return all, nil
}

func readDefinition(file string) (definition, error) {
	of, err := experiment.Load(file)
	if problems := (experiment.Problems)(nil); err != nil && !errors.As(err, &problems) {
		return definition{}, fmt.Errorf("%q: %w", file, reason(err))
	}
	return judge(file, file, of, err), nil
}

func judge(file, arg string, of *experiment.Definition, err error) definition {
	d := definition{file: file, arg: arg, of: of}
	errors.As(err, &d.problems)
	return d
}

// reason is an error of the file system without the name, which the caller gives.
func reason(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}
