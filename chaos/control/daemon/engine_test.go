package daemon_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// A run by the engine, with the settings of resources, has a verdict, its steps as
// events, and a page.
func TestRunByTheEngine(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t), Version: "the test's"})
	put(t, d, control.Servers, "s", 0, `{"settings": {"retry": "200ms"}}`)
	put(t, d, control.LoadBalancers, "b", 0, `{"server": "s", "settings": {"on_expiry": "fin"}}`)
	put(t, d, control.Experiments, "e", 0, experimentSpec(`
name: e
title: A session that is lost while its client is away
description: Its events are replayed all the same.
length: 1500ms
topology:
  links: [front, back]
clients:
  naive: {}
method:
  - {name: the stream is cut, at: 100ms, cut: {}}
  - {name: events that nobody reads, at: 100ms, when: away, emit: {events: 3}}
  - {name: the session is lost, at: 100ms, when: away, reap: {}}
hypothesis:
  control:
    dead_session_events_applied: ">= 3"
  protected:
    dead_session_events_applied: 0
`, "server", "s", "load_balancer", "b"))
	r := begin(t, d, "e", "", control.RunRequest{})
	var steps []string
	for _, e := range follow(t, d, r.ID, 0) {
		if e.Step != "" {
			steps = append(steps, e.Step)
		}
	}
	if len(steps) < 3 || steps[0] != "the stream is cut" {
		t.Errorf("its steps are %q, want those of the method", steps)
	}
	if r = over(t, d, r.ID); r.State != control.Done || r.Verdict != journal.Upheld || r.Journals != 1 {
		t.Errorf("the run is %+v, want it upheld", r)
	}
	var page bytes.Buffer
	if err := d.Report(testContext(t), r.ID, 1, &page); err != nil || !strings.Contains(page.String(), "the test&#39;s") {
		t.Errorf("Report() = %v, and names the program: %v", err, strings.Contains(page.String(), "the test"))
	}
}
