package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

const reportLong = `Read the journals of runs that "revenant run --report" has written, and show
what became of them.

An argument is a journal, or a folder, of which ` + journal.FileJSON + ` is read, and that
of each folder in it. Without a flag the verdict, the reason and all checks of
each are printed; a flag has them written in another form.

` + verdictStatuses

func newReport() *cobra.Command {
	var out output
	var asJSON, story bool
	cmd := &cobra.Command{
		Use:   "report JOURNAL|DIR...",
		Short: "Show the journals of runs again, or in another form",
		Long:  reportLong,
		Example: `  revenant report out
  revenant report out/session --story
  revenant report out/session/journal.json --html session.html
  revenant report monday/ tuesday/ --report both   # one table of both
  revenant report out --json | jq '.runs[].checks_not_met'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s takes journals, or folders with journals in them, and there is none: \"revenant run --report DIR\" writes some", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			runs, err := readJournals(args)
			if out.html != "" && len(runs) > 1 {
				err = errors.Join(err, fmt.Errorf("--html takes one journal, and not %d: --report has a page for each", len(runs)))
			}
			if err := errors.Join(err, out.check()); err != nil {
				return err
			}
			all := grouped(runs)
			if err := out.write(all); err != nil {
				return &failure{exitFailed, err}
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), all.document(out.index(), out.junit))
			} else {
				err = reportText(all, &out, story, cmd.OutOrStdout())
			}
			if err != nil {
				return &failure{exitFailed, err}
			}
			return all.err()
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&out.html, "html", "", "write the page of the one journal to this `file`")
	out.flags(cmd)
	flags.BoolVar(&story, "story", false, "print, too, what happened, moment by moment in both arms")
	flags.BoolVar(&asJSON, "json", false, "print one JSON document, and nothing else")
	return cmd
}

// readJournals reads all that the arguments name, or returns everything that
// cannot be read.
func readJournals(args []string) ([]ran, error) {
	var runs []ran
	var errs []error
	for _, arg := range args {
		files, err := findJournals(arg)
		errs = append(errs, err)
		var found []ran
		for _, file := range files {
			j, err := journal.Read(file)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			found = append(found, ran{Journal: j, file: file})
		}
		// Those of a folder in the order in which they were run.
		slices.SortStableFunc(found, func(a, b ran) int { return a.Start.Compare(b.Start) })
		runs = append(runs, found...)
	}
	return runs, errors.Join(errs...)
}

// findJournals returns the journals that an argument names.
func findJournals(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", arg, reason(err))
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	entries, err := os.ReadDir(arg)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", arg, reason(err))
	}
	var files []string
	add := func(file string) {
		if info, err := os.Stat(file); err == nil && !info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	add(filepath.Join(arg, journal.FileJSON))
	for _, e := range entries {
		if e.IsDir() {
			add(filepath.Join(arg, e.Name(), journal.FileJSON))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%q has no %s in it, nor has a folder in it", arg, journal.FileJSON)
	}
	return files, nil
}

// grouped puts the runs of one experiment together.
func grouped(runs []ran) outcomes {
	var all outcomes
	for _, r := range runs {
		i := slices.IndexFunc(all, func(o *outcome) bool { return o.name == r.Name })
		if i < 0 {
			i = len(all)
			all = append(all, &outcome{name: r.Name})
		}
		all[i].runs = append(all[i].runs, r)
	}
	return all
}

// reportText writes everything that there is to say of each run, or, where that
// is in the files that were written, as much as "revenant run" does.
func reportText(all outcomes, written *output, story bool, out io.Writer) error {
	p := &printer{out: out}
	for _, o := range all {
		p.names = max(p.names, len(o.name))
	}
	for i, o := range all {
		for n, r := range o.runs {
			if written.any() {
				p.ran(o, r)
			} else {
				if i+n > 0 {
					p.print("\n")
				}
				p.whole(r)
			}
			if story {
				p.story(r)
			}
		}
	}
	if written.any() || len(all.journals()) > 1 {
		p.summary(all, written.where(), "")
	}
	return p.err
}
