package daemon_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
)

func TestServerAndLoadBalancerServe(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	s := put(t, d, control.Servers, "s", 0, `{"settings": {"session_ttl": "90s"}}`)
	wantState(t, s, control.Running, "")
	b := put(t, d, control.LoadBalancers, "b", 0, `{"server": "s", "settings": {"idle_timeout": "1m"}}`)
	wantState(t, b, control.Running, "")
	if s.Generation != 1 || s.ID == "" || s.ID == b.ID || s.Created.IsZero() {
		t.Errorf("the server is %+v, want generation 1 and an id of its own", s)
	}
	for _, r := range []control.Resource{s, b} {
		if got := initialize(t, r.Status.URL); got != "200" {
			t.Errorf("%s: initialize at %s is answered %s, want 200", r.Name, r.Status.URL, got)
		}
	}
}

func TestEnginesThatArePrograms(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	put(t, d, control.Servers, "s", 0, `{}`)
	for _, engine := range []string{"haproxy", "nginx"} {
		t.Run(engine, func(t *testing.T) {
			needs(t, engine)
			b := put(t, d, control.LoadBalancers, engine, 0, fmt.Sprintf(`{"server": "s", "settings": {"engine": %q}}`, engine))
			wantState(t, b, control.Running, "")
			if got := initialize(t, b.Status.URL); got != "200" {
				t.Errorf("initialize is answered %s, want 200", got)
			}
		})
	}
}

func TestGenerations(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	ctx := testContext(t)
	first := put(t, d, control.Servers, "s", 0, `{"settings": {"retry": "1s"}}`)
	same, created, err := d.Put(ctx, control.Servers, "s", 0, []byte(`{ "settings": {"retry":"1s"} }`))
	if err != nil || created || same.Generation != 1 || same.Updated != first.Updated {
		t.Errorf("Put of what is there = %+v, %v, %v, want generation 1 and no change", same, created, err)
	}
	for _, c := range []struct {
		seen int64
		text string
	}{{0, "there is servers/s already"}, {2, "generation 1, and 2 was seen"}} {
		_, _, err := d.Put(ctx, control.Servers, "s", c.seen, []byte(`{}`))
		wantProblem(t, err, control.Stale, c.text)
	}
	changed := put(t, d, control.Servers, "s", 1, `{"settings": {"retry": "2s"}}`)
	if changed.Generation != 2 || changed.ID != first.ID || changed.Status.Addr != first.Status.Addr {
		t.Errorf("after a change it is %+v, want generation 2, and the id and address of %+v", changed, first)
	}
	_, _, err = d.Put(ctx, control.Servers, "other", 3, []byte(`{}`))
	wantProblem(t, err, control.Stale, "there is no servers/other any more")
	wantProblem(t, d.Delete(ctx, control.Servers, "s", 1), control.Stale, "generation 2, and 1 was seen")
	if err := d.Delete(ctx, control.Servers, "s", 2); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, d.Delete(ctx, control.Servers, "s", -1), control.NotFound, "there is no servers/s")
	if again := put(t, d, control.Servers, "s", -1, `{}`); again.ID == first.ID || again.Generation != 1 {
		t.Errorf("the next of the name is %+v, want another id than %s, and generation 1", again, first.ID)
	}
}

