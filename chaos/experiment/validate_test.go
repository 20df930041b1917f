package experiment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// A definition that was written in Go is checked as one that was read is.
func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*experiment.Definition)
		want   string
	}{
		"nothing":     {func(d *experiment.Definition) { *d = experiment.Definition{} }, "name is missing"},
		"no length":   {func(d *experiment.Definition) { d.Length = 0 }, "length is missing"},
		"negative":    {func(d *experiment.Definition) { d.Topology.Servers.SessionTTL = -1 }, "topology.servers.session_ttl is -1ns, want from 0s to 8784h"},
		"scale":       {func(d *experiment.Definition) { d.TimeScale = 0.5 }, "time_scale is 0.5, want from 1 to 1000"},
		"enumeration": {func(d *experiment.Definition) { d.Topology.Servers.Replay = 99 }, "topology.servers.replay is none of its values"},
		"word":        {func(d *experiment.Definition) { d.Topology.Network = "wifi" }, `topology.network is "wifi", want none or namespaces`},
		"engine":      {func(d *experiment.Definition) { d.Topology.LoadBalancer.Engine = "varnish" }, `topology.load_balancer.engine is "varnish", want embedded, haproxy or nginx`},
		"expiry":      {func(d *experiment.Definition) { d.Topology.LoadBalancer.OnExpiry = lb.Expiry(99) }, "topology.load_balancer.on_expiry is none of its values"},
		"no clients":  {func(d *experiment.Definition) { d.Clients = experiment.Clients{} }, "clients is missing"},
		"no balancer": {func(d *experiment.Definition) { d.Topology.LoadBalancer, d.Topology.Servers.Replicas = nil, 2 }, "topology.servers.replicas is 2, want a load_balancer in front of them, or 1"},
		"back": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer, d.Topology.Links = nil, []experiment.LinkName{"back"}
		}, "topology.links[0] is back, which is behind a load_balancer, and there is none; want front, or a load_balancer"},
		"cut of nothing": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer, d.Method[0].Action = nil, experiment.Action{Cut: &experiment.Cut{}}
		}, "method[0].cut is done by the load balancer, and there is none"},
		"restart nothing": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer, d.Method[0].Action = nil, experiment.Action{RestartLoadBalancer: &experiment.RestartLoadBalancer{}}
		}, "method[0].restart_load_balancer restarts the load balancer, and there is none"},
		"nginx cannot cut": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer.Engine, d.Method[0].Action = lb.NGINX, experiment.Action{Cut: &experiment.Cut{}}
		}, `method[0].cut.how is "fin": engine nginx cuts nothing on request, want engine embedded or haproxy`},
		"program in namespaces": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer.Engine, d.Topology.Network = lb.HAProxy, experiment.Namespaces
		}, "topology.load_balancer.engine is haproxy, a program that would look for the servers outside of topology.network: namespaces; want embedded"},
		"no stream": {func(d *experiment.Definition) { d.Clients.Naive.StandaloneStream = new(bool) }, "method[0].emit acts on the standalone stream, which no client has"},
		"too often": {func(d *experiment.Definition) { d.Length, d.Method[0].Until = 360000e9, 350000e9 }, "method[0].every is 1s, which is 350000 times until"},
		"a day":     {func(d *experiment.Definition) { d.Length = 90000e9 }, "length is 25h, so that all runs take 25h0m0s, want at most 24h0m0s; a greater time_scale would do"},
		"profile": {func(d *experiment.Definition) {
			d.Topology.LoadBalancer.IdleTimeout, d.Topology.LoadBalancer.Profile = 0, lb.Envoy
			d.TimeScale = 1000
			d.Topology.Servers.Retry, d.Hypothesis.LateAfter, d.Method[0].Every = experiment.Duration(time.Minute), experiment.Duration(time.Minute), experiment.Duration(5*time.Second)
		}, "topology.load_balancer.profile is 15s, which at time_scale 1000 takes 15ms"},
		"reaps a POST": {func(d *experiment.Definition) {
			d.Topology.Servers.Rules = []experiment.Rule{{On: mcpserver.OnPOST, ReapAfterReplay: true}}
		}, `topology.servers.rules[0].reap_after_replay is true, want false, or on: "get", "get_first" or "get_resume"`},
		"no control": {func(d *experiment.Definition) { d.Teeth.None, d.Hypothesis.Control = "", experiment.Expectations{} }, "hypothesis.control is missing: without a control arm that fails"},
		"no teeth":   {func(d *experiment.Definition) { d.Teeth.None = "" }, "hypothesis.control has no teeth for naive: both arms could measure the same"},
		"teeth of others": {func(d *experiment.Definition) {
			d.Teeth.None = ""
			d.Hypothesis.Protected.Measures[experiment.EventsApplied] = experiment.Compare(">", number(1))
		}, "hypothesis.control has no teeth for naive: both arms could measure the same"},
		"cannot die":        {expect(experiment.DeadSessionEventsApplied, experiment.Exactly(number(0))), "hypothesis.protected.dead_session_events_applied cannot be measured: no session can die here"},
		"nobody is asked":   {expect(experiment.Prompts, experiment.Exactly(number(0))), "hypothesis.protected.prompts cannot be measured: no step here has a server ask the person"},
		"nothing is called": {expect(experiment.CallsFailed, experiment.Exactly(number(0))), "hypothesis.protected.calls_failed cannot be measured: no step here calls a tool"},
		"no events": {func(d *experiment.Definition) {
			d.Clients.Naive.StandaloneStream = new(bool)
			d.Method[0].Action = experiment.Action{Reap: &experiment.Reap{}}
		}, "hypothesis.protected.events_lost cannot be measured: no client here is sent events"},
		"no such measure":  {expect("frogs", experiment.Exactly(number(0))), "hypothesis.protected.frogs is no measure here"},
		"another kind":     {expect(experiment.EventsLost, experiment.Exactly(text("none"))), "hypothesis.protected.events_lost is compared with none, a value of another kind"},
		"nothing accepted": {expect(experiment.EventsLost, experiment.Tolerance{}), "hypothesis.protected.events_lost accepts nothing, want a tolerance"},
		"nested clients": {func(d *experiment.Definition) {
			inner := map[experiment.ClientKind]experiment.Expectations{experiment.Naive: {}}
			d.Hypothesis.Protected.Clients = map[experiment.ClientKind]experiment.Expectations{experiment.Naive: {Clients: inner}}
		}, "hypothesis.protected.clients.naive.clients is inside clients already"},
	} {
		t.Run(name, func(t *testing.T) {
			d := load(t, "testdata/harmless.yaml")
			test.change(d)
			if err := d.Validate(); err == nil || !strings.Contains("\n"+err.Error(), "\n"+test.want) {
				t.Errorf("Validate() = %v, want %q", err, test.want)
			}
		})
	}
}

