package experiment_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// unset lists the fields of a struct that are zero.
func unset(v any) (names []string) {
	at := reflect.ValueOf(v)
	for i := range at.NumField() {
		if f := at.Type().Field(i); f.IsExported() && at.Field(i).IsZero() {
			names = append(names, f.Name)
		}
	}
	return names
}

// Every knob of the packages that do the work has a key here: testdata/full.yaml
// sets all of them, and only what belongs to a process is left.
func TestEverySettingHasAKey(t *testing.T) {
	d := load(t, "testdata/full.yaml")
	balancer, ok := d.Balancer()
	if !ok {
		t.Fatal("no load balancer")
	}
	rules := d.Servers().Server.Rules
	guard := d.Guard()
	var faults []fault.Fault
	for _, s := range d.Method {
		if s.Fault != nil {
			faults = append(faults, d.NewFault(s.Fault))
		}
	}
	for _, test := range []struct {
		name string
		got  []string
		want []string
	}{
		{"mcpserver.ClusterConfig", unset(d.Servers()), []string{"Addrs", "Listeners"}},
		{"mcpserver.Config", unset(d.Servers().Server), []string{"Addr", "Listener", "Extend", "Observe"}},
		{"mcpserver.Rule", allUnset(rules), nil},
		// H2C is for programs, header_timeout is none here, and a profile is filled in.
		{"lb.Config", unset(balancer), []string{"Profile", "Addr", "Listener", "Upstream", "Upstreams", "Dial", "H2C", "HeaderTimeout", "Observe"}},
		{"middleware.Config", unset(guard), []string{"Base", "LivenessAssertion", "Observe"}},
		{"middleware.Probe", unset(guard.Probe), []string{"NewRequest", "Judge"}},
		{"fault.Fault", allUnset(faults), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: not set are %q, want %q: each other field needs a key, and a place in testdata/full.yaml", test.name, test.got, test.want)
		}
	}
}

// allUnset lists the fields that are zero in all of them.
func allUnset[T any](all []T) (names []string) {
	for i, v := range all {
		if i == 0 {
			names = unset(v)
			continue
		}
		also := unset(v)
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(also, n) })
	}
	return names
}

// The settings are those of the definition, in real time.
func TestSettingsAreScaled(t *testing.T) {
	d := load(t, "testdata/full.yaml") // ten times faster
	servers := d.Servers()
	if servers.Replicas != 2 || !servers.SharedSessions || servers.Server.SessionTTL != 3*time.Minute ||
		servers.Server.LogRetention != 6*time.Minute || servers.Server.Retry != 500*time.Millisecond ||
		servers.Server.UnknownSession != mcpserver.UnknownGone || servers.Server.OnBreak != mcpserver.BreakCancelsNoted {
		t.Errorf("Servers() = %+v", servers)
	}
	if r := servers.Server.Rules[0]; r.Delay != 500*time.Millisecond || r.On != mcpserver.OnPOST || r.From != 2 || r.To != 3 {
		t.Errorf("rule 1 is %+v", r)
	}
	if r := servers.Server.Rules[1]; r.RetryAfter != 2*time.Second || r.Status != 429 {
		t.Errorf("rule 2 is %+v", r)
	}
	balancer, _ := d.Balancer()
	if balancer.IdleTimeout != 24*time.Second || balancer.MaxDuration != 2*time.Minute || balancer.HeaderTimeout != 0 ||
		balancer.OnExpiry != lb.SilentThenRST || balancer.HeaderStatus != 502 || balancer.Balance != lb.SessionAffinity {
		t.Errorf("Balancer() = %+v", balancer)
	}
	if _, err := mcpserver.NewCluster(servers); err != nil {
		t.Errorf("NewCluster: %v", err)
	}
	balancer.Upstream = "127.0.0.1:1"
	if err := balancer.Validate(); err != nil {
		t.Errorf("the settings of the load balancer are not valid: %v", err)
	}
	guard := d.Guard()
	if guard.StaleGrace != 9*time.Second || guard.ProbeTimeout != time.Second || guard.ProbeBudget != 3*time.Second ||
		guard.Pending != middleware.PendingStrict || guard.Terminal != middleware.TerminalError || guard.Probe.Method != "ping" {
		t.Errorf("Guard() = %+v", guard)
	}
	if _, err := middleware.New(guard); err != nil {
		t.Errorf("middleware.New: %v", err)
	}
	steps := map[fault.Kind]*experiment.Fault{}
	var call *experiment.Call
	for _, s := range d.Method {
		if s.Fault != nil {
			steps[s.Fault.Kind] = s.Fault
		}
		if s.Call != nil && s.Call.Tool == experiment.ToolConfirm {
			call = s.Call
		}
	}
	if f := d.NewFault(steps[fault.SilentDropThenReset]); f.After != 35*time.Second {
		t.Errorf("silent drop: %v", f)
	}
	if f := d.NewFault(steps[fault.Latency]); f.Delay != 100*time.Millisecond || f.Jitter != 50*time.Millisecond {
		t.Errorf("latency: %v", f)
	}
	// As many bytes in a second of the record.
	if f := d.NewFault(steps[fault.Bandwidth]); f.BytesPerSecond != 10_000 {
		t.Errorf("bandwidth: %v", f)
	}
	want := map[string]any{"message": "Delete?", "times": 2, "work_events": 2, "interval_ms": int64(100)}
	if got := d.Arguments(call); !reflect.DeepEqual(got, want) {
		t.Errorf("Arguments(confirm) = %v, want %v", got, want)
	}
	if got, want := d.Record(time.Second), experiment.Duration(10*time.Second); got != want {
		t.Errorf("Record(1s) = %v, want %v", got, want)
	}
}