// invalid are specs that are none, and what has to be in the problem.
var invalid = []struct {
	kind control.Kind
	spec string
	want []string
}{
	{control.Servers, `{"adrs": []}`, []string{"adrs: is no key here; did you mean addrs?"}},
	{control.Servers, `{"settings": {"sesion_ttl": "1m"}}`, []string{"settings.sesion_ttl: is no key", "did you mean session_ttl?"}},
	{control.Servers, `{"settings": {"session_ttl": 60}, "addrs": ["0.0.0.0:0"]}`, []string{"settings.session_ttl: is 60, want a duration"}},
	{control.Servers, `{"addrs": ["0.0.0.0:8080"]}`, []string{`addrs[0]: is "0.0.0.0:8080", want an address that only this machine can reach`}},
	{control.Servers, `{"addrs": ["127.0.0.1"]}`, []string{`addrs[0]: is "127.0.0.1", want an address and a port`}},
	{control.Servers, `{"addrs": "127.0.0.1:1"}`, []string{`addrs: is "127.0.0.1:1", want a list of texts`}},
	{control.Servers, `{"addrs": ["127.0.0.1:0", "127.0.0.1:0"]}`, []string{"addrs: has 2 addresses, want none, or 1"}},
	{control.Servers, `{"addrs": ["127.0.0.1:7", "127.0.0.1:7"], "settings": {"replicas": 2}}`, []string{`addrs[1]: is "127.0.0.1:7", want each address once`}},
	{control.Servers, `[]`, []string{"no JSON object"}},
	{control.LoadBalancers, `{}`, []string{"server: is missing"}},
	{control.LoadBalancers, `{"server": "s", "upstreams": ["127.0.0.1:1"]}`, []string{"upstreams: are given beside server"}},
	{control.LoadBalancers, `{"server": "t"}`, []string{`server: is "t", and there is no servers/t`}},
	{control.LoadBalancers, `{"server": "srver"}`, []string{"did you mean server?"}},
	{control.LoadBalancers, `{"server": "../x"}`, []string{`server: is "../x", want the name of a resource`}},
	{control.LoadBalancers, `{"upstreams": ["x"]}`, []string{`upstreams[0]: is "x", want host:port`}},
	{control.LoadBalancers, `{"server": "server", "addr": "[::]:80"}`, []string{"addr: is \"[::]:80\""}},
	{control.LoadBalancers, `{"server": "server", "settings": {"engine": "nginx", "mode": "tcp"}}`, []string{"settings.mode: is"}},
	{control.Experiments, `{}`, []string{"definition: is empty"}},
	{control.Experiments, experimentSpec("name: x\n" + strings.Replace(small, "name: small", "", 1) + "lenght: 3s\n"), []string{"definition.lenght: is no key", "did you mean length?", "(line "}},
	{control.Experiments, experimentSpec(small, "server", "nobody"), []string{`server: is "nobody", and there is no servers/nobody`}},
	{control.Experiments, experimentSpec(small, "server", "pair"), []string{`server: is "pair", whose replicas is 2, want a load_balancer`}},
}

func TestInvalidSpecs(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	put(t, d, control.Servers, "server", 0, `{}`)
	put(t, d, control.Servers, "pair", 0, `{"settings": {"replicas": 2}}`)
	for _, c := range invalid {
		_, _, err := d.Put(testContext(t), c.kind, "x", -1, []byte(c.spec))
		wantProblem(t, err, control.Invalid, c.want...)
	}
	_, _, err := d.Put(testContext(t), control.Servers, "../x", -1, []byte(`{}`))
	wantProblem(t, err, control.Invalid, `name: is "../x"`)
	_, _, err = d.Put(testContext(t), control.Servers, "x", -1, []byte(`{"a`))
	wantProblem(t, err, control.Malformed)
	_, _, err = d.Put(testContext(t), "nothing", "x", -1, []byte(`{}`))
	wantProblem(t, err, control.NotFound, `"nothing" is no kind`)
	if i, err := d.Info(testContext(t)); err != nil || i.Resources[control.Servers] != 2 || i.Resources[control.LoadBalancers]+i.Resources[control.Experiments] != 0 {
		t.Errorf("Info() = %+v, %v, want two servers and nothing else", i, err)
	}
}

func TestWhoIsReferredToStays(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	ctx := testContext(t)
	put(t, d, control.Servers, "s", 0, `{}`)
	put(t, d, control.LoadBalancers, "b", 0, `{"server": "s"}`)
	put(t, d, control.Experiments, "e", 0, experimentSpec(small, "server", "s", "load_balancer", "b"))
	wantProblem(t, d.Delete(ctx, control.Servers, "s", -1), control.Conflict, "servers/s is referred to by experiments/e, load-balancers/b")
	wantProblem(t, d.Delete(ctx, control.LoadBalancers, "b", -1), control.Conflict, "experiments/e")
	for _, k := range []struct {
		kind control.Kind
		name string
	}{{control.Experiments, "e"}, {control.LoadBalancers, "b"}, {control.Servers, "s"}} {
		if err := d.Delete(ctx, k.kind, k.name, -1); err != nil {
			t.Errorf("Delete(%s) = %v", k.name, err)
		}
	}
}

func TestAnAddressIsOneResources(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	s := put(t, d, control.Servers, "s", 0, `{}`)
	_, _, err := d.Put(testContext(t), control.LoadBalancers, "b", 0, fmt.Appendf(nil, `{"upstreams": ["127.0.0.1:1"], "addr": %q}`, s.Status.Addr))
	wantProblem(t, err, control.Conflict, s.Status.Addr+" is the address of servers/s")
}

