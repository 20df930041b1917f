package lb_test

import (
	"encoding/json"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// What an engine cannot do is refused, with the setting and the engine.
func TestEnginesRefuse(t *testing.T) {
	for _, test := range []struct {
		cfg  lb.Config
		want string // after "lb: Config."
	}{
		{lb.Config{H2C: true}, "H2C is true: engine embedded speaks HTTP/1.1 only"},
		{lb.Config{Engine: lb.HAProxy, MaxDuration: time.Second}, "MaxDuration is 1s: engine haproxy has no"},
		{lb.Config{Engine: lb.HAProxy, Profile: lb.GCPHTTPS}, "MaxDuration is 30s: engine haproxy has no"},
		{lb.Config{Engine: lb.HAProxy, HeaderTimeout: time.Second}, "HeaderTimeout is 1s: engine haproxy has one"},
		{lb.Config{Engine: lb.HAProxy, HeaderStatus: 503}, "HeaderStatus is 503: engine haproxy answers 504"},
		{lb.Config{Engine: lb.HAProxy, OnExpiry: 503}, "OnExpiry is 503: engine haproxy can only do fin here"},
		{lb.Config{Engine: lb.HAProxy, OnExpiry: lb.RST}, "OnExpiry is rst: engine haproxy can only do fin here"},
		{lb.Config{Engine: lb.HAProxy, H2C: true, OnExpiry: lb.FIN}, "OnExpiry is fin: engine haproxy can only do clean_end here"},
		{lb.Config{Engine: lb.HAProxy, Mode: lb.TCP, OnExpiry: lb.Silent}, "OnExpiry is silent: engine haproxy can only do fin here"},
		{lb.Config{Engine: lb.HAProxy, Profile: lb.AWSNLB}, "OnExpiry is silent_then_rst: engine haproxy can only do fin here"},
		{lb.Config{Engine: lb.HAProxy, Buffering: new(true)}, "Buffering is true: engine haproxy keeps no response back"},
		{lb.Config{Engine: lb.HAProxy, IdleTimeout: 25 * 24 * time.Hour}, "IdleTimeout is 600h0m0s: engine haproxy cannot count so far"},
		{lb.Config{Engine: lb.HAProxy, Dial: new(net.Dialer).DialContext}, "Dial is set: engine haproxy connects by itself"},
		{lb.Config{Engine: lb.HAProxy, Listener: memnettest.New()}, "Listener is a *memnettest.Listener: engine haproxy takes TCP sockets only"},
		{lb.Config{Engine: lb.NGINX, Mode: lb.TCP}, "Mode is tcp: engine nginx is run without its stream module"},
		{lb.Config{Engine: lb.NGINX, MaxDuration: time.Second}, "MaxDuration is 1s: engine nginx has no"},
		{lb.Config{Engine: lb.NGINX, OnExpiry: lb.CleanEnd}, "OnExpiry is clean_end: engine nginx can only do fin here"},
		{lb.Config{Engine: lb.NGINX, H2C: true, OnExpiry: lb.FIN}, "OnExpiry is fin: engine nginx can only do rst here"},
		{lb.Config{Engine: lb.NGINX, Balance: lb.CookieAffinity}, "Balance is cookie: engine nginx sets no cookies"},
		{lb.Config{Engine: lb.NGINX, Balance: lb.SessionAffinity}, "Balance is session: engine nginx learns nothing"},
		{lb.Config{Mode: lb.TCP, H2C: true}, "H2C is true: mode tcp of engine embedded passes every protocol"},
		{lb.Config{Mode: lb.TCP, HeaderTimeout: time.Second}, "HeaderTimeout is 1s: mode tcp of engine embedded sees no headers"},
		{lb.Config{Mode: lb.TCP, HeaderStatus: 503}, "HeaderStatus is 503: mode tcp of engine embedded answers nothing"},
		{lb.Config{Mode: lb.TCP, Buffering: new(true)}, "Buffering is true: mode tcp of engine embedded sees no responses"},
		{lb.Config{Mode: lb.TCP, Balance: lb.SessionAffinity}, "Balance is session: mode tcp of engine embedded sees no headers"},
		{lb.Config{Mode: lb.TCP, OnExpiry: lb.CleanEnd}, "OnExpiry is clean_end: mode tcp of engine embedded sees no responses"},
		{lb.Config{Mode: lb.TCP, OnExpiry: 503}, "OnExpiry is 503: mode tcp of engine embedded sees no responses"},

		{lb.Config{Engine: "caddy"}, `Engine is "caddy", want "embedded", "haproxy" or "nginx"`},
		{lb.Config{Mode: "udp"}, `Mode is "udp", want "http" or "tcp"`},
		{lb.Config{Balance: "random"}, `Balance is "random", want "round_robin", "cookie" or "session"`},
		{lb.Config{Profile: "alb"}, `Profile is "alb", want "aws-alb", "aws-nlb",`},
		{lb.Config{HeaderStatus: 200}, "HeaderStatus is 200, want 0, or a status from 400 to 599"},
		{lb.Config{HeaderStatus: 502, OnExpiry: 503}, "HeaderStatus is 502 and OnExpiry 503, want one status"},
		{lb.Config{OnExpiry: 399}, "OnExpiry is Expiry(399), want"},
		{lb.Config{MaxDuration: -2}, "MaxDuration is -2ns, want 0"},
		{lb.Config{HeaderTimeout: -2}, "HeaderTimeout is -2ns, want 0"},
		{lb.Config{Upstreams: []string{"h:1"}}, `Upstream is "upstream:80" and Upstreams ["h:1"], want one of the two`},
	} {
		test.cfg.Upstream = "upstream:80"
		err := test.cfg.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "lb: Config."+test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Validate(%s) = %v, want lb: Config.%s", name(test.cfg, ""), err, test.want)
		}
		if balancer, err := lb.New(test.cfg); err == nil {
			balancer.Close()
			t.Errorf("New(%s) succeeded, want the error of Validate", name(test.cfg, ""))
		}
	}
}

