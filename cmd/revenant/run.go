package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

const runLong = `Run experiments, one after another: each with the same clients in two arms, of
which one has the middleware, on real sockets.

` + namingDefinitions + `

All definitions are checked before anything is started, and so is whether the
report can be written. An experiment that this machine cannot run is
inconclusive, and the reason says what is missing. With repeats an experiment's
verdict is the worst of its runs, which all have the same seed.

  upheld        the control arm failed as the hypothesis says, the protected
                arm held
  deviated      the control arm failed, and the protected arm did not hold
  inconclusive  nothing was shown: the control arm did not fail, for example
  aborted       the run was stopped in the middle, by a bound of the definition
                or by an interrupt

An interrupt (Ctrl-C) undoes what is broken, stops everything, and writes the
report of what there is; a second one ends the program at once, and the
operating system takes back the rest.

` + verdictStatuses

const runExample = `  revenant run session
  revenant run all --report out   # the library; then look at out/index.html
  revenant run my.yaml --client gosdk,naive --repeat 5
  revenant run session --scale 20 --arm protected --seed 7
  revenant run experiments --dry-run   # what would be done
  revenant run all --json | jq '.experiments[] | select(.verdict != "upheld")'`

// The bounds of a definition's repeats and time_scale.
const (
	maxRepeats = 100
	minFactor  = 1
	maxFactor  = 1000
)

// runExperiment runs an experiment once. It is a variable for the tests.
var runExperiment = engine.Run

// runFlags is what the command line says of all experiments.
type runFlags struct {
	all     bool
	arms    []string
	clients []experiment.ClientKind
	seed    uint64  // 0: the definition's
	repeat  uint64  // 0: the definition's
	scale   float64 // 0: the definition's
	output  output
	dryRun  bool
	json    bool
	quiet   bool
}

