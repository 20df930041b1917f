// Package experiments is the library of experiments: the YAML files of this
// folder, one experiment each, in the binary. Package chaos/experiment reads and
// runs them.
package experiments

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.yaml
var files embed.FS

const extension = ".yaml"

// List returns the names of all experiments, in order.
func List() []string {
	matches, err := fs.Glob(files, "*"+extension)
	if err != nil {
		panic(err) // The pattern is right.
	}
	names := make([]string, len(matches))
	for i, m := range matches {
		names[i] = strings.TrimSuffix(path.Base(m), extension)
	}
	return names
}

// Get returns the definition of an experiment, and the name of its file. An error
// wraps [fs.ErrNotExist]: there is no such experiment.
func Get(name string) (file string, data []byte, err error) {
	file = name + extension
	if !fs.ValidPath(file) {
		return "", nil, fmt.Errorf("experiments: %q: %w", name, fs.ErrNotExist)
	}
	if data, err = files.ReadFile(file); err != nil {
		return "", nil, fmt.Errorf("experiments: %q: %w", name, fs.ErrNotExist)
	}
	return file, data, nil
}