func TestUpstreamsAreValidated(t *testing.T) {
	for want, addrs := range map[string][]string{
		`Upstreams[1] is "b", want host:port`:                       {"a:1", "b"},
		`Upstreams[1] is empty, want host:port`:                     {"a:1", ""},
		`Upstreams[2] is "a:1", want each once`:                     {"a:1", "b:1", "a:1"},
		`Upstreams[0] is "a;b:1", want the name of a host`:          {"a;b:1"},
		`Upstreams[0] is "a\nserver b:1", want the name of a host`:  {"a\nserver b:1"},
		`Upstreams[0] is "a b:1", want the name of a host`:          {"a b:1"},
		`Upstreams[0] is "unix@/run/x:1", want the name of a host,`: {"unix@/run/x:1"},
	} {
		err := lb.Config{Upstreams: addrs}.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "lb: Config."+want) {
			t.Errorf("Validate(Upstreams: %q) = %v, want lb: Config.%s", addrs, err, want)
		}
	}
	for _, addr := range []string{"localhost:1", "a-b_c.example:65535", "[::1]:80", "[fe80::1%eth0]:80"} {
		if err := (lb.Config{Upstreams: []string{addr}}).Validate(); err != nil {
			t.Errorf("Validate(Upstreams: %q) = %v, want nil", addr, err)
		}
	}
}

// The documented defaults; docs/load-balancers.md says where they are from.
func TestProfiles(t *testing.T) {
	const common = `,"addr":"127.0.0.1:0","upstream":"h:1","balance":"round_robin"`
	for profile, want := range map[lb.Profile]string{
		lb.AWSALB:          `"mode":"http"*,"idle_timeout":"1m0s","buffering":false,"on_expiry":"fin","header_status":504`,
		lb.AWSNLB:          `"mode":"tcp"*,"idle_timeout":"5m50s","buffering":false,"on_expiry":"silent_then_rst"`,
		lb.GCPHTTPS:        `"mode":"http"*,"max_duration":"30s","buffering":false,"on_expiry":"fin","header_status":504`,
		lb.AzureLB:         `"mode":"tcp"*,"idle_timeout":"4m0s","buffering":false,"on_expiry":"silent"`,
		lb.Cloudflare:      `"mode":"http"*,"idle_timeout":"2m0s","buffering":false,"on_expiry":"rst","header_status":524`,
		lb.Envoy:           `"mode":"http"*,"idle_timeout":"5m0s","max_duration":"15s","buffering":false,"on_expiry":"rst","header_status":504`,
		lb.Heroku:          `"mode":"http"*,"idle_timeout":"55s","header_timeout":"30s","buffering":false,"on_expiry":"fin","header_status":503`,
		lb.NGINXDefaults:   `"mode":"http"*,"idle_timeout":"1m0s","buffering":true,"on_expiry":"fin","header_status":504`,
		lb.HAProxyDefaults: `"mode":"http"*,"idle_timeout":"50s","buffering":false,"on_expiry":"fin","header_status":504`,
		lb.CloudRun:        `"mode":"http"*,"max_duration":"5m0s","buffering":false,"on_expiry":"clean_end","header_status":504`,
	} {
		resolved, err := lb.Config{Profile: profile, Upstream: "h:1"}.Resolve()
		if err != nil {
			t.Errorf("%s: %v", profile, err)
			continue
		}
		want = `{"engine":"embedded",` + strings.Replace(want, "*", common, 1) + "}"
		if got := canonical(t, resolved); got != canonical(t, json.RawMessage(want)) {
			t.Errorf("%s is %s, want %s", profile, got, want)
		}
		if again, err := resolved.Resolve(); err != nil || !reflect.DeepEqual(again, resolved) {
			t.Errorf("%s resolves to %s, and that to %s, %v", profile, name(resolved, ""), name(again, ""), err)
		}
	}
	if got := len(lb.Profiles()); got != 10 {
		t.Errorf("there are %d profiles, want the 10 that are tested", got)
	}
	if got := lb.Engines(); !slices.Equal(got, []lb.Engine{lb.Embedded, lb.HAProxy, lb.NGINX}) {
		t.Errorf("Engines() = %v", got)
	}
}