// A profile's limits are in the record's time, too, and so is the grace of the
// middleware that is not set.
func TestDefaultsAreScaled(t *testing.T) {
	d := load(t, "testdata/harmless.yaml")
	d.TimeScale = 100
	d.Topology.LoadBalancer = &experiment.LoadBalancer{Profile: lb.AWSNLB}
	cfg, _ := d.Balancer()
	if cfg.IdleTimeout != 3500*time.Millisecond || cfg.Mode != lb.TCP || cfg.OnExpiry != lb.SilentThenRST {
		t.Errorf("Balancer() = %+v, want aws-nlb a hundred times faster", cfg)
	}
	guard := d.Guard()
	if guard.StaleGrace != 600*time.Millisecond || guard.ProbeTimeout != 0 {
		t.Errorf("Guard() = %+v, want a grace of 600ms, and the default probe_timeout in real time", guard)
	}
	if got := d.CutBy(&experiment.Cut{}); got != lb.SilentThenRST {
		t.Errorf("CutBy of nothing = %v, want what the load balancer does", got)
	}
	d.Topology.LoadBalancer = &experiment.LoadBalancer{OnExpiry: lb.Expiry(503)}
	if got := d.CutBy(&experiment.Cut{}); got != lb.FIN {
		t.Errorf("CutBy of nothing where a limit is a status = %v, want fin", got)
	}
	if got := d.CutBy(&experiment.Cut{How: lb.RST}); got != lb.RST {
		t.Errorf("CutBy(rst) = %v", got)
	}
}

// What the servers refuse of a knob that has its bounds here as well, is refused
// here.
func TestServersAgree(t *testing.T) {
	for _, status := range []int{0, 199, 200, 299, 300, 399, 400, 404, 410, 418, 499, 500} {
		d := load(t, "testdata/harmless.yaml")
		d.Topology.Servers.StaleAnswer = status
		agree(t, d, status)
	}
	for _, cookie := range []string{"", "a", "a b", "a;b", "a=b", "a\tb", "ä", "A-1_.~!#$%&'*+^`|", "(a)", "\"a\""} {
		d := load(t, "testdata/harmless.yaml")
		d.Topology.Servers.Cookie = cookie
		agree(t, d, cookie)
	}
}

func agree(t *testing.T, d *experiment.Definition, value any) {
	t.Helper()
	theirs, err := mcpserver.NewCluster(d.Servers())
	if err == nil {
		theirs.Close()
	}
	if ours := d.Validate(); (ours == nil) != (err == nil) {
		t.Errorf("%v: Validate() = %v, and NewCluster: %v", value, ours, err)
	}
}

// The moments of a step are its first, and those until its last.
func TestTimes(t *testing.T) {
	s := func(n int) experiment.Duration { return experiment.Duration(n) * experiment.Duration(time.Second) }
	for _, test := range []struct {
		step experiment.Step
		want []experiment.Duration
	}{
		{experiment.Step{At: s(3)}, []experiment.Duration{s(3)}},
		{experiment.Step{At: s(3), Every: s(2), Until: s(7)}, []experiment.Duration{s(3), s(5), s(7)}},
		{experiment.Step{At: s(3), Every: s(2), Until: s(8)}, []experiment.Duration{s(3), s(5), s(7)}},
	} {
		if got := slices.Collect(test.step.Times()); !slices.Equal(got, test.want) {
			t.Errorf("Times() of %+v = %v, want %v", test.step, got, test.want)
		}
	}
}

// How long a run may take follows from how long it takes.
func TestTimeLimit(t *testing.T) {
	d := load(t, "testdata/harmless.yaml")
	if got, want := d.TimeLimit(), 50*time.Second; got != want {
		t.Errorf("TimeLimit() = %v, want %v", got, want)
	}
	d.Abort.RealTimeLimit = experiment.Duration(time.Minute)
	if got, want := d.TimeLimit(), time.Minute; got != want {
		t.Errorf("TimeLimit() = %v, want %v", got, want)
	}
}