// A load balancer goes with its server, whose addresses change with its replicas.
func TestLoadBalancerFollowsItsServer(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	s := put(t, d, control.Servers, "s", 0, `{}`)
	b := put(t, d, control.LoadBalancers, "b", 0, `{"server": "s"}`)
	more := put(t, d, control.Servers, "s", 1, `{"settings": {"replicas": 3}}`)
	if len(more.Status.Addrs) != 3 || more.Status.Addrs[0] != s.Status.Addr {
		t.Errorf("with 3 replicas the addresses are %v, want 3, and %s first", more.Status.Addrs, s.Status.Addr)
	}
	same := put(t, d, control.Servers, "s", 2, `{"settings": {"replicas": 3, "retry": "1s"}}`)
	if !slices.Equal(same.Status.Addrs, more.Status.Addrs) {
		t.Errorf("after another change the addresses are %v, want %v", same.Status.Addrs, more.Status.Addrs)
	}
	moved := free(t)
	put(t, d, control.Servers, "s", 3, fmt.Sprintf(`{"addrs": [%q]}`, moved))
	after := get(t, d, control.LoadBalancers, "b")
	if got := initialize(t, after.Status.URL); got != "200" || after.Status.Addr != b.Status.Addr || after.Generation != 1 {
		t.Errorf("with its server elsewhere the load balancer is %+v and answers %s, want 200 at %s", after, got, b.Status.Addr)
	}
}

// free is an address that nobody has.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestAPortThatIsTaken(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := put(t, d, control.Servers, "s", 0, fmt.Sprintf(`{"addrs": [%q]}`, l.Addr()))
	wantState(t, r, control.Failed, "address already in use")
	l.Close()
	await(t, d, control.Servers, "s", control.Running)
}

// To put again what has failed has it started at once.
func TestPutStartsWhatHasFailed(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	spec := fmt.Sprintf(`{"addrs": [%q]}`, l.Addr())
	wantState(t, put(t, d, control.Servers, "s", 0, spec), control.Failed, "in use")
	wantState(t, put(t, d, control.Servers, "s", 1, spec), control.Failed, "in use")
	l.Close()
	r := put(t, d, control.Servers, "s", 1, spec)
	wantState(t, r, control.Running, "")
	if r.Generation != 1 {
		t.Errorf("its generation is %d, want 1: nothing has changed", r.Generation)
	}
}