func expect(m experiment.Measure, tolerance experiment.Tolerance) func(*experiment.Definition) {
	return func(d *experiment.Definition) { d.Hypothesis.Protected.Measures[m] = tolerance }
}

// What is expected of one kind of client takes the place of what is expected of
// all.
func TestExpectationsOfOneClient(t *testing.T) {
	d := load(t, "testdata/full.yaml")
	of := func(kind experiment.ClientKind, subject experiment.Subject) string {
		for _, x := range d.Hypothesis.Control.For(kind) {
			if x.Subject == subject {
				return x.Tolerance.String()
			}
		}
		return ""
	}
	dead := experiment.Subject{Measure: experiment.DeadSessionEventsApplied}
	if got := of(experiment.GoSDK, dead); got != ">= 1" {
		t.Errorf("of gosdk: %q, want >= 1", got)
	}
	if got := of(experiment.Naive, dead); got != "> 5" {
		t.Errorf("of naive: %q, want > 5", got)
	}
	prompts := experiment.Subject{Measure: experiment.PromptsForOneRequest}
	if got := of(experiment.Naive, prompts); got != "[2, 100]" {
		t.Errorf("of naive: %q, want that of all, [2, 100]", got)
	}
	second := experiment.Subject{Measure: experiment.CallsFailed, Session: 2}
	if got := of(experiment.Naive, second); got != "!= 0" || of(experiment.GoSDK, second) != "" {
		t.Errorf("of naive's second session: %q, of gosdk's %q", got, of(experiment.GoSDK, second))
	}
}

// A subject has the name under which it is written.
func TestSubject(t *testing.T) {
	for want, s := range map[string]experiment.Subject{
		"events_lost":            {Measure: experiment.EventsLost},
		"sessions.2.detected_at": {Measure: experiment.DetectedAt, Session: 2},
		"calls.delete.outcome":   {Measure: experiment.CallOutcome, Call: "delete"},
	} {
		if got := s.String(); got != want {
			t.Errorf("String() of %+v = %q, want %q", s, got, want)
		}
	}
}

// A problem with a short value stands at that, one with a mapping or a list at
// its key, or at the entry of a list, and what is missing at what lacks it.
func TestPlaces(t *testing.T) {
	text := `name: full
title: "two
  lines"
length: 1m
clients: {gosdk: {}}
topology:
  servers:
    stale_answer: 404
method:
  - at: 10s

  - reap: {}
    emit: {}
    at: 2m
hypothesis:
  protected: {events_lost: 0}
`
	_, err := experiment.Parse("x.yaml", []byte(text))
	problems, _ := err.(experiment.Problems)
	got := make(map[string]string)
	for _, p := range problems {
		got[p.Path] = fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	for path, want := range map[string]string{
		"description": "1:1", "topology.servers.stale_answer": "8:19", "method[0]": "10:5", "method[1]": "12:5",
		"method[1].at": "14:9", "hypothesis.control": "15:1",
	} {
		if got[path] != want {
			t.Errorf("%s is at %s, want %s; all are\n%v", path, got[path], want, err)
		}
	}
}

// The place of a problem is shown by a caret, in lines of any length.
func TestSource(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, test := range []struct{ text, want string }{
		{"titel: x\n", "  1 | titel: x\n    | ^~~~~\n"},
		{"seed: no\n", "  1 | seed: no\n    |       ^~\n"},
		{"{titel: \"" + long + "\", seed: no}\n", "xx\", seed: no}\n"},
		{"?\tx: y\n", ""},
	} {
		_, err := experiment.Parse("x.yaml", []byte(test.text))
		problems, _ := err.(experiment.Problems)
		found := false
		for _, p := range problems {
			for line := range strings.Lines(p.Source()) {
				if len(line) > 120 {
					t.Errorf("%d bytes in a line of %q", len(line), p.Source())
				}
			}
			found = found || strings.Contains(p.Source(), test.want)
		}
		if !found {
			t.Errorf("Text() = %q, want %q in it", problems.Text(), test.want)
		}
	}
}

// Of very many problems the first are shown.
func TestProblemsAreBounded(t *testing.T) {
	_, err := experiment.Parse("x.yaml", []byte("links: ["+strings.Repeat("x, ", 20)+"x]\ntopology: {links: ["+strings.Repeat("x, ", 200)+"x]}"))
	problems, _ := err.(experiment.Problems)
	if n := len(problems); n != 51 || !strings.Contains(problems[50].Error(), "more problems like these") {
		t.Errorf("%d problems, the last %v, want 50, and how many more there are", n, problems[n-1])
	}
}
