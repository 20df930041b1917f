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

const demoLong = `Watch a client believe in what is dead, and the same client find out.

The demo replays two records from the field on real sockets. Two applications
use the same unmodified go-sdk client, at the same time and in the same way.
Each has a server and a load balancer of its own. The only difference: in the
"protected" arm the middleware stands between the client and the network, in the
"control" arm it does not.

The record "session", of a session that is dead while its log lives:

  Part 1  is the record. A load balancer cuts an idle stream, the client
          reconnects, the server replays what it missed, all is well. 25 minutes
          later the session expires without a word, and a tool call takes the
          blame. Nothing passes on the wire between the two, so both arms
          find out there; what they are told differs.
  Part 2  is the case that the record leads to. The session is lost while the
          client is away, and the event log is not. The reconnect is answered
          200 with a replay of ten events of a dead session.

The record "elicitation", of a request that is dead while its session lives: a
tool asks a person to confirm, the load balancer cuts the stream before they
do, the server gives the request up, and each reconnect replays it. The control
arm prompts the person each time, and its call never ends. The protected arm
prompts once; the call fails once, and the application makes it anew.

A minute of the records takes 600 ms, the whole half a minute. Everything runs
in this process and on loopback, and nothing is left behind.

A table after each record has both arms side by side, with the numbers of an
oracle inside the servers that knows which session lived when, and for which
answer somebody waited.

Exit status:
  0    the control arm shows the failure and the protected arm does not
  1    one of the two is otherwise, in any record, or the run did not go as
       planned: the last line says which
  2    the command line is wrong, or an address cannot be used
  130  interrupted; everything is closed`

const demoExample = `  revenant demo                       # both records, half a minute
  revenant demo --record elicitation  # 5 seconds
  revenant demo --scale 20            # 2.5 minutes, to read along
  revenant demo --scale 300           # 10 seconds, if the machine is idle
  revenant demo --json | jq '.arms, .elicitation.arms'   # the numbers
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
	flags.Var((*recordFlag)(&cfg.Records), demo.SettingRecord, "what to replay: session, elicitation or all")
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

// recordFlag is the records that the value of a flag names.
type recordFlag []*demo.Record

func (r *recordFlag) Set(text string) (err error) {
	*r, err = demo.ParseRecords(text)
	return err
}

func (r *recordFlag) String() string {
	if len(*r) == 1 {
		return (*r)[0].Name()
	}
	return demo.AllRecords
}

func (r *recordFlag) Type() string { return "name" }

func demoText(ctx context.Context, cfg demo.Config, out io.Writer, getenv func(string) string) error {
	terminal := isTerminal(out) && getenv("TERM") != "dumb"
	screen := demo.NewScreen(out, terminal, getenv("NO_COLOR") == "")
	info, _ := debug.ReadBuildInfo()
	client := module(info, "go-sdk", "github.com/modelcontextprotocol/go-sdk")
	var d *demo.Demo
	cfg.Begin = func(r *demo.Record) { screen.Begin(r, client, cfg.Scale, d.Minute()) }
	cfg.Line, cfg.Doing, cfg.End = screen.Line, screen.Doing, screen.End
	d, err := demo.New(cfg)
	if err != nil {
		return err
	}
	r, err := d.Run(ctx)
	if err != nil {
		screen.Abort()
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
