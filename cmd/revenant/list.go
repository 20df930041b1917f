package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

const listLong = `List the experiments of the library: what each is called, how long it takes,
with which clients it is done, and, where this machine lacks something that it
needs, what that is. "revenant explain NAME" says more of one.

Exit status:
  0    the list is printed, whether or not all can be run here
  1    the output could not be written
  2    the command line is wrong`

func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the experiments of the library, and which can be run here",
		Long:  listLong,
		Example: `  revenant list
  revenant list --json | jq -r '.experiments[] | select(.available).name'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := library()
			if err == nil && asJSON {
				err = writeJSON(cmd.OutOrStdout(), listed{1, all})
			} else if err == nil {
				err = listText(all, cmd.OutOrStdout())
			}
			if err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, and nothing else")
	return cmd
}

// listed is the JSON of "revenant list".
type listed struct {
	SchemaVersion int           `json:"schema_version"`
	Experiments   []libraryItem `json:"experiments"`
}

type libraryItem struct {
	Name      string                  `json:"name"`
	Title     string                  `json:"title"`
	Clients   []experiment.ClientKind `json:"clients"`
	Takes     experiment.Millis       `json:"takes_ms"`
	Available bool                    `json:"available"`
	Missing   []string                `json:"missing,omitempty"`
}

// library is all experiments. Each thing that some need is looked for once.
func library() ([]libraryItem, error) {
	all := []libraryItem{}
	asked := make(map[experiment.Need]error)
	found, err := findLibrary()
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		d := one.of
		if d == nil {
			return nil, one.problems
		}
		item := libraryItem{Name: d.Name, Title: d.Title, Clients: d.Clients.Kinds(), Takes: experiment.Millis(d.Takes()), Available: true}
		for _, need := range d.Needs() {
			missing, known := asked[need]
			if !known {
				missing = need.Available()
				asked[need] = missing
			}
			if missing != nil {
				item.Available = false
				item.Missing = append(item.Missing, need.What+": "+missing.Error())
			}
		}
		all = append(all, item)
	}
	return all, nil
}

// listText writes a table of 80 columns.
func listText(all []libraryItem, out io.Writer) error {
	names, clients := len("NAME"), len("CLIENTS")
	for _, item := range all {
		names, clients = max(names, len(item.Name)), max(clients, len(item.clients()))
	}
	var b strings.Builder
	// A text that is too long goes on below, where there is room.
	write := func(line, text, indent string) { b.WriteString(wrapped(line, indent, text)) }
	row := func(name, takes, who, title string) {
		write(fmt.Sprintf("%-*s  %6s  %-*s  ", names, name, takes, clients, who), title, "    ")
	}
	row("NAME", "TAKES", "CLIENTS", "TITLE")
	for _, item := range all {
		row(item.Name, item.Takes.String(), item.clients(), item.Title)
		for _, m := range item.Missing {
			write("    ", "not here: "+m, "      ")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (i *libraryItem) clients() string {
	kinds := make([]string, len(i.Clients))
	for n, k := range i.Clients {
		kinds[n] = string(k)
	}
	return strings.Join(kinds, ", ")
}
