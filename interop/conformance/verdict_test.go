package main

import (
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/middleware"
)

// probed is a scenario without fault in which the middleware has probed.
func probed() comparison {
	return comparison{
		scenario: "probed",
		bare:     outcome{checks: map[string]tally{"a": {passed: 1}}},
		guarded:  outcome{checks: map[string]tally{"a": {passed: 1}}, stats: middleware.Stats{Probes: 1}},
	}
}

func TestJudgeClients(t *testing.T) {
	type checks = map[string]tally
	for _, c := range []struct {
		name          string
		bare, guarded checks
		problem       string
	}{
		{"equal", checks{"x": {passed: 2}}, checks{"x": {passed: 2}}, ""},
		{"better", checks{"x": {failed: 1}}, checks{"x": {passed: 1}}, ""},
		{"fails in both", checks{"x": {failed: 1}}, checks{"x": {failed: 1}}, ""},
		{"lost a check", checks{"x": {passed: 2}}, checks{"x": {passed: 1}}, "x: 2 passed, 0 failed bare, but 1 passed, 0 failed"},
		{"failed", checks{"x": {passed: 1}}, checks{"x": {failed: 1}}, "x: 1 passed"},
		{"warned", checks{"x": {passed: 1}}, checks{"x": {passed: 1, warned: 1}}, "1 warned through"},
		{"a fault of its own", checks{"x": {passed: 1}}, checks{"x": {passed: 1}, checkNoFalseDeath: {failed: 1}}, checkNoFalseDeath},
		{"an equal sum does not hide it", checks{"x": {passed: 2}, "y": {passed: 1}}, checks{"x": {passed: 1}, "y": {passed: 2}}, "x: 2 passed"},
		{"nothing at all", checks{"x": {passed: 1}}, nil, "x: 1 passed"},
		{"nothing to compare with", nil, checks{checkRan: {failed: 1}}, checkRan},
	} {
		row := comparison{scenario: "s", bare: outcome{checks: c.bare}, guarded: outcome{checks: c.guarded}}
		got := judgeClients([]comparison{probed(), row})
		if c.problem == "" && len(got) > 0 {
			t.Errorf("%s: %q, want no problem", c.name, got)
		}
		if c.problem != "" && (len(got) != 1 || !strings.Contains(got[0], c.problem)) {
			t.Errorf("%s: %q, want one problem with %q", c.name, got, c.problem)
		}
	}
}

func TestJudgeClientsWantsAProbe(t *testing.T) {
	row := probed()
	row.guarded.stats.Probes = 0
	if got := judgeClients([]comparison{row}); len(got) != 1 || !strings.Contains(got[0], "probed") {
		t.Errorf("judgeClients without a probe = %q, want one problem", got)
	}
}

func TestJudgeServer(t *testing.T) {
	rows := []result{
		{"good", outcome{checks: map[string]tally{"x": {passed: 1}}}},
		{"warned", outcome{checks: map[string]tally{"x": {passed: 1, warned: 1}}}},
		{"bad", outcome{checks: map[string]tally{"x": {passed: 1, failed: 1}}}},
		{"only warned", outcome{checks: map[string]tally{"x": {warned: 2}}}},
	}
	got := strings.Join(judgeServer(rows), "; ")
	if want := "server scenario bad: 1 passed, 1 failed; server scenario only warned: 0 passed, 0 failed, 2 warned"; got != want {
		t.Errorf("judgeServer = %q, want %q", got, want)
	}
}
