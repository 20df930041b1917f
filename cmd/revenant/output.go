package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// output is the files that a command writes of its runs, "" for none.
type output struct {
	report string // a folder
	junit  string // a file
	html   string // a file, of one run
}

func (o *output) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.report, "report", "", "write pages, journals and JUnit XML into this `folder`")
	cmd.Flags().StringVar(&o.junit, "junit", "", "write JUnit XML, for CI, to this `file`")
}

// check says what of it could not be written. It leaves nothing.
func (o *output) check() error {
	var errs []error
	if o.report != "" {
		if err := checkFolder(o.report); err != nil {
			errs = append(errs, fmt.Errorf("--report %q: %w", o.report, err))
		}
	}
	for _, f := range []struct{ flag, path string }{{"--junit", o.junit}, {"--html", o.html}} {
		if f.path != "" {
			if err := checkFile(f.path); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: %w", f.flag, f.path, err))
			}
		}
	}
	return errors.Join(errs...)
}

// any is whether there is something to write.
func (o *output) any() bool { return *o != output{} }

// index is the page of all runs, "" for none.
func (o *output) index() string {
	if o.report == "" {
		return ""
	}
	return filepath.Join(o.report, journal.FileIndex)
}

// where are the files that were written, for people.
func (o *output) where() (all []string) {
	for _, file := range []string{o.index(), o.html, o.junit} {
		if file != "" {
			all = append(all, file)
		}
	}
	return all
}

// write writes all of it, and notes of each run where its page is.
func (o *output) write(all outcomes) error {
	var errs []error
	journals := all.journals()
	if o.report != "" {
		if err := journal.WriteReport(o.report, journals); err != nil {
			errs = append(errs, err)
		} else {
			o.pages(all)
		}
	}
	if o.junit != "" {
		errs = append(errs, writeFile(o.junit, func(w io.Writer) error { return journal.WriteJUnit(w, journals...) }))
	}
	if o.html != "" {
		errs = append(errs, writeFile(o.html, journals[0].WriteHTML))
	}
	return errors.Join(errs...)
}

// pages notes where the page of each run is: in the folder that [journal.WriteReport]
// has named after its experiment. If it is not there, the page of all has a link.
func (o *output) pages(all outcomes) {
	taken := make(map[string]bool)
	for _, one := range all {
		for i := range one.runs {
			r := &one.runs[i]
			base := r.Name
			if r.Repeat > 1 {
				base += "-" + strconv.Itoa(r.Repeat)
			}
			name := base
			for n := 2; taken[name]; n++ {
				name = base + "-" + strconv.Itoa(n)
			}
			taken[name] = true
			r.page = o.index()
			page := filepath.Join(o.report, name, journal.FilePage)
			// The name of a journal that was read may be any text.
			if _, err := os.Stat(page); err == nil && filepath.Base(name) == name && filepath.IsLocal(name) {
				r.page = page
			}
		}
	}
}

// checkFolder says why no file can be written into a folder, which need not be
// there yet. It leaves nothing.
func checkFolder(dir string) error {
	made, err := makeFolders(dir)
	defer removeFolders(made)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".revenant-*")
	if err != nil {
		return fmt.Errorf("no file can be written into it: %w", reason(err))
	}
	f.Close()
	return os.Remove(f.Name())
}

// checkFile says why a file cannot be written. It leaves nothing.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder, want a file")
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or a pipe: to open it may wait for a reader
	}
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("its folder: %w", err)
	}
	return nil
}

// makeFolders makes a folder and those above it that are missing, and returns what
// it has made, the uppermost first.
func makeFolders(dir string) (made []string, err error) {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("%q is a file, want a folder", dir)
	}
	// What is wrong above says more than what is wrong here.
	if above := filepath.Dir(dir); above != dir {
		if made, err = makeFolders(above); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, fmt.Errorf("%q: %w", dir, reason(err))
	}
	return append(made, dir), nil
}

func removeFolders(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		os.Remove(made[i]) // only if it is empty
	}
}

// writeFile writes a file whole or not at all, and its folder if there is none. A
// device or a pipe is written to as it is.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return write(f)
	}
	made, err := makeFolders(filepath.Dir(path))
	if err != nil {
		return err
	}
	temporary := path + ".tmp" + strconv.Itoa(os.Getpid())
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		removeFolders(made)
		return err
	}
	err = write(f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		removeFolders(made)
	}
	return err
}
