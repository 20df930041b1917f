package main

import (
	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

const schemaLong = `Print the JSON Schema (draft 2020-12) of definitions of experiments. With it an
editor completes keys and values, and shows what each is for.

Editors with the YAML language server, such as Visual Studio Code with the YAML
extension, take it from the first line of a definition:

  # yaml-language-server: $schema=experiment.schema.json

"revenant validate" refuses all that the schema does, and also what one key says
against another.

Exit status:
  0    the schema is printed
  1    the output could not be written
  2    the command line is wrong`

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of definitions, for editors",
		Long:    schemaLong,
		Example: `  revenant schema > experiment.schema.json`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := cmd.OutOrStdout().Write(experiment.Schema()); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
}
