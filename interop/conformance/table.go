package main

import (
	"fmt"
	"io"
	"strings"
)

// The table is 80 columns wide, and so is what is said below a row.
const (
	width      = 80
	clientHead = "%-41s %15s %15s\n"
	clientRow  = "%-41s %8d %6d %8d %6d %6d\n"
	serverRow  = "%-41s %8d %6d\n"
)

// comparison is one client scenario, over the bare transport and through the
// middleware.
type comparison struct {
	scenario      string
	bare, guarded outcome
}

// result is one server scenario.
type result struct {
	scenario string
	outcome  outcome
}

func writeClientHead(w io.Writer) {
	fmt.Fprintf(w, clientHead, "", "bare", "middleware")
	fmt.Fprintf(w, "%-41s %8s %6s %8s %6s %6s\n", "client scenario", "passed", "failed", "passed", "failed", "probes")
}

func writeComparison(w io.Writer, c comparison) {
	bare, guarded := c.bare.total(), c.guarded.total()
	fmt.Fprintf(w, clientRow, c.scenario, bare.passed, bare.failed, guarded.passed, guarded.failed, c.guarded.stats.Probes)
	writeFaults(w, "bare", c.bare.faults)
	writeFaults(w, "middleware", c.guarded.faults)
}

func writeClientFoot(w io.Writer, rows []comparison) {
	var bare, guarded tally
	var probes uint64
	for _, c := range rows {
		bare, guarded = bare.plus(c.bare.total()), guarded.plus(c.guarded.total())
		probes += c.guarded.stats.Probes
	}
	fmt.Fprintf(w, clientRow, fmt.Sprintf("all %d", len(rows)), bare.passed, bare.failed, guarded.passed, guarded.failed, probes)
}

func writeNotRun(w io.Writer, scenario, reason string) {
	fmt.Fprintf(w, "not run: %s\n", scenario)
	for _, line := range wrap(reason, width-4) {
		fmt.Fprintf(w, "    %s\n", line)
	}
}

func writeServerHead(w io.Writer) {
	fmt.Fprintf(w, "%-41s %8s %6s\n", "server scenario", "passed", "failed")
}

func writeResult(w io.Writer, r result) {
	t := r.outcome.total()
	fmt.Fprintf(w, serverRow, r.scenario, t.passed, t.failed)
	writeFaults(w, "", r.outcome.faults)
}

func writeServerFoot(w io.Writer, rows []result) {
	var sum tally
	for _, r := range rows {
		sum = sum.plus(r.outcome.total())
	}
	fmt.Fprintf(w, serverRow, fmt.Sprintf("all %d", len(rows)), sum.passed, sum.failed)
}

// writeFaults says below a row what is wrong in it.
func writeFaults(w io.Writer, arm string, faults []string) {
	if arm != "" {
		arm += ": "
	}
	for _, fault := range faults {
		for _, line := range wrap(arm+fault, width-4) {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

// wrap breaks text between words into lines of at most limit bytes. A longer
// word has a line of its own.
func wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > limit {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
