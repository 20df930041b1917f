package experiment_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

func TestParseServers(t *testing.T) {
	s, err := experiment.ParseServers([]byte(`{"replicas": 3, "session_ttl": "90s", "log_retention": "1h", "rules": [{"on": "post", "status": 503}]}`))
	if err != nil {
		t.Fatal(err)
	}
	d := &experiment.Definition{Topology: experiment.Topology{Servers: *s}}
	if c := d.Servers(); c.Replicas != 3 || c.Server.SessionTTL != 90*time.Second || len(c.Server.Rules) != 1 {
		t.Errorf("Servers() = %+v, want 3 replicas, a TTL of 90s in real time and a rule", c)
	}
}

func TestParseLoadBalancer(t *testing.T) {
	b, err := experiment.ParseLoadBalancer([]byte(`{"profile": "aws-alb", "idle_timeout": "1m", "balance": "cookie"}`))
	if err != nil {
		t.Fatal(err)
	}
	d := &experiment.Definition{Topology: experiment.Topology{LoadBalancer: b}}
	if c, ok := d.Balancer(); !ok || c.IdleTimeout != time.Minute || c.Balance != lb.CookieAffinity {
		t.Errorf("Balancer() = %+v, %v, want an idle timeout of a minute in real time", c, ok)
	}
}

// parts are texts that are no part, and the problems of each: path, message,
// suggestion.
var parts = []struct {
	servers bool
	text    string
	want    []string
}{
	{true, `{"sesion_ttl": "90s"}`, []string{"sesion_ttl is no key of topology.servers; did you mean session_ttl?"}},
	{true, `{"session_ttl": 90}`, []string{"session_ttl is 90, want a duration with its unit, such as 30s or 1m30s"}},
	{true, `{"session_ttl": "1ms"}`, []string{"session_ttl is 1ms: too short for an ordinary machine, want 20ms or more in real time"}},
	{true, `{"replicas": 65, "refresh": "evry"}`, []string{"replicas is 65, want from 1 to 64", `refresh is "evry", want`}},
	{true, `{"shared_sessions": true}`, []string{"shared_sessions is true, want more than one of replicas, or false"}},
	{true, `{"stale_answer": 404}`, []string{"stale_answer is 404, want"}},
	{true, `{"rules": [{"on": "post"}]}`, []string{"rules[0] has no effect"}},
	{true, `[]`, []string{"is a list, want a mapping"}},
	{true, `null`, []string{"is empty, want a mapping"}},
	{true, `{"a": `, []string{"is no YAML here"}},
	{false, `{"idle_timeout": "0s"}`, []string{"idle_timeout is"}},
	{false, `{"engine": "nginx", "mode": "tcp"}`, []string{"mode is"}},
	{false, `{"idle_timeout": "60"}`, []string{"idle_timeout is \"60\""}},
	{false, `{"session_ttl": "60s"}`, []string{"session_ttl is no key of topology.load_balancer, want one of engine"}},
}

func TestProblemsOfParts(t *testing.T) {
	for _, p := range parts {
		var err error
		if p.servers {
			_, err = experiment.ParseServers([]byte(p.text))
		} else {
			_, err = experiment.ParseLoadBalancer([]byte(p.text))
		}
		var problems experiment.Problems
		if !errors.As(err, &problems) || len(problems) != len(p.want) {
			t.Errorf("%s: %v, want %d problems", p.text, err, len(p.want))
			continue
		}
		for i, one := range problems {
			if one.Line != 0 || !slices.ContainsFunc(p.want, func(w string) bool { return strings.HasPrefix(one.Error(), w) }) {
				t.Errorf("%s: problem %d is %q in line %d, want %q in none", p.text, i, one, one.Line, p.want)
			}
		}
	}
}

// What is put in place is what the rest is held against.
func TestParseWith(t *testing.T) {
	data, err := os.ReadFile("../../experiments/session.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "  load_balancer:\n    idle_timeout: 4m\n    on_expiry: fin\n", "    replicas: 2\n", 1)
	if _, err := experiment.Parse("x", []byte(text)); err == nil {
		t.Fatal("the definition is whole without its load balancer, and shows nothing here")
	}
	d, err := experiment.ParseWith("x", []byte(text), func(d *experiment.Definition) {
		d.Topology.LoadBalancer = &experiment.LoadBalancer{IdleTimeout: experiment.Limit(4 * time.Minute)}
	})
	if err != nil || d.Topology.LoadBalancer == nil {
		t.Errorf("ParseWith() = %v, %v, want a definition with the load balancer", d, err)
	}
	_, err = experiment.ParseWith("x", data, func(d *experiment.Definition) { d.Topology.Servers.Replicas, d.Topology.LoadBalancer = 2, nil })
	if err == nil || !strings.Contains(err.Error(), "topology.servers.replicas is 2") {
		t.Errorf("ParseWith() of two replicas and no load balancer = %v, want a problem of topology.servers.replicas", err)
	}
}
