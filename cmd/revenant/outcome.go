package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// verdicts are all there are, with the exit status for each, the worst first: an
// experiment has the worst of its runs, and a command ends with the worst of its
// experiments. That an experiment has deviated outweighs whatever else happened.
var verdicts = []struct {
	verdict journal.Verdict
	status  int
}{
	{journal.Deviated, exitFailed},
	{journal.AbortedVerdict, exitAborted},
	{journal.Inconclusive, exitInconclusive},
	{journal.Upheld, exitOK},
}

// verdictStatuses is for the help of the commands that end with one.
const verdictStatuses = `Exit status, from what became of all:
  0    all are upheld
  1    one has deviated; or what was to be written could not be
  2    the command line, a definition or a journal cannot be used; nothing was
       done
  3    one is inconclusive, none was aborted and none has deviated
  4    one was aborted or interrupted, and none has deviated`

// outcome is what became of one experiment.
type outcome struct {
	name string
	// arg is what names it on the command line, "" if that is not known.
	arg string
	// skipped is why it was not to be run, "" if it was.
	skipped string
	// runs are those that were begun, fewer than there should be if there was an
	// interrupt.
	runs   []ran
	repeat int // how many there should be
}

// ran is one run.
type ran struct {
	*journal.Journal
	// file is where it was read from, page where it can be looked at, "" for
	// neither.
	file, page string
}

// verdict is the worst of the runs. What was not run was aborted.
func (o *outcome) verdict() journal.Verdict {
	had := make([]journal.Verdict, len(o.runs))
	for i, r := range o.runs {
		had[i] = r.Verdict
	}
	if len(o.runs) < o.repeat {
		had = append(had, journal.AbortedVerdict)
	}
	return worst(had)
}

// worst is the worst of some verdicts. That of none is upheld.
func worst(had []journal.Verdict) journal.Verdict {
	for _, v := range verdicts {
		if slices.Contains(had, v.verdict) {
			return v.verdict
		}
	}
	return journal.Upheld
}

// outcomes are those of a command, in their order.
type outcomes []*outcome

// judged are those that were to be run.
func (all outcomes) judged() outcomes {
	return slices.DeleteFunc(slices.Clone(all), func(o *outcome) bool { return o.skipped != "" })
}

// having are those with a verdict.
func (all outcomes) having(v journal.Verdict) outcomes {
	return slices.DeleteFunc(all.judged(), func(o *outcome) bool { return o.verdict() != v })
}

func (all outcomes) verdict() journal.Verdict {
	var had []journal.Verdict
	for _, o := range all.judged() {
		had = append(had, o.verdict())
	}
	return worst(had)
}

// journals are those of all runs.
func (all outcomes) journals() []*journal.Journal {
	var js []*journal.Journal
	for _, o := range all {
		for _, r := range o.runs {
			js = append(js, r.Journal)
		}
	}
	return js
}

// took is how long all runs took.
func (all outcomes) took() (sum time.Duration) {
	for _, j := range all.journals() {
		sum += j.End.Sub(j.Start)
	}
	return sum
}

// names are theirs, with commas.
func (all outcomes) names() string {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.name
	}
	return strings.Join(names, ", ")
}

// err is nil if all are upheld, or the failure with the exit status of the worst,
// which names all that are not.
func (all outcomes) err() error {
	status := exitOK
	var texts []string
	for _, v := range verdicts {
		if of := all.having(v.verdict); len(of) > 0 && v.status != exitOK {
			texts = append(texts, string(v.verdict)+": "+of.names())
			if status == exitOK {
				status = v.status
			}
		}
	}
	if status == exitOK {
		return nil
	}
	return &failure{status, errors.New(strings.Join(texts, "; "))}
}
