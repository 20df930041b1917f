package journal_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

func junit(t testing.TB, runs ...*journal.Journal) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := journal.WriteJUnit(&out, runs...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// outcome is what a test case has come to: its only child.
func outcome(t *testing.T, testcase *node) string {
	t.Helper()
	switch len(testcase.children) {
	case 0:
		return "passed"
	case 1:
		c := testcase.children[0]
		return c.name + " " + c.attr["type"]
	}
	t.Errorf("%s has %d outcomes", testcase.attr["name"], len(testcase.children))
	return ""
}

func TestJUnitOutcomes(t *testing.T) {
	check := func(arm string, met bool, problem string) journal.Check {
		return journal.Check{Arm: arm, Client: "naive", Measure: "n", Value: "1", Tolerance: "0", Met: met, Problem: problem}
	}
	for name, c := range map[string]struct {
		verdict       journal.Verdict
		before, after []journal.Check
		want          string
	}{
		"upheld":        {journal.Upheld, nil, []journal.Check{check("control", true, ""), check("protected", true, "")}, "[passed passed passed]"},
		"deviated":      {journal.Deviated, nil, []journal.Check{check("control", true, ""), check("protected", false, "")}, "[failure deviated passed failure tolerance]"},
		"no teeth":      {journal.Inconclusive, nil, []journal.Check{check("control", false, ""), check("protected", true, "")}, "[error inconclusive error nothing_to_judge passed]"},
		"a problem":     {journal.Inconclusive, nil, []journal.Check{check("protected", true, "lost the log")}, "[error inconclusive error problem]"},
		"never steady":  {journal.AbortedVerdict, []journal.Check{check("protected", false, "")}, nil, "[error aborted error nothing_to_judge]"},
		"nothing to do": {journal.AbortedVerdict, nil, nil, "[error aborted]"},
	} {
		j := liveness()
		j.Verdict, j.Before, j.After = c.verdict, c.before, c.after
		suite := parse(t, junit(t, j)).one(t, "testsuite", "")
		var got []string
		count := map[string]int{}
		for _, tc := range suite.all("testcase", "") {
			o := outcome(t, tc)
			got = append(got, o)
			count[strings.Fields(o)[0]]++
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
		for attr, n := range map[string]int{"tests": len(got), "failures": count["failure"], "errors": count["error"], "skipped": 0} {
			if suite.attr[attr] != strconv.Itoa(n) {
				t.Errorf("%s: %s=%q, want %d", name, attr, suite.attr[attr], n)
			}
		}
	}
}

func TestJUnitSuites(t *testing.T) {
	suites := parse(t, junit(t, liveness(), elicitation())).all("testsuite", "")
	if len(suites) != 2 || suites[0].attr["id"] != "0" || suites[1].attr["id"] != "1" || suites[1].attr["name"] != "elicitation-pending" {
		t.Fatalf("the suites are %v", suites)
	}
	s := suites[0]
	if s.attr["timestamp"] != "2026-11-12T09:30:00" || s.attr["time"] != "27.412" || s.attr["hostname"] != "localhost" {
		t.Errorf("the suite is %v", s.attr)
	}
	properties := map[string]string{}
	for _, p := range s.all("property", "") {
		properties[p.attr["name"]] = p.attr["value"]
	}
	if properties["seed"] != "4471" || properties["time_scale"] != "100" || properties["verdict"] != "upheld" || properties["again"] != liveness().Again {
		t.Errorf("the properties are %v", properties)
	}
	if out := s.one(t, "system-out", "").text; !strings.Contains(out, "\nupheld: "+liveness().Reason+"\n") || !strings.Contains(out, "\nT+05:00 the load balancer cuts the idle stream: succeeded, fin after") {
		t.Errorf("system-out is %q", out)
	}
	seen := map[string]bool{}
	for _, c := range suites[1].all("testcase", "") {
		name := c.attr["classname"] + " " + c.attr["name"]
		if seen[name] {
			t.Errorf("two test cases are called %s", name)
		}
		seen[name] = true
		if c.attr["name"] == "protected/mcpgo/prompts_for_one_request" {
			if got := c.one(t, "failure", "").attr["message"]; got != "prompts_for_one_request is 2, want 1" {
				t.Errorf("the failure says %q", got)
			}
		}
	}
	if !seen["revenant.elicitation-pending protected/mcpgo/calls_left_hanging"] {
		t.Errorf("the test cases are %v", seen)
	}
	if none := parse(t, junit(t)); none.one(t, "testsuites", "") == nil {
		t.Error("no runs make no document")
	}
}
