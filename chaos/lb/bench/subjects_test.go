//go:build linux

package bench_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// subject is one of what is compared.
type subject struct {
	name    string
	engine  lb.Engine // "": toxiproxy
	mode    lb.Mode
	program string // that does the work, "": the helper itself
}

// subjects returns all that this machine has. It says which it has not.
func subjects(tb testing.TB) []subject {
	all := []subject{
		{"embedded-http", lb.Embedded, lb.HTTP, ""},
		{"embedded-tcp", lb.Embedded, lb.TCP, ""},
		{"haproxy-http", lb.HAProxy, lb.HTTP, "haproxy"},
		{"haproxy-tcp", lb.HAProxy, lb.TCP, "haproxy"},
		{"nginx-http", lb.NGINX, lb.HTTP, "nginx"},
		{"toxiproxy", "", lb.TCP, "toxiproxy"},
	}
	var here []subject
	for _, s := range all {
		if err := s.available(); err != nil {
			tb.Logf("NOT MEASURED: %s: %v", s.name, err)
			continue
		}
		here = append(here, s)
	}
	return here
}

func (s subject) available() error {
	if s.engine != "" {
		return lb.Available(s.engine)
	}
	path := os.Getenv(toxiproxyEnv)
	if path == "" {
		return fmt.Errorf("%s does not say where it is", toxiproxyEnv)
	}
	_, err := os.Stat(path)
	return err
}

// start runs the subject in front of upstream until tb ends. idle is its idle
// timeout; toxiproxy has none.
func (s subject) start(tb testing.TB, upstream string, idle time.Duration) *helper {
	tb.Helper()
	if s.engine == "" {
		return startHelper(tb, toxiproxyRole, upstream, s.program)
	}
	settings, err := json.Marshal(lb.Config{Engine: s.engine, Mode: s.mode, Upstream: upstream, IdleTimeout: idle})
	if err != nil {
		tb.Fatal(err)
	}
	return startHelper(tb, balancerRole, string(settings), s.program)
}

// startUpstream runs the upstream until tb ends.
func startUpstream(tb testing.TB) (addr string) {
	tb.Helper()
	return startHelper(tb, upstreamRole, "", "").addr
}
