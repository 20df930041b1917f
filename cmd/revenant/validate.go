package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

const validateLong = `Check definitions of experiments, and start nothing.

` + namingDefinitions + `

Every problem is reported at once, with its file, line and column, the line
itself, and what would be right. A definition is refused that has a key which
there is not or one twice, a value that cannot be, something that one key says
against another (a fault on a link that the topology has not, a load balancer
that cannot do what is asked of it), a time that gets too short at its
time_scale, and a control arm that could measure what the protected arm does:
such an experiment would show nothing.

Whether this machine has what an experiment needs is not looked at: for that
there is "revenant list".

Exit status:
  0    all are valid
  1    the output could not be written
  2    one is not, or an argument names nothing`

func newValidate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE|NAME|DIR...",
		Short: "Check definitions of experiments",
		Long:  validateLong,
		Example: `  revenant validate my-experiment.yaml
  revenant validate experiments/        # every *.yaml in it
  revenant validate --json broken.yaml | jq '.files[].problems[].message'`,
		Args: someDefinitions,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := findDefinitions(args)
			if err != nil {
				return err
			}
			if asJSON {
				err = validateJSON(all, cmd.OutOrStdout())
			} else {
				err = validateText(all, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if err != nil {
				return &failure{exitFailed, err}
			}
			return allValid(all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, and nothing else")
	return cmd
}

// someDefinitions wants at least one argument.
func someDefinitions(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s takes files, folders or names of experiments, and there is none: %q is the whole library",
			cmd.CommandPath(), cmd.CommandPath()+" "+wholeLibrary)
	}
	return nil
}

// allValid is the error of definitions some of which are not valid.
func allValid(all []definition) error {
	problems, broken := 0, 0
	for _, d := range all {
		if len(d.problems) > 0 {
			broken++
		}
		problems += len(d.problems)
	}
	if broken == 0 {
		return nil
	}
	return &failure{exitUsage, fmt.Errorf("%s in %d of %s", count(problems, "problem"), broken, count(len(all), "definition"))}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func validateText(all []definition, out, stderr io.Writer) error {
	for _, d := range all {
		var err error
		if d.of != nil {
			_, err = fmt.Fprintf(out, "%s: valid: %s, %s\n", d.file, d.of.Name, d.of.Title)
		} else {
			_, err = io.WriteString(stderr, d.problems.Text())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// validated is the JSON of "revenant validate".
type validated struct {
	SchemaVersion int             `json:"schema_version"`
	Valid         bool            `json:"valid"`
	Files         []validatedFile `json:"files"`
}

type validatedFile struct {
	File     string             `json:"file"`
	Name     *string            `json:"name"` // null if it is not valid
	Valid    bool               `json:"valid"`
	Problems []validatedProblem `json:"problems"`
}

type validatedProblem struct {
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Path       string `json:"path"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

func validateJSON(all []definition, out io.Writer) error {
	doc := validated{SchemaVersion: 1, Valid: true, Files: []validatedFile{}}
	for _, d := range all {
		file := validatedFile{File: d.file, Valid: d.of != nil, Problems: reported(d.problems)}
		if d.of != nil {
			file.Name = &d.of.Name
		}
		doc.Valid = doc.Valid && file.Valid
		doc.Files = append(doc.Files, file)
	}
	return writeJSON(out, doc)
}

func reported(problems experiment.Problems) []validatedProblem {
	all := make([]validatedProblem, len(problems))
	for i, p := range problems {
		all[i] = validatedProblem{p.Line, p.Column, p.Path, p.Message, p.Suggestion}
	}
	return all
}
