package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `revenant shows how MCP clients over streamable HTTP come to believe in sessions
that are dead, and how to stop it.

A client that reconnects its event stream gets a replay from the server's event
log, is answered 200, and concludes that its session lives. The session may be
long gone: a replay proves that the log lives, nothing else. The middleware in
github.com/revenant-mcp/revenant/middleware asks the session store before it
hands anything on.`

func newRoot(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use:   "revenant",
		Short: "Show and stop MCP sessions that only look alive",
		Long:  rootLong,
		Example: `  revenant demo                # watch it happen, in half a minute
  revenant help demo           # what there is to see
  revenant list                # the experiments of the library
  revenant run session         # run one of them
  revenant run --all           # run all of them`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		Version: version(),

		// report prints every error, in one line.
		SilenceErrors: true,
		SilenceUsage:  true,
		// So that an unknown command is one line.
		DisableSuggestions: true,
		CompletionOptions:  cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.AddCommand(newDemo(getenv), newRun(getenv), newReport(), newList(), newExplain(), newValidate(), newSchema(), newVersion())
	root.AddCommand(newServe(getenv), newStatus(getenv), newHalt(getenv), newResume(getenv))
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if err := noArgs(about, rest); err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	})
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument, and not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// failure is an error of a command that was used well: it has an exit status of
// its own. Any other error is one of usage.
type failure struct {
	status int
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// report prints the error of a command and returns the exit status.
func report(stderr io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if cmd.Name() == "help" {
		cmd = cmd.Parent()
	}
	status, hint := exitUsage, fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
	if f := (*failure)(nil); errors.As(err, &f) {
		status, hint = f.status, ""
	}
	// Whatever a user or a library has put into it, it is one line.
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	fmt.Fprintf(stderr, "revenant: %s%s\n", text, hint)
	return status
}
