package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

const explainLong = `Say what an experiment proves, and what running it would do: what the clients
talk to, what is done when, in the record's time and in real time, what each arm
is expected to measure, how long it takes, and whether this machine has what it
needs. Nothing is started.

The argument is the name of an experiment of the library ("revenant list" has
them) or a file.

Exit status:
  0    the plan is printed
  1    the output could not be written
  2    there is no such experiment, or it is not valid`

func newExplain() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain NAME|FILE",
		Short: "Say what an experiment proves, and what running it would do",
		Long:  explainLong,
		Example: `  revenant explain session
  revenant explain --json session | jq -r '.claims[].words'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes the name of one experiment, or one file, and not %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := findDefinitions(args)
			if err != nil {
				return err
			}
			if len(all) != 1 {
				return fmt.Errorf("%q names %d definitions, want one of them", args[0], len(all))
			}
			d := all[0]
			if d.of == nil {
				if err := validateText(all, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
					return &failure{exitFailed, err}
				}
				return allValid(all)
			}
			if err := explain(d.of, asJSON, cmd.OutOrStdout()); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, and nothing else")
	return cmd
}

func explain(d *experiment.Definition, asJSON bool, out io.Writer) error {
	plan := d.Plan()
	if !asJSON {
		return plan.WriteText(out)
	}
	return writeJSON(out, struct {
		SchemaVersion int `json:"schema_version"`
		*experiment.Plan
	}{1, plan})
}

// writeJSON writes one document, whole or not at all.
func writeJSON(out io.Writer, v any) error {
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(doc.Bytes())
	return err
}
