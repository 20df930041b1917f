package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/control"
)

const daemonStatuses = `Exit status:
  0    done
  1    no daemon answers, or it could not do it
  2    the command line cannot be used; nothing was done`

// remote says where a daemon is.
type remote struct {
	dataDir, socket     string
	endpoint, tokenFile string
}

func (r *remote) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	dataDirFlags(flags, &r.dataDir, &r.socket)
	flags.StringVar(&r.endpoint, "endpoint", "", "the `URL` of a daemon with --listen, in place of a socket; needs --token-file")
	flags.StringVar(&r.tokenFile, "token-file", "", "the `file` with the token for --endpoint")
}

// client returns a client of the daemon. The caller closes it.
func (r *remote) client(getenv func(string) string) (*control.Client, error) {
	switch {
	case r.endpoint != "" && (r.socket != "" || r.dataDir != ""):
		return nil, errors.New("--endpoint is given beside --data-dir or --socket, want one of them")
	case r.endpoint != "" && r.tokenFile == "":
		return nil, errors.New("--endpoint needs --token-file")
	case r.endpoint == "" && r.tokenFile != "":
		return nil, errors.New("--token-file is for --endpoint, which is not given")
	}
	cfg := control.ClientConfig{Endpoint: r.endpoint, UserAgent: "revenant-cli"}
	if r.endpoint == "" {
		if err := resolveDataDir(&r.dataDir, &r.socket, getenv); err != nil {
			return nil, err
		}
		cfg.Socket = r.socket
	} else {
		token, err := readToken(r.tokenFile)
		if err != nil {
			return nil, err
		}
		cfg.Token = token
	}
	return control.New(cfg)
}

// ask is what a command does that asks a daemon.
func (r *remote) ask(getenv func(string) string, do func(context.Context, *control.Client, io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(getenv)
		if err != nil {
			return err
		}
		defer c.Close()
		err = do(cmd.Context(), c, cmd.OutOrStdout())
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("no daemon answers, and \"revenant serve\" starts one: %w", err)
		}
		if err != nil {
			return &failure{exitFailed, err}
		}
		return nil
	}
}

func newHalt(getenv func(string) string) *cobra.Command {
	r, why := new(remote), ""
	cmd := &cobra.Command{
		Use:   "halt",
		Short: "Have the daemon undo every fault now, and begin no run",
		Long: `Have the daemon end every run at once, undo whatever the runs have broken, and
refuse new ones until "revenant resume", also after a restart. It returns when
all is undone. Servers and load balancers that stand by themselves stay.

` + daemonStatuses,
		Args: noArgs,
		RunE: r.ask(getenv, func(ctx context.Context, c *control.Client, out io.Writer) error {
			if _, err := c.Halt(ctx, why); err != nil {
				return err
			}
			_, err := fmt.Fprintln(out, "halted: every fault is undone, and no run is begun until \"revenant resume\"")
			return err
		}),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&why, "reason", "", "why, for those who are told so")
	return cmd
}

func newResume(getenv func(string) string) *cobra.Command {
	r := new(remote)
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Have the daemon begin runs again",
		Long:  "Have the daemon begin runs again, after \"revenant halt\".\n\n" + daemonStatuses,
		Args:  noArgs,
		RunE: r.ask(getenv, func(ctx context.Context, c *control.Client, out io.Writer) error {
			if _, err := c.Resume(ctx); err != nil {
				return err
			}
			_, err := fmt.Fprintln(out, "runs are begun again")
			return err
		}),
	}
	r.flags(cmd)
	return cmd
}

// daemonStatus is what "revenant status --json" prints.
type daemonStatus struct {
	control.Info
	// Failed are the resources that do not run.
	Failed []control.Resource `json:"failed"`
}

func newStatus(getenv func(string) string) *cobra.Command {
	r, asJSON := new(remote), false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon has, and what of it does not run",
		Long:  "Show what the daemon has: how many resources of each kind, and those that have\nfailed, with the reason.\n\n" + daemonStatuses,
		Args:  noArgs,
		RunE: r.ask(getenv, func(ctx context.Context, c *control.Client, out io.Writer) error {
			s := daemonStatus{Failed: []control.Resource{}}
			var err error
			if s.Info, err = c.Handshake(ctx); err != nil {
				return err
			}
			for _, kind := range control.Kinds() {
				all, err := c.List(ctx, kind)
				if err != nil {
					return err
				}
				for _, one := range all {
					if one.Status.State == control.Failed {
						s.Failed = append(s.Failed, one)
					}
				}
			}
			if asJSON {
				return writeJSON(out, s)
			}
			return s.print(out)
		}),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document, and nothing else")
	return cmd
}

// print is the status for people.
func (s *daemonStatus) print(out io.Writer) error {
	halted := "no"
	if s.Halted {
		halted = "yes"
		if s.HaltReason != "" {
			halted += ": " + s.HaltReason
		}
	}
	const indent = "                " // as wide as the names
	row := func(name, text string) string {
		return wrapped(fmt.Sprintf("%-*s", len(indent), name), indent, text)
	}
	text := row("daemon", fmt.Sprintf("%s, process %d, since %s", s.Version, s.PID, s.Started.Local().Format(time.DateTime))) + row("data", s.DataDir)
	for _, kind := range control.Kinds() {
		text += row(string(kind), fmt.Sprint(s.Resources[kind]))
	}
	text += row("active runs", fmt.Sprint(s.ActiveRuns)) + row("halted", halted)
	for _, one := range s.Failed {
		text += wrapped("", "  ", fmt.Sprintf("%s/%s has failed: %s", one.Kind, one.Name, one.Status.Reason))
	}
	_, err := io.WriteString(out, text)
	return err
}
