// Command revenant is the command line of the project: it shows the defect that
// the middleware is there for (revenant demo), runs experiments (revenant run) and
// shows what became of them (revenant report), and reads their definitions
// (revenant list, explain, validate and schema).
//
// Only main touches signals, the environment, the standard streams and the exit
// status; run is everything else.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// The exit statuses. Each command says in its help what they mean for it.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitInconclusive = 3
	exitAborted      = 4
	exitInterrupted  = 130 // what shells make of SIGINT
)

// run is the program: it returns the exit status. It ends soon after ctx does.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(getenv)
	// With nil cobra would take os.Args.
	root.SetArgs(append([]string{}, args...))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return report(stderr, cmd, err)
}
