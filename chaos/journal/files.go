package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// The names of the files that are written.
const (
	FileJSON  = "journal.json" // the record
	FilePage  = "report.html"  // its page
	FileIndex = "index.html"   // the page of many runs
	FileJUnit = "junit.xml"    // for CI
)

// maxFile is the largest journal that [Read] takes, in bytes: some hundred
// thousand marks.
const maxFile = 256 << 20

// Read reads the journal in a file. What is no journal of this version is a
// [*FormatError] that names the file, what is not valid an error that is
// [ErrInvalid].
func Read(file string) (*Journal, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if len(data) > maxFile {
		return nil, &FormatError{File: file, Err: fmt.Errorf("larger than %d MiB", maxFile>>20)}
	}
	j := new(Journal)
	if err := j.UnmarshalJSON(data); err != nil {
		if format := (*FormatError)(nil); errors.As(err, &format) {
			format.File = file
			return nil, format
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return j, nil
}

// Write writes the journal's JSON and its page into a folder, which it makes if
// there is none, under the names [FileJSON] and [FilePage]. A file appears whole
// or not at all, and takes the place of one with its name; the JSON comes last, so
// that where it is the page is. If it cannot be written, or j is not valid, the
// folder is as it was before.
//
// The files are as readable as what the process writes otherwise is: there are no
// secrets in them, and CI publishes them.
func (j *Journal) Write(dir string) error {
	files, err := j.files("")
	if err != nil {
		return err
	}
	return install(dir, files)
}

// files renders the journal. up is the address of the page of all runs, "" for
// none.
func (j *Journal) files(up string) ([]file, error) {
	data, err := j.indented()
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := j.writeHTML(&page, up, FileJSON); err != nil {
		return nil, err
	}
	return []file{{FilePage, page.Bytes()}, {FileJSON, data}}, nil
}

func (j *Journal) indented() ([]byte, error) {
	data, err := j.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// WriteReport writes the report of many runs, those of a whole library for
// example, into a folder, which it makes if there is none: [FileIndex], with a
// table of the verdicts, [FileJUnit], and for each run a folder with what
// [Journal.Write] writes, to which the table links. All of it works from disk, and
// after being moved as a whole. The folders have the experiments' names, so
// writing the report again, with more runs, replaces the one before.
//
// If it fails, each file that is there is whole, but the table may lack runs.
func WriteReport(dir string, runs []*Journal) error {
	folders := folders(runs)
	rendered := make([][]file, len(runs))
	for i, j := range runs {
		var err error
		if rendered[i], err = j.files("../" + FileIndex); err != nil {
			return fmt.Errorf("%s: %w", folders[i], err)
		}
	}
	var index, junit bytes.Buffer
	if err := writeIndex(&index, runs, folders); err != nil {
		return err
	}
	if err := WriteJUnit(&junit, runs...); err != nil {
		return err
	}
	for i, files := range rendered {
		if err := install(filepath.Join(dir, folders[i]), files); err != nil {
			return err
		}
	}
	return install(dir, []file{{FileJUnit, junit.Bytes()}, {FileIndex, index.Bytes()}})
}

// folders names one folder for each run: its experiment's name, as far as any
// file system and any address takes it, and a number where that is not unique.
func folders(runs []*Journal) []string {
	names := make([]string, len(runs))
	taken := map[string]bool{}
	for i, j := range runs {
		base := slug(j.Name)
		if j.Repeat > 1 {
			base += "-" + strconv.Itoa(j.Repeat)
		}
		name := base
		for n := 2; taken[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		taken[name] = true
		names[i] = name
	}
	return names
}

// slug is a name in lower-case ASCII letters, digits and dashes, not empty, and
// none that a system keeps for itself.
func slug(name string) string {
	const longest = 80
	out := make([]byte, 0, min(len(name), longest))
	for i := 0; i < len(name) && len(out) < longest; i++ {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			out = append(out, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1] != '-':
			out = append(out, '-')
		}
	}
	out = bytes.Trim(out, "-")
	switch string(out) {
	case "":
		return "run"
	case "con", "nul", "prn", "aux":
		return "run-" + string(out)
	}
	return string(out)
}

// file is one that is to be written.
type file struct {
	name string
	data []byte
}

// install writes files into a folder: all of them beside their places first, and
// then each to its own, in their order. If anything fails before the first is in
// place, nothing is.
func install(dir string, files []file) (err error) {
	made, err := makeDir(dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	temporary := make([]string, 0, len(files))
	defer func() {
		for _, name := range temporary {
			os.Remove(name) // those in place are not there any more
		}
		if err != nil {
			for i := len(made) - 1; i >= 0; i-- {
				os.Remove(made[i]) // only if it is empty
			}
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		// The one thing in a file's place for which there is room beside it.
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			return fmt.Errorf("journal: %s is a folder", path)
		}
		name, err := writeBeside(path, f.data)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		temporary = append(temporary, name)
	}
	for i, f := range files {
		if err := os.Rename(temporary[i], filepath.Join(dir, f.name)); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// makeDir makes a folder and those above it, and returns which it had to make,
// the uppermost first.
func makeDir(dir string) (made []string, err error) {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append([]string{d}, made...)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		for i := len(made) - 1; i >= 0; i-- {
			os.Remove(made[i])
		}
		return nil, err
	}
	return made, nil
}

// writeBeside writes data to a new file beside the one that it is for, and on to
// the disk, and returns its name. It leaves nothing if it fails.
func writeBeside(path string, data []byte) (name string, err error) {
	var f *os.File
	for range 100 {
		// Not os.CreateTemp, whose files nobody else may read.
		name = fmt.Sprintf("%s.%08x.tmp", path, rand.Uint32())
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		os.Remove(name)
		return "", err
	}
	return name, nil
}
