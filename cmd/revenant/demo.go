package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/cmd/revenant/internal/demo"
)

const demoLong = `Watch a client believe in a dead session, and the same client find out.

The demo replays a record from the field on real sockets. Two applications use
the same unmodified go-sdk client, at the same time and in the same way. Each
has a server and a load balancer of its own. The only difference: in the
"protected" arm the middleware stands between the client and the network, in the
"control" arm it does not.

  Part 1  is the record. A load balancer cuts an idle stream, the client
          reconnects, the server replays what it missed, all is well. 25 minutes
          later the session expires without a word, and a tool call takes the
          blame. Nothing passes on the wire between the two, so both arms
          find out there; what they are told differs.
  Part 2  is the case that the record leads to. The session is lost while the
          client is away, and the event log is not. The reconnect is answered
          200 with a replay of ten events of a dead session.

A minute of the record takes 600 ms, the whole 25 seconds. Everything runs in
this process and on loopback, and nothing is left behind.

A table at the end has both arms side by side, with the numbers of an oracle
inside the servers that knows which session lived when.

Exit status:
  0    the control arm shows the failure and the protected arm does not
  1    one of the two is otherwise, or the run did not go as planned: the last
       line says which
  2    the command line is wrong, or an address cannot be used
  130  interrupted; everything is closed`

const demoExample = `  revenant demo                     # 25 seconds
  revenant demo --scale 20          # 2 minutes, to read along
  revenant demo --scale 300         # 8 seconds, if the machine is idle
  revenant demo --json | jq .arms   # the numbers
  revenant demo --listen-control 127.0.0.1:8081   # to look on with tcpdump`

func newDemo(getenv func(string) string) *cobra.Command {
	cfg := demo.Config{Scale: demo.DefaultScale}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Watch a dead session come back looking alive, and be stopped",
		Long:    demoLong,
		Example: demoExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return demoJSON(cmd.Context(), cfg, cmd.OutOrStdout())
			}
			return demoText(cmd.Context(), cfg, cmd.OutOrStdout(), getenv)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var((*scale)(&cfg.Scale), demo.SettingScale,
		fmt.Sprintf("how many times faster than the record, from %d to %d", demo.MinScale, demo.MaxScale))
	flags.BoolVar(&asJSON, "json", false, "print one JSON document at the end, and nothing else")
	flags.StringVar(&cfg.ListenControl, demo.SettingListenControl, demo.DefaultListen,
		"`address` on loopback of the control arm's load balancer")
	flags.StringVar(&cfg.ListenProtected, demo.SettingListenProtected, demo.DefaultListen,
		"`address` on loopback of the protected arm's load balancer")
	return cmd
}

// scale is the value of a flag that is checked when it is read.
type scale float64

func (s *scale) Set(text string) error {
	f, err := demo.ParseScale(text)
	if err == nil {
		*s = scale(f)
	}
	return err
}

func (s *scale) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }
func (s *scale) Type() string   { return "number" }

func demoText(ctx context.Context, cfg demo.Config, out io.Writer, getenv func(string) string) error {
	terminal := isTerminal(out) && getenv("TERM") != "dumb"
	screen := demo.NewScreen(out, terminal, getenv("NO_COLOR") == "")
	cfg.Line, cfg.Doing = screen.Line, screen.Doing
	d, err := demo.New(cfg)
	if err != nil {
		return err
	}
	info, _ := debug.ReadBuildInfo()
	screen.Begin(module(info, "go-sdk", "github.com/modelcontextprotocol/go-sdk"), cfg.Scale, d.Minute())
	r, err := d.Run(ctx)
	screen.End()
	if err != nil {
		return unfinished(ctx, err)
	}
	screen.Finish(r)
	if err := screen.Err(); err != nil {
		return &failure{exitFailed, err}
	}
	return judged(r)
}

func demoJSON(ctx context.Context, cfg demo.Config, out io.Writer) error {
	d, err := demo.New(cfg)
	if err != nil {
		return err
	}
	r, err := d.Run(ctx)
	if err != nil {
		return unfinished(ctx, err)
	}
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return &failure{exitFailed, err}
	}
	if _, err := out.Write(doc.Bytes()); err != nil {
		return &failure{exitFailed, err}
	}
	return judged(r)
}

// unfinished is the error of a run that was not completed.
func unfinished(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &failure{exitInterrupted, errors.New("interrupted: the servers, the load balancers and the clients are closed")}
	}
	return &failure{exitFailed, err}
}

// judged is nil for a run that showed what it is there to show.
func judged(r *demo.Report) error {
	if r.Verdict == demo.Upheld {
		return nil
	}
	text := fmt.Sprintf("demo: %s: %s", r.Verdict, strings.Join(r.Reasons, "; "))
	if r.Unplanned {
		text += fmt.Sprintf(" (on a slow machine try a smaller --scale than %g)", r.Scale)
	}
	return &failure{exitFailed, errors.New(text)}
}

// isTerminal reports whether out is a terminal, or another device that does not
// mind carriage returns.
func isTerminal(out io.Writer) bool {
	f, ok := out.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
