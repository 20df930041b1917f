package main

import (
	"fmt"
	"maps"
	"slices"
)

// judgeClients says where the middleware costs a client a check. What fails over
// the bare transport too is the client's or the suite's, and no problem here:
// the table shows it.
func judgeClients(rows []comparison) []string {
	var problems []string
	var probes uint64
	for _, c := range rows {
		probes += c.guarded.stats.Probes
		ids := maps.Clone(c.bare.checks)
		if ids == nil {
			ids = map[string]tally{}
		}
		maps.Copy(ids, c.guarded.checks)
		for _, id := range slices.Sorted(maps.Keys(ids)) {
			bare, guarded := c.bare.checks[id], c.guarded.checks[id]
			if guarded.passed < bare.passed || guarded.failed > bare.failed || guarded.warned > bare.warned {
				problems = append(problems, fmt.Sprintf("%s: %s: %v bare, but %v through the middleware", c.scenario, id, bare, guarded))
			}
		}
	}
	// Without a reconnect the middleware only looks on, and both columns would be
	// equal whatever it did.
	if probes == 0 {
		problems = append(problems, "the middleware has not probed in any scenario, so the comparison shows nothing: is the client sent through it, and is there a scenario that reconnects?")
	}
	return problems
}

// judgeServer says which server scenarios failed. As in the suite itself, a
// warning is no failure of a server; but where nothing passed beside it, nothing
// was shown.
func judgeServer(rows []result) []string {
	var problems []string
	for _, r := range rows {
		if t := r.outcome.total(); t.failed > 0 || t.passed == 0 {
			problems = append(problems, fmt.Sprintf("server scenario %s: %v", r.scenario, t))
		}
	}
	return problems
}

// String leaves out warnings where there are none.
func (t tally) String() string {
	s := fmt.Sprintf("%d passed, %d failed", t.passed, t.failed)
	if t.warned > 0 {
		s += fmt.Sprintf(", %d warned", t.warned)
	}
	return s
}