func newRun(getenv func(string) string) *cobra.Command {
	f := new(runFlags)
	cmd := &cobra.Command{
		Use:     "run FILE|NAME|DIR...",
		Short:   "Run experiments, and say what they have shown",
		Long:    runLong,
		Example: runExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.all && len(args) > 0 {
				return fmt.Errorf("--all is the whole library, and there is %q besides: want one of the two", args[0])
			}
			if f.all {
				return nil
			}
			return someDefinitions(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			trials, err := f.prepare(args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if f.dryRun {
				return f.plan(trials, cmd.OutOrStdout())
			}
			stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
			capable := getenv("TERM") != "dumb"
			r := &runner{
				flags: f, args: args, trials: trials, stdout: stdout, stderr: stderr,
				line:  isTerminal(stderr) && capable && !f.quiet,
				color: isTerminal(stdout) && capable && getenv("NO_COLOR") == "",
			}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.all, "all", false, "run the whole library; no argument then")
	flags.Var(oneOf(&f.arms, "arm", experiment.Arms()), "arm", "run only this arm, control or protected; then\nnothing is upheld (repeatable; default both)")
	flags.Var(oneOf(&f.clients, "kind", experiment.ClientKinds()), "client", "run only with these clients: gosdk, mcpgo, naive;\nwhat has none of them is skipped (repeatable; default all)")
	flags.Var(wholeNumber(&f.seed, math.MaxUint64), "seed", "what all randomness is drawn from (default the definition's)")
	flags.Var(wholeNumber(&f.repeat, maxRepeats), "repeat", "how often to run each (default the definition's)")
	flags.Var(factor(&f.scale, minFactor, maxFactor), "scale", "how many times faster than the record, from 1 to\n1000 (default the definition's)")
	f.output.flags(cmd)
	flags.BoolVar(&f.json, "json", false, "print one JSON document at the end, and nothing else")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and print the plans; start nothing")
	flags.BoolVar(&f.quiet, "quiet", false, "print only what is not upheld")
	return cmd
}

// trial is an experiment as it is to be run.
type trial struct {
	definition
	// of is the definition with what the command line says in its place.
	of      *experiment.Definition
	options engine.Options
	repeat  int
	skipped string // why it is not to be run, "" if it is
}

// prepare reads and checks everything that is to be run, and where to write it.
// Problems of definitions are printed, all of them; the error counts them.
func (f *runFlags) prepare(args []string, stderr io.Writer) ([]trial, error) {
	find := findDefinitions
	if f.all {
		find = func([]string) ([]definition, error) { return findLibrary() }
	}
	all, err := find(args)
	if unwritable := f.output.check(); err != nil || unwritable != nil {
		return nil, errors.Join(err, unwritable)
	}
	var trials []trial
	for i := range all {
		d := &all[i]
		if d.of == nil {
			if _, err := io.WriteString(stderr, d.problems.Text()); err != nil {
				return nil, &failure{exitFailed, err}
			}
			continue
		}
		t := f.trial(*d)
		// What the definition says is right, and what the flags say beside it may
		// not be.
		if err := t.of.Validate(); err != nil {
			errors.As(err, &d.problems)
			for _, p := range d.problems {
				if _, err := fmt.Fprintf(stderr, "%s: with%s: %v\n", d.file, f.changes(), p); err != nil {
					return nil, &failure{exitFailed, err}
				}
			}
		}
		trials = append(trials, t)
	}
	if err := allValid(all); err != nil {
		return nil, err
	}
	for _, t := range trials {
		if t.skipped == "" {
			return trials, nil
		}
	}
	return nil, fmt.Errorf("--client %s: none of %s has such clients", commas(f.clients), count(len(trials), "experiment"))
}

// trial is a valid definition with what the flags say in its place.
func (f *runFlags) trial(d definition) trial {
	changed := *d.of
	if f.scale != 0 {
		changed.TimeScale = f.scale
	}
	if f.repeat != 0 {
		changed.Repeats = int(f.repeat)
	}
	if f.seed != 0 {
		changed.Seed = f.seed
	}
	t := trial{definition: d, of: &changed, repeat: max(1, changed.Repeats)}
	t.options = engine.Options{Arms: f.arms, Seed: f.seed, Program: version(), Again: f.again(d.arg)}
	for _, kind := range f.clients {
		if changed.Clients.Of(kind) != nil {
			t.options.Clients = append(t.options.Clients, kind)
		}
	}
	if len(f.clients) > 0 && len(t.options.Clients) == 0 {
		t.skipped = "it has no client " + commas(f.clients) + ", only " + commas(changed.Clients.Kinds())
	}
	return t
}

// changes are the flags that change a definition, each behind a space.
func (f *runFlags) changes() (text string) {
	if f.repeat != 0 {
		text += fmt.Sprintf(" --repeat %d", f.repeat)
	}
	if f.scale != 0 {
		text += fmt.Sprintf(" --scale %v", f.scale)
	}
	return text
}

// again is the command that runs the same experiments again.
func (f *runFlags) again(args ...string) string {
	text := "revenant run"
	for _, arg := range args {
		text += " " + quoted(arg)
	}
	if len(f.arms) > 0 {
		text += " --arm " + commas(f.arms)
	}
	if len(f.clients) > 0 {
		text += " --client " + commas(f.clients)
	}
	if f.seed != 0 {
		text += fmt.Sprintf(" --seed %d", f.seed)
	}
	return text + f.changes()
}

// runner runs what has been prepared.
type runner struct {
	flags          *runFlags
	args           []string // as they were given
	trials         []trial
	stdout, stderr io.Writer
	line           bool // there is a terminal for a progress line
	color          bool
}

func (r *runner) run(ctx context.Context) error {
	p := &printer{out: r.stdout, color: r.color}
	if r.flags.json {
		p.out = io.Discard
	}
	for _, t := range r.trials {
		p.names = max(p.names, len(t.of.Name))
	}
	var all outcomes
	for i := range r.trials {
		t := &r.trials[i]
		o := &outcome{name: t.of.Name, arg: t.arg, skipped: t.skipped}
		all = append(all, o)
		if t.skipped != "" {
			if !r.flags.quiet {
				p.line("skipped", o.name, t.skipped)
			}
			continue
		}
		o.repeat = t.repeat
		for n := 1; n <= t.repeat && ctx.Err() == nil && p.err == nil; n++ {
			j, err := r.once(ctx, t, n)
			if err != nil {
				return &failure{exitFailed, err}
			}
			one := ran{Journal: j}
			o.runs = append(o.runs, one)
			if !r.flags.quiet || j.Verdict != journal.Upheld {
				p.ran(o, one)
			}
		}
		if missing := o.repeat - len(o.runs); missing > 0 {
			what := "it was run"
			if t.repeat > 1 {
				what = fmt.Sprintf("%d of %d runs", missing, t.repeat)
			}
			p.line(string(journal.AbortedVerdict), o.name, "interrupted before "+what)
		}
	}
	out := r.flags.output
	unwritten := out.write(all)
	if unwritten != nil {
		out = output{} // What was seen is told all the same.
	}
	switch {
	case r.flags.json:
		p.err = writeJSON(r.stdout, all.document(out.index(), out.junit))
	case !r.flags.quiet || all.verdict() != journal.Upheld:
		p.summary(all, out.where(), r.again(all))
	}
	if err := errors.Join(unwritten, p.err); err != nil {
		return &failure{exitFailed, err}
	}
	err := all.err()
	if f := (*failure)(nil); ctx.Err() != nil && errors.As(err, &f) {
		f.err = fmt.Errorf("interrupted, and everything is undone; %w", f.err)
	}
	return err
}

// once runs an experiment for the n-th time.
func (r *runner) once(ctx context.Context, t *trial, n int) (*journal.Journal, error) {
	o := t.options
	name := t.of.Name
	if t.repeat > 1 {
		o.Repeat = n
		name = fmt.Sprintf("%s %d/%d", name, n, t.repeat)
	}
	if r.line {
		line := showProgress(r.stderr, name, t.of)
		defer line.end()
		o.Progress = line.update
	}
	return runExperiment(ctx, t.of, o)
}

// again is the command that runs again what is not upheld, or else all.
func (r *runner) again(all outcomes) string {
	var args []string
	for _, o := range all.judged() {
		if o.verdict() != journal.Upheld {
			args = append(args, o.arg)
		}
	}
	switch {
	case len(args) > 0:
	case r.flags.all:
		args = []string{"--all"}
	default:
		args = r.args
	}
	return r.flags.again(args...)
}
