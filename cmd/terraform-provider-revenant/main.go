// Command terraform-provider-revenant is the Terraform provider, as Terraform and
// OpenTofu start it, and the daemon that the provider starts when it is given no
// endpoint: terraform-provider-revenant daemon. See package provider.
//
// Only main touches signals, the environment, the standard streams and the exit
// status; run is everything else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/provider"
	"github.com/revenant-mcp/revenant/provider/local"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

const exitUsage = 2

// daemonCommand makes this program a daemon.
const daemonCommand = "daemon"

func main() {
	ctx := context.Background()
	// Of a provider an interrupt at the terminal ends nothing: Terraform gets it, too,
	// and tells the provider what is to be stopped.
	if len(os.Args) > 1 && os.Args[1] == daemonCommand {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		// A second signal ends the program at once.
		context.AfterFunc(ctx, stop)
	}
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

const usage = `Terraform starts this program; see https://developer.hashicorp.com/terraform.

  terraform-provider-revenant [-debug]
  terraform-provider-revenant daemon --data-dir DIRECTORY
  terraform-provider-revenant version
`

// run is the program: it returns the exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case daemonCommand:
			return runDaemon(ctx, args[1:], stderr)
		case "version":
			fmt.Fprintln(stdout, version)
			return local.ExitOK
		}
		fmt.Fprintf(stderr, "%q is no command\n\n%s", args[0], usage)
		return exitUsage
	}
	flags := flag.NewFlagSet("terraform-provider-revenant", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	debug := flags.Bool("debug", false, "")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	err := providerserver.Serve(ctx, provider.New(provider.Config{Version: version, Getenv: getenv}), providerserver.ServeOpts{
		Address: provider.Address, Debug: *debug, ProtocolVersion: 6,
	})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return local.ExitFailed
	}
	return local.ExitOK
}

// runDaemon is the provider's daemon. Its log goes to stderr, which the provider
// makes a file.
func runDaemon(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("daemon", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dataDir := flags.String("data-dir", "", "the `directory` in which it keeps everything; required")
	idle := flags.Duration("idle", local.DefaultIdle, "how long it waits, when it keeps nothing, for somebody who asks")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if *dataDir == "" || flags.NArg() > 0 || *idle < 100*time.Millisecond {
		fmt.Fprintln(stderr, "want --data-dir DIRECTORY, perhaps --idle DURATION of 100ms or more, and nothing else")
		return exitUsage
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	dir, err := local.CheckDataDir(*dataDir)
	if err == nil {
		err = local.Serve(ctx, local.ServeConfig{DataDir: dir, Version: version, Idle: *idle, Log: log})
	}
	switch {
	case err == nil:
		return local.ExitOK
	case errors.Is(err, daemon.ErrInUse):
		log.Info("another daemon has the directory", "reason", err)
		return local.ExitInUse
	}
	log.Error("the daemon has ended", "error", err)
	return local.ExitFailed
}