// canonical is v in JSON with its keys in order.
func canonical(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var any map[string]any
	if err := json.Unmarshal(text, &any); err != nil {
		t.Fatal(err)
	}
	text, _ = json.Marshal(any)
	return string(text)
}

func TestSettingsWinOverTheProfile(t *testing.T) {
	resolve := func(cfg lb.Config) lb.Config {
		t.Helper()
		cfg.Upstream = "h:1"
		resolved, err := cfg.Resolve()
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	nlb := resolve(lb.Config{Profile: lb.AWSNLB, Mode: lb.HTTP, OnExpiry: lb.FIN, IdleTimeout: time.Second})
	if nlb.Mode != lb.HTTP || nlb.OnExpiry != lb.FIN || nlb.IdleTimeout != time.Second {
		t.Errorf("aws-nlb in other ways is %s, want http, fin, 1s", name(nlb, ""))
	}
	nginx := resolve(lb.Config{Profile: lb.NGINXDefaults, Buffering: new(false), IdleTimeout: lb.Unlimited})
	if *nginx.Buffering || nginx.IdleTimeout != 0 {
		t.Errorf("nginx without buffering and limit is %s", name(nginx, ""))
	}
	for expiry, want := range map[lb.Expiry]int{0: 524, lb.FIN: 524, 503: 503} {
		if got := resolve(lb.Config{Profile: lb.Cloudflare, OnExpiry: expiry}).HeaderStatus; got != want {
			t.Errorf("HeaderStatus of cloudflare with OnExpiry %v is %d, want %d", expiry, got, want)
		}
	}
	// The profiles themselves stay as they are.
	*nginx.Buffering = true
	if alb := resolve(lb.Config{Profile: lb.AWSALB}); *alb.Buffering {
		t.Error("aws-alb buffers, after a change of another Config")
	}
	buffered := resolve(lb.Config{Profile: lb.NGINXDefaults})
	*buffered.Buffering = false
	if again := resolve(lb.Config{Profile: lb.NGINXDefaults}); !*again.Buffering {
		t.Error("nginx does not buffer, after a change of a Config")
	}
}

func TestConfigOfALoadBalancer(t *testing.T) {
	addrs := []string{"a:1", "b:1"}
	balancer, err := lb.New(lb.Config{Profile: lb.AWSALB, Upstreams: addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer balancer.Close()
	addrs[0] = "changed:1"
	got := balancer.Config()
	if got.IdleTimeout != time.Minute || got.Upstreams[0] != "a:1" || got.Engine != lb.Embedded {
		t.Errorf("Config() = %s, want aws-alb in front of a:1 and b:1", name(got, ""))
	}
	got.Upstreams[1], *got.Buffering = "changed:1", true
	if again := balancer.Config(); again.Upstreams[1] != "b:1" || *again.Buffering {
		t.Errorf("Config() = %s, after a change of a copy", name(again, ""))
	}
}

func TestConfigAsJSON(t *testing.T) {
	const text = `{"engine":"haproxy","mode":"http","profile":"aws-alb","addr":"127.0.0.1:8080",` +
		`"upstreams":["a:1","b:1"],"balance":"session","h2c":true,"buffering":false,"on_expiry":"503",` +
		`"header_status":503,"idle_timeout":"1m30s","header_timeout":"none","max_duration":"15ms"}`
	var cfg lb.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	want := lb.Config{
		Engine: lb.HAProxy, Mode: lb.HTTP, Profile: lb.AWSALB, Addr: "127.0.0.1:8080",
		Upstreams: []string{"a:1", "b:1"}, Balance: lb.SessionAffinity, H2C: true, Buffering: new(false),
		OnExpiry: 503, HeaderStatus: 503,
		IdleTimeout: 90 * time.Second, HeaderTimeout: lb.Unlimited, MaxDuration: 15 * time.Millisecond,
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("Unmarshal() = %+v, want %+v", cfg, want)
	}
	if back, err := json.Marshal(cfg); err != nil || string(back) != text {
		t.Errorf("Marshal() = %s, %v, want %s", back, err, text)
	}
	if empty, err := json.Marshal(lb.Config{Observe: func(lb.Event) {}}); err != nil || string(empty) != "{}" {
		t.Errorf("Marshal() of nothing = %s, %v, want {}", empty, err)
	}
	// What is not named stays.
	if err := json.Unmarshal([]byte(`{"idle_timeout":"5s","on_expiry":""}`), &cfg); err != nil {
		t.Fatal(err)
	}
	if want.IdleTimeout, want.OnExpiry = 5*time.Second, 0; !reflect.DeepEqual(cfg, want) {
		t.Errorf("after a second Unmarshal: %+v, want %+v", cfg, want)
	}
}

func TestConfigRefusesJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"idle":"1s"}`:         `unknown field "idle"`,
		`{"Observe":null}`:      `unknown field "Observe"`,
		`{"idle_timeout":"1"}`:  `limit is "1", want a duration such as "60s", or "none"`,
		`{"on_expiry":"reset"}`: `expiry is "reset", want "fin"`,
		`{"on_expiry":"200"}`:   `expiry is "200", want "fin"`,
		`{"engine":"caddy"}`:    `engine is "caddy", want "embedded", "haproxy" or "nginx"`,
		`{"mode":"udp"}`:        `mode is "udp", want "http" or "tcp"`,
		`{"profile":"alb"}`:     `profile is "alb", want "aws-alb"`,
		`{"balance":"random"}`:  `balance is "random", want "round_robin"`,
	} {
		cfg := lb.Config{IdleTimeout: time.Hour, Engine: lb.NGINX}
		err := json.Unmarshal([]byte(text), &cfg)
		if err == nil || !strings.Contains(err.Error(), want) || cfg.IdleTimeout != time.Hour || cfg.Engine != lb.NGINX {
			t.Errorf("Unmarshal(%s) = %v and gives %s, want %s and no change", text, err, name(cfg, ""), want)
		}
	}
}

func TestCanCut(t *testing.T) {
	for _, test := range []struct {
		cfg  lb.Config
		can  []lb.Expiry
		want string // of the error for the others
	}{
		{lb.Config{}, []lb.Expiry{lb.FIN, lb.RST, lb.CleanEnd, lb.Silent, lb.SilentThenRST}, ""},
		{lb.Config{Mode: lb.TCP}, []lb.Expiry{lb.FIN, lb.RST, lb.Silent, lb.SilentThenRST}, "mode tcp"},
		{lb.Config{Engine: lb.HAProxy}, []lb.Expiry{lb.FIN}, `engine haproxy can only do "fin"`},
		{lb.Config{Engine: lb.HAProxy, H2C: true}, []lb.Expiry{lb.CleanEnd}, `engine haproxy can only do "clean_end"`},
		{lb.Config{Engine: lb.NGINX}, nil, "engine nginx cuts nothing"},
	} {
		test.cfg.Upstream = "h:1"
		for how := lb.FIN; how <= lb.SilentThenRST; how++ {
			err := test.cfg.CanCut(how)
			if slices.Contains(test.can, how) != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("CanCut(%v) of %s = %v, want nil for %v, and else %q", how, name(test.cfg, ""), err, test.can, test.want)
			}
		}
		for _, how := range []lb.Expiry{0, 9, 503} {
			if err := test.cfg.CanCut(how); err == nil || !strings.Contains(err.Error(), `want "fin"`) {
				t.Errorf("CanCut(%v) = %v, want an error that lists the ways", how, err)
			}
		}
	}
	if err := (lb.Config{}).CanCut(lb.FIN); err == nil || !strings.Contains(err.Error(), "Config.Upstream") {
		t.Errorf("CanCut() of a Config at fault = %v, want that", err)
	}
}

// A listener of the caller's own serves an engine that is a program, too.
func TestProgramOnAListenerOfTheCaller(t *testing.T) {
	for _, engine := range programs {
		t.Run(string(engine), func(t *testing.T) {
			needs(t, engine)
			listener, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				t.Skipf("SKIPPED: no IPv6: %v", err)
			}
			balancer := startEngine(t, lb.Config{Engine: engine, Listener: listener}, field)
			if got := raw(t, balancer.Addr(), "/"); balancer.Addr() != listener.Addr() || got != "200 event terminator" {
				t.Errorf("at %v: %s, want 200 at %v", balancer.Addr(), got, listener.Addr())
			}
		})
	}
}