func TestEverythingIsThereAfterARestart(t *testing.T) {
	dir := dataDir(t)
	d, stop := start(t, daemon.Config{DataDir: dir})
	before := []control.Resource{
		put(t, d, control.Servers, "s", 0, `{"settings": {"replicas": 2}}`),
		put(t, d, control.LoadBalancers, "b", 0, `{"server": "s", "settings": {"balance": "session"}}`),
		put(t, d, control.Experiments, "e", 0, experimentSpec(small, "server", "s", "load_balancer", "b")),
	}
	stop()
	for _, r := range before {
		for _, addr := range r.Status.Addrs { // nothing is left that has it
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
	d, _ = start(t, daemon.Config{DataDir: dir})
	for _, r := range before {
		after := get(t, d, r.Kind, r.Name)
		if fmt.Sprint(after) != fmt.Sprint(r) {
			t.Errorf("after a restart it is\n%+v, want\n%+v", after, r)
		}
		if r.Status.URL != "" && initialize(t, after.Status.URL) != "200" {
			t.Errorf("%s does not serve at %s", r.Name, after.Status.URL)
		}
	}
	if got := get(t, d, control.LoadBalancers, "b").Status.Addr; !inRange(got) {
		t.Errorf("the load balancer is at %s, want a port that no outgoing connection is given", got)
	}
}

func inRange(addr string) bool {
	at := netip.MustParseAddrPort(addr)
	return at.Port() >= 20000 && at.Port() < 30000
}

func TestAPortThatIsTakenAtTheStart(t *testing.T) {
	dir := dataDir(t)
	d, stop := start(t, daemon.Config{DataDir: dir})
	s := put(t, d, control.Servers, "s", 0, `{}`)
	stop()
	l, err := net.Listen("tcp", s.Status.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, _ = start(t, daemon.Config{DataDir: dir})
	wantState(t, get(t, d, control.Servers, "s"), control.Failed, "address already in use")
	l.Close()
	if r := await(t, d, control.Servers, "s", control.Running); r.Status.Addr != s.Status.Addr {
		t.Errorf("it is at %s, want %s", r.Status.Addr, s.Status.Addr)
	}
}

// A change of its settings has whoever listens to an experiment's state know.
func TestAnExperimentThatCannotBeRunAnyMore(t *testing.T) {
	d, _ := start(t, daemon.Config{DataDir: dataDir(t)})
	put(t, d, control.Servers, "s", 0, `{}`)
	wantState(t, put(t, d, control.Experiments, "e", 0, experimentSpec(small, "server", "s")), control.Running, "")
	put(t, d, control.Servers, "s", 1, `{"settings": {"replicas": 2}}`)
	wantState(t, get(t, d, control.Experiments, "e"), control.Failed, `server: is "s", whose replicas is 2`)
	_, err := d.Start(testContext(t), "e", "", control.RunRequest{})
	wantProblem(t, err, control.Invalid, "replicas")
}

func TestAHundredLoadBalancersAtOnce(t *testing.T) {
	dir := dataDir(t)
	d, stop := start(t, daemon.Config{DataDir: dir})
	put(t, d, control.Servers, "s", 0, `{}`)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			r, created, err := d.Put(testContext(t), control.LoadBalancers, fmt.Sprintf("b-%d", i), 0, []byte(`{"server": "s", "settings": {"idle_timeout": "60s"}}`))
			if err != nil || !created || r.Status.State != control.Running {
				t.Errorf("Put() = %+v, %v, %v, want a load balancer that runs", r, created, err)
			}
		})
	}
	all.Wait()
	t.Logf("100 load balancers were created in %v", time.Since(began))
	list, err := d.List(testContext(t), control.LoadBalancers)
	if err != nil || len(list) != 100 {
		t.Fatalf("List() has %d, %v, want 100", len(list), err)
	}
	addrs := make(map[string]bool)
	for _, r := range list {
		addrs[r.Status.Addr] = true
	}
	if len(addrs) != 100 || initialize(t, list[99].Status.URL) != "200" {
		t.Errorf("they have %d addresses, want 100 that serve", len(addrs))
	}
	began = time.Now()
	stop()
	d, _ = start(t, daemon.Config{DataDir: dir})
	<-d.Ready()
	t.Logf("a restart with them took %v", time.Since(began))
	for _, r := range list {
		// Other tests may have had the port meanwhile.
		if after := await(t, d, control.LoadBalancers, r.Name, control.Running); after.Status.Addr != r.Status.Addr {
			t.Errorf("after a restart %s is at %s, want %s", r.Name, after.Status.Addr, r.Status.Addr)
		}
	}
}

func TestTwoDaemonsOnOneDirectory(t *testing.T) {
	dir := dataDir(t)
	start(t, daemon.Config{DataDir: dir})
	_, err := daemon.Open(testContext(t), daemon.Config{DataDir: dir})
	want := fmt.Sprintf("data directory %s is in use by the daemon with pid %d", dir, os.Getpid())
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("the second is told %v, want one line with %q", err, want)
	}
}

func TestModes(t *testing.T) {
	dir := dataDir(t)
	_, stop := start(t, daemon.Config{DataDir: dir})
	var names []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		names = append(names, e.Name())
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || len(names) < 4 {
		t.Errorf("there are %v, %v, want a database and a lock at least", names, err)
	}
	stop()

	open := t.TempDir()
	if err := os.WriteFile(filepath.Join(open, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.Open(testContext(t), daemon.Config{DataDir: open}); err == nil || !strings.Contains(err.Error(), "mode 0755, want 0700") {
		t.Errorf("Open() of a folder that others can enter = %v, want that to be said", err)
	}
	if left, _ := os.ReadDir(open); len(left) != 1 {
		t.Errorf("it has left %v there", left)
	}
}

func TestConfig(t *testing.T) {
	_, err := daemon.Open(context.Background(), daemon.Config{Concurrency: -1, KeepRuns: -1})
	for _, want := range []string{"DataDir is empty", "Concurrency is -1", "KeepRuns is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open() = %v, want %q in it", err, want)
		}
	}
}

func TestAfterTheEndNothingIsDone(t *testing.T) {
	d, stop := start(t, daemon.Config{DataDir: dataDir(t)})
	put(t, d, control.Servers, "s", 0, `{}`)
	stop()
	_, _, err := d.Put(testContext(t), control.Servers, "s", -1, []byte(`{}`))
	wantProblem(t, err, control.Unavailable, "about to end")
	if err := d.Close(); err != nil {
		t.Errorf("Close() again = %v", err)
	}
	if d.Serve(context.Background()) == nil {
		t.Error("Serve() again = nil, want an error")
	}
}
