package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/server"
)

func TestMetricsAreWhatTheBackendHasNow(t *testing.T) {
	others := prometheus.NewRegistry()
	others.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "revenant_of_the_daemon", Help: "Its own."}))
	s, backend, _ := newServer(t, func(cfg *server.Config) { cfg.Metrics = others })
	failed := shop
	failed.Status.State = control.Failed
	deviated, active := run, run
	deviated.Verdict, active.Verdict, active.State = "deviated", "", control.Active
	halted := info
	halted.Halted = true
	backend.EXPECT().Info(anything).Return(halted, nil).Once()
	backend.EXPECT().Info(anything).Return(info, nil)
	backend.EXPECT().List(anything, control.Servers).Return([]control.Resource{shop, shop, failed}, nil)
	backend.EXPECT().List(anything, anything).Return(nil, nil)
	backend.EXPECT().Runs(anything, "", 10000).Return([]control.Run{run, run, deviated, active}, nil)
	backend.EXPECT().Get(anything, control.Servers, "shop").Return(shop, nil)

	ask{path: "/v1/servers/shop"}.send(t, s)
	ask{path: "/v1/servers/shop"}.send(t, s)
	ask{path: "/v1/servers/Shop"}.send(t, s)
	ask{method: "BREW", path: "/no/such/path"}.send(t, s)
	ask{path: "/v1/x/../y"}.send(t, s)
	first := ask{path: "/metrics"}.send(t, s).Body.String()
	for _, want := range []string{
		"revenant_up 1", "revenant_halted 1", "revenant_active_runs 1", `revenant_build_info{api="1",version="v1.2.3"} 1`,
		`revenant_resources{kind="servers",state="running"} 2`, `revenant_resources{kind="servers",state="failed"} 1`,
		`revenant_resources{kind="load-balancers",state="running"} 0`,
		`revenant_runs{verdict="upheld"} 2`, `revenant_runs{verdict="deviated"} 1`, `revenant_runs{verdict="none"} 1`, `revenant_runs{verdict="aborted"} 0`,
		`revenant_http_requests_total{method="GET",route="/v1/servers/{name}",status="200"} 2`,
		`revenant_http_requests_total{method="GET",route="/v1/servers/{name}",status="400"} 1`,
		`revenant_http_requests_total{method="other",route="none",status="404"} 1`,
		`revenant_http_requests_total{method="GET",route="none",status="404"} 1`,
		`revenant_http_request_duration_seconds_count{method="GET",route="/v1/servers/{name}"} 3`,
		"revenant_of_the_daemon 0", "go_goroutines ",
	} {
		if !strings.Contains(first, "\n"+want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if strings.Contains(first, "no/such") {
		t.Error("a path that somebody asked for is in the metrics")
	}
	if second := (ask{path: "/metrics"}).send(t, s).Body.String(); !strings.Contains(second, "\nrevenant_halted 0\n") {
		t.Error("revenant_halted is not 0 after the daemon said so")
	}
}

func TestMetricsOfABackendThatFails(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Info(anything).Return(info, nil)
	backend.EXPECT().List(anything, anything).Return(nil, errors.New("disk I/O error"))
	w := ask{path: "/metrics"}.send(t, s)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "\nrevenant_up 0\n") || !strings.Contains(body, "go_goroutines") || strings.Contains(body, "revenant_halted") {
		t.Errorf("%d %s, want revenant_up 0 and nothing else of the backend", w.Code, body)
	}
	if !strings.Contains(log.String(), "disk I/O error") {
		t.Errorf("log %s, want the error", log)
	}
}
