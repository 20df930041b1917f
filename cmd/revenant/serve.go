package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/control/server"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

const serveLong = `Run the daemon of the control plane: it keeps MCP servers and load balancers
running, runs experiments, and keeps their journals, all in a data directory that
one daemon at a time has. After its end, whatever that was, the next one goes on
from there: the same servers and load balancers on the same ports, and what was
running is marked as interrupted.

It is asked over a Unix socket, which only you can open, and with --listen over
TCP, too, where requests need a token: "Authorization: Bearer TOKEN". A browser
is asked for the token once. The token is read from a file that only you can
read, and is made there if there is none.

An interrupt (Ctrl-C), or SIGTERM, interrupts the runs, undoes what they have
broken, stops everything, and ends the daemon; a second one ends it at once, and
the operating system takes back the rest.

Exit status:
  0    it was told to end, and everything is stopped
  1    it could not start, or something could not be stopped or stored
  2    the command line cannot be used; nothing was done`

// serveFlags is what the command line says of the daemon.
type serveFlags struct {
	dataDir, socket   string
	listen, tokenFile string
	allowRemote       bool
	allowHosts        []string
	logFormat         string
	concurrency       int
}

func newServe(getenv func(string) string) *cobra.Command {
	f := &serveFlags{logFormat: "text", concurrency: daemon.DefaultConcurrency}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon that keeps servers, load balancers and runs",
		Long:  serveLong,
		Example: `  revenant serve
  revenant serve --listen 127.0.0.1:8700   # and open it in a browser
  revenant status
  revenant halt --reason "the fire alarm"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(getenv); err != nil {
				return err
			}
			if err := f.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return &failure{exitFailed, err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	dataDirFlags(flags, &f.dataDir, &f.socket)
	flags.StringVar(&f.listen, "listen", "", "listen on this `address` of this machine, too, such as 127.0.0.1:8700")
	flags.StringVar(&f.tokenFile, "token-file", "", "the `file` with the token for --listen, readable by you alone (default token in the data directory)")
	flags.BoolVar(&f.allowRemote, "allow-remote", false, "let --listen be an address that other machines can reach; without TLS; needs --token-file")
	flags.StringSliceVar(&f.allowHosts, "allow-host", nil, "a `name` by which others ask for this daemon (repeatable; with --allow-remote)")
	flags.Var(&flagOf{"format", func(text string) error {
		if text != "text" && text != "json" {
			return errors.New("want text or json")
		}
		f.logFormat = text
		return nil
	}, func() string { return f.logFormat }}, "log-format", "write the log, on standard error, as text or json")
	flags.IntVar(&f.concurrency, "concurrency", f.concurrency, "how many runs are active at once, from 1 to 16: they share this machine, and its timing gets worse")
	return cmd
}

// dataDirFlags are those by which a daemon is found.
func dataDirFlags(flags *pflag.FlagSet, dataDir, socket *string) {
	flags.StringVar(dataDir, "data-dir", "", "the data `directory` (default revenant in $XDG_STATE_HOME, or in ~/.local/state)")
	flags.StringVar(socket, "socket", "", "the Unix `socket` (default revenant.sock in the data directory)")
}

const socketName = "revenant.sock"

// resolveDataDir fills in the defaults of dataDirFlags.
func resolveDataDir(dataDir, socket *string, getenv func(string) string) error {
	if *dataDir == "" {
		state := getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(state) { // the specification has such a one ignored
			home := getenv("HOME")
			if home == "" {
				return errors.New("--data-dir is not given, and neither XDG_STATE_HOME nor HOME is set")
			}
			state = filepath.Join(home, ".local", "state")
		}
		*dataDir = filepath.Join(state, "revenant")
	}
	if *socket == "" {
		*socket = filepath.Join(*dataDir, socketName)
	}
	return nil
}

// check fills in the defaults and returns what cannot be meant.
func (f *serveFlags) check(getenv func(string) string) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := resolveDataDir(&f.dataDir, &f.socket, getenv); err != nil {
		faults = append(faults, err)
	}
	if f.concurrency < 1 || f.concurrency > 16 {
		fault("--concurrency is %d, want from 1 to 16", f.concurrency)
	}
	if f.listen == "" {
		for name, given := range map[string]bool{"--token-file": f.tokenFile != "", "--allow-remote": f.allowRemote, "--allow-host": f.allowHosts != nil} {
			if given {
				fault("%s is for --listen, which is not given", name)
			}
		}
		return errors.Join(faults...)
	}
	if f.allowHosts != nil && !f.allowRemote {
		fault("--allow-host is for --allow-remote, which is not given")
	}
	if err := checkListen(f.listen, f.allowRemote); err != nil {
		faults = append(faults, err)
	}
	if f.allowRemote && f.tokenFile == "" {
		fault("--allow-remote needs --token-file, with a token that those who may ask have been given")
	}
	return errors.Join(faults...)
}

// checkListen refuses what is no address, and, unless remote, what is not this
// machine's alone.
func checkListen(addr string, remote bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return fmt.Errorf("--listen is %q, want an address and a port, such as 127.0.0.1:8700", addr)
	}
	if ip := net.ParseIP(host); !remote && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen is %q, which other machines may reach: want 127.0.0.1:%s, or --allow-remote", addr, port)
	}
	return nil
}

// runnerFunc is a function as a daemon's runner.
type runnerFunc func(context.Context, *experiment.Definition, engine.Options) (*journal.Journal, error)

func (f runnerFunc) Run(ctx context.Context, d *experiment.Definition, o engine.Options) (*journal.Journal, error) {
	return f(ctx, d, o)
}

// entrance is one way in.
type entrance struct {
	server   *server.Server
	listener net.Listener
	name     string // for people
}

// serve is the command, with flags that are checked.
func (f *serveFlags) serve(ctx context.Context, stdout, stderr io.Writer) (err error) {
	var handler slog.Handler = slog.NewTextHandler(stderr, nil)
	if f.logFormat == "json" {
		handler = slog.NewJSONHandler(stderr, nil)
	}
	log := slog.New(handler)
	d, err := daemon.Open(ctx, daemon.Config{DataDir: f.dataDir, Version: version(), Log: log, Runner: runnerFunc(runExperiment), Concurrency: f.concurrency})
	if err != nil {
		return err
	}
	entrances, err := f.entrances(d, log)
	if err != nil {
		return errors.Join(err, d.Close())
	}

	// Whatever ends first ends the others.
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	ended := make([]error, len(entrances)+1)
	all.Go(func() {
		defer end()
		ended[0] = d.Serve(ctx)
	})
	select {
	case <-d.Ready():
		names := make([]string, len(entrances))
		for i, e := range entrances {
			names[i] = e.name
		}
		if _, err := fmt.Fprintf(stdout, "serving at %s\n", strings.Join(names, " and ")); err != nil {
			ended[0] = err
			end()
		}
	case <-ctx.Done():
	}
	for i, e := range entrances {
		all.Go(func() {
			defer end()
			ended[i+1] = e.server.Serve(ctx, e.listener)
		})
	}
	all.Wait()
	return errors.Join(ended...)
}

// entrances makes the ways in. All are bound, or none.
func (f *serveFlags) entrances(d *daemon.Daemon, log *slog.Logger) (all []entrance, err error) {
	defer func() {
		if err != nil {
			for _, e := range all {
				e.listener.Close()
			}
			all = nil
		}
	}()
	add := func(l net.Listener, name string, cfg server.Config) error {
		cfg.Backend, cfg.Log = d, log
		s, err := server.New(cfg)
		all = append(all, entrance{s, l, name})
		return err
	}
	socket, err := listenUnix(f.socket)
	if err != nil {
		return all, err
	}
	if err := add(socket, f.socket, server.Config{Unix: true}); err != nil || f.listen == "" {
		return all, err
	}
	token, err := f.token()
	if err != nil {
		return all, err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return all, fmt.Errorf("--listen: %w", err)
	}
	hosts := f.allowHosts
	if host, _, _ := net.SplitHostPort(f.listen); net.ParseIP(host) != nil && !net.ParseIP(host).IsUnspecified() {
		hosts = append(hosts, host)
	}
	return all, add(l, "http://"+l.Addr().String(), server.Config{Token: token, AllowedHosts: hosts})
}

// token is that of --token-file, or that of the data directory, where it is made if
// there is none.
func (f *serveFlags) token() (string, error) {
	if f.tokenFile != "" {
		return readToken(f.tokenFile)
	}
	return ownToken(filepath.Join(f.dataDir, tokenName))
}
