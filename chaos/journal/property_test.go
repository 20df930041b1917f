package journal_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// century is as far from T+0 as a journal may go.
const century = 100 * 365 * 24 * time.Hour

// journals draws any journal that is valid.
func journals() *rapid.Generator[*journal.Journal] {
	return rapid.Custom(func(t *rapid.T) *journal.Journal {
		text := rapid.String()
		// Lengths of all magnitudes, not only of centuries.
		moment := rapid.Custom(func(t *rapid.T) time.Duration {
			top := rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, time.Hour, 40 * 24 * time.Hour, century}).Draw(t, "top")
			return time.Duration(rapid.Int64Range(-int64(top), int64(top)).Draw(t, "moment"))
		})
		word := func(known ...string) *rapid.Generator[string] {
			return rapid.OneOf(rapid.SampledFrom(known), text)
		}
		outcome := rapid.SampledFrom([]journal.Outcome{journal.StepSucceeded, journal.StepFailed, journal.StepSkipped})
		start := time.Unix(rapid.Int64Range(0, 200_000_000_000).Draw(t, "start"), 0).UTC()
		j := &journal.Journal{
			Name: "n" + text.Draw(t, "name"), Title: text.Draw(t, "title"), Description: text.Draw(t, "description"),
			Start: start, End: start.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took"))),
			Scale:  rapid.Float64Range(1e-3, 1e9).Draw(t, "scale"),
			Length: max(0, moment.Draw(t, "length")), Seed: rapid.Uint64().Draw(t, "seed"), Repeat: rapid.IntRange(0, 9).Draw(t, "repeat"),
			Status: journal.Completed, Verdict: rapid.SampledFrom([]journal.Verdict{journal.Upheld, journal.Deviated, journal.Inconclusive, journal.AbortedVerdict}).Draw(t, "verdict"),
			Reason: text.Draw(t, "reason"), Again: text.Draw(t, "again"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "checks") {
			j.After = append(j.After, journal.Check{
				Arm: word(journal.Control, journal.Protected).Draw(t, "arm"), Client: text.Draw(t, "client"), Measure: text.Draw(t, "measure"),
				Value: text.Draw(t, "value"), Tolerance: text.Draw(t, "tolerance"), Met: rapid.Bool().Draw(t, "met"), Problem: text.Draw(t, "problem"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "steps") {
			j.Run = append(j.Run, journal.Activity{Name: text.Draw(t, "step"), At: moment.Draw(t, "at"), Done: moment.Draw(t, "done"), Status: outcome.Draw(t, "outcome"), Output: text.Draw(t, "output")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "arms") {
			a := journal.Arm{Name: word(journal.Control, journal.Protected).Draw(t, "arm"), Client: word("a", "b").Draw(t, "client")}
			for range rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(t, "lanes") {
				l := journal.Lane{Name: text.Draw(t, "lane"), Kind: word(journal.StreamLane, journal.SessionLane).Draw(t, "kind")}
				for range rapid.IntRange(0, 4).Draw(t, "spans") {
					from, to := moment.Draw(t, "from"), moment.Draw(t, "to")
					l.Spans = append(l.Spans, journal.Span{From: min(from, to), To: max(from, to), State: word(journal.StateOpen, journal.StateDead).Draw(t, "state"), Label: text.Draw(t, "label")})
				}
				for range rapid.IntRange(0, 4).Draw(t, "marks") {
					l.Marks = append(l.Marks, journal.Mark{
						At: moment.Draw(t, "at"), Kind: word(journal.MarkProbe, journal.MarkDied, "probe-live").Draw(t, "kind"),
						Verdict: rapid.SampledFrom([]string{"", journal.ProbeLive, journal.ProbeDead}).Draw(t, "verdict"),
						Harm:    rapid.Bool().Draw(t, "harm"), Label: text.Draw(t, "label"), Count: rapid.IntRange(0, 20_000).Draw(t, "count"),
					})
				}
				a.Lanes = append(a.Lanes, l)
			}
			j.Arms = append(j.Arms, a)
		}
		return j
	})
}

// Whatever is in a valid journal: its JSON says the same when it is read and
// written again, its page and its XML are well-formed, and nothing in a picture
// stands outside of it.
func TestAnyValidJournal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := journals().Draw(rt, "journal")
		first, err := json.Marshal(j)
		if err != nil {
			rt.Fatal(err)
		}
		read := new(journal.Journal)
		if err := json.Unmarshal(first, read); err != nil {
			rt.Fatalf("what was written cannot be read: %v", err)
		}
		if second, err := json.Marshal(read); err != nil || string(second) != string(first) {
			rt.Fatalf("written twice it differs, %v:\n%s\n%s", err, first, second)
		}
		parse(t, junit(t, j))
		for _, svg := range parse(t, page(t, j)).all("svg", "") {
			height, _ := strconv.ParseFloat(svg.attr["height"], 64)
			for _, n := range svg.all("", "") {
				for _, key := range []string{"x", "x1", "x2"} {
					if share, ok := strings.CutSuffix(n.attr[key], "%"); ok {
						if x, err := strconv.ParseFloat(share, 64); err != nil || x < 0 || x > 100 {
							rt.Fatalf("%s stands at %s=%s", n.name, key, n.attr[key])
						}
					}
				}
				for _, key := range []string{"y", "y1", "y2"} {
					if y, err := strconv.ParseFloat(n.attr[key], 64); n.attr[key] != "" && (err != nil || y < 0 || y > height) {
						rt.Fatalf("%s stands at %s=%s of %v", n.name, key, n.attr[key], height)
					}
				}
			}
		}
	})
}
