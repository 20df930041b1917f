package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

const demoLong = `Watch a client believe in what is dead, and the same client find out.

The demo runs the two experiments of the library that replay records from the
field. Each has two applications with the same unmodified go-sdk client, at the
same time and through the same trouble, each with a server and a load balancer
of its own. The only difference: in the "protected" arm the middleware stands
between the client and the network, in the "control" arm it does not.

  session      a session that is dead while its event log lives: what is
               replayed of it is acted on, and a tool call takes the blame
  elicitation  a question that is dead while its session lives: a person is
               asked again and again, and the call never ends

Of each it shows what happened in both arms, moment by moment, with a "!" before
what the middleware is there to prevent; then the numbers side by side, which an
oracle inside the servers vouches for; and at the end where the pages are, with
the same as a picture. "revenant explain session" says what is done when, and
"revenant run session" is the same experiment without the story.

` + verdictStatuses

const demoExample = `  revenant demo                        # both, half a minute
  revenant demo --record elicitation   # 5 seconds
  revenant demo --scale 20             # five times slower
  revenant demo --report out           # the pages, where you want them`

// demoRecords are the experiments that the demo shows.
var demoRecords = []string{"session", "elicitation"}

func newDemo(getenv func(string) string) *cobra.Command {
	f := new(runFlags)
	var records []string
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Watch a dead session come back looking alive, and be stopped",
		Long:    demoLong,
		Example: demoExample,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(records) == 0 {
				records = demoRecords
			}
			made := ""
			if f.output.report == "" {
				var err error
				if made, err = os.MkdirTemp("", "revenant-demo-"); err != nil {
					return &failure{exitFailed, fmt.Errorf("a folder for the pages: %w", err)}
				}
				f.output.report = made
			}
			trials, err := f.prepare(records, cmd.ErrOrStderr())
			if err != nil {
				return errors.Join(err, os.RemoveAll(made))
			}
			stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
			capable := getenv("TERM") != "dumb"
			show := &demo{
				r: &runner{flags: f, trials: trials, stdout: stdout, stderr: stderr, line: isTerminal(stderr) && capable},
				p: &printer{out: stdout, color: isTerminal(stdout) && capable && getenv("NO_COLOR") == ""},
			}
			return show.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(oneOf(&records, "name", demoRecords), "record", "show only this one: session or elicitation")
	flags.Var(factor(&f.scale, minFactor, maxFactor), "scale", "how many times faster than the record, from 1 to\n1000 (default the definition's)")
	flags.StringVar(&f.output.report, "report", "", "write the pages into this `folder` (default a new one\nin the system's folder for such)")
	return cmd
}

// demo shows experiments to somebody who has not seen any.
type demo struct {
	r *runner
	p *printer
}

func (d *demo) run(ctx context.Context) error {
	var all outcomes
	for i := range d.r.trials {
		t := &d.r.trials[i]
		o := &outcome{name: t.of.Name, arg: t.arg, repeat: 1}
		all = append(all, o)
		if ctx.Err() != nil {
			continue
		}
		d.introduce(t.of)
		j, err := d.r.once(ctx, t, 1)
		if err != nil {
			return &failure{exitFailed, err}
		}
		o.runs = append(o.runs, ran{Journal: j})
		d.tell(t.of, j)
	}
	unwritten := d.r.flags.output.write(all)
	if ctx.Err() == nil {
		d.p.print(demoEnd)
	}
	if unwritten == nil {
		d.p.print(wrapped("Pictures:  ", "           ", d.r.flags.output.index()))
	}
	if err := errors.Join(unwritten, d.p.err); err != nil {
		return &failure{exitFailed, err}
	}
	err := all.err()
	if f := (*failure)(nil); ctx.Err() != nil && errors.As(err, &f) {
		f.err = fmt.Errorf("interrupted, and everything is undone; %w", f.err)
	}
	return err
}

const demoEnd = `Three lines do it in a client of yours, with the module
github.com/revenant-mcp/revenant/middleware:

    t, err := middleware.New(middleware.Config{})
    client := &http.Client{Transport: t}
    &mcp.StreamableClientTransport{HTTPClient: client, Endpoint: url}

`

// introduce says what is about to be seen, and how long it takes.
func (d *demo) introduce(def *experiment.Definition) {
	d.p.print(def.Title + "\n" + strings.Repeat("=", len([]rune(def.Title))) + "\n\n")
	for _, paragraph := range strings.Split(strings.TrimSpace(def.Description), "\n\n") {
		d.p.print(wrapped("", "", paragraph) + "\n")
	}
	d.p.print(wrapped("", "", fmt.Sprintf("It runs %v times faster than the record, for %s.", def.Scale(), took(def.Takes()))) + "\n")
}

// tell says what has happened.
func (d *demo) tell(def *experiment.Definition, j *journal.Journal) {
	var story strings.Builder
	if err := j.WriteStory(&story); err != nil {
		d.p.err = err
	}
	d.p.print(story.String() + "\n")
	d.numbers(def, j)
	d.p.line(string(j.Verdict), j.Name, j.Reason)
	d.p.print("\n\n")
}

// demoColumn is how wide a column of numbers is.
const demoColumn = 14

// numbers has what was measured of both arms side by side, for each kind of client.
func (d *demo) numbers(def *experiment.Definition, j *journal.Journal) {
	for _, kind := range def.Clients.Kinds() {
		d.p.print(fmt.Sprintf("%-50s%-*s%s\n", "Side by side, "+string(kind), demoColumn, experiment.Control, experiment.Protected))
		for _, s := range subjects(def, kind) {
			row := fmt.Sprintf("%-50s%-*s%s", cut(s.Words(), 49),
				demoColumn, cut(measured(j, experiment.Control, kind, s), demoColumn-1), cut(measured(j, experiment.Protected, kind, s), 80-50-demoColumn))
			d.p.print(strings.TrimRight(row, " ") + "\n")
		}
		d.p.print("\n")
	}
}

// subjects are what the hypothesis is about, the control arm's first: its failure
// is what is to be seen.
func subjects(def *experiment.Definition, kind experiment.ClientKind) []experiment.Subject {
	var all []experiment.Subject
	for _, x := range slices.Concat(def.Hypothesis.Control.For(kind), def.Hypothesis.Protected.For(kind)) {
		if !slices.Contains(all, x.Subject) {
			all = append(all, x.Subject)
		}
	}
	return all
}

// measured is what an arm has measured: what was checked, or else the number. "-"
// for neither.
func measured(j *journal.Journal, arm string, kind experiment.ClientKind, s experiment.Subject) string {
	for _, c := range j.After {
		if c.Arm == arm && c.Client == string(kind) && c.Measure == s.String() && c.Problem == "" && c.Value != "" {
			return c.Value
		}
	}
	for _, a := range j.Arms {
		if n, ok := a.Measures[s.String()]; ok && a.Name == arm && a.Client == string(kind) {
			return experiment.NumberValue(n).String()
		}
	}
	return "-"
}
