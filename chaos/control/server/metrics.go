package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// countedRuns is how many of the latest runs the metrics count.
const countedRuns = 10_000

// metrics are the server's own, and others that are shown with them.
type metrics struct {
	all      prometheus.Gatherers
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(others prometheus.Gatherer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "revenant_http_requests_total",
			Help: "Requests that were answered, by the pattern of their route (none for those that reached no route), method and status.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "revenant_http_request_duration_seconds",
			Help:    "How long answers took, without streams, by the pattern of their route and method.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120},
		}, []string{"route", "method"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, m.duration, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.all = prometheus.Gatherers{registry}
	if others != nil {
		m.all = append(m.all, others)
	}
	return m
}

func (m *metrics) observe(route, method string, status int, took time.Duration, stream bool) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if !stream {
		m.duration.WithLabelValues(route, method).Observe(took.Seconds())
	}
}

func (s *Server) showMetrics(w http.ResponseWriter, r *request) error {
	// What is the backend's is asked for by this request, and for no other.
	registry := prometheus.NewRegistry()
	registry.MustRegister(&census{ctx: r.Context(), backend: s.backend, log: s.log})
	all := append(prometheus.Gatherers{registry}, s.metrics.all...)
	promhttp.HandlerFor(all, promhttp.HandlerOpts{
		DisableCompression: true,
		ErrorLog:           slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ErrorHandling:      promhttp.ContinueOnError,
	}).ServeHTTP(w, r.Request)
	return nil
}

var (
	upDesc = prometheus.NewDesc("revenant_up",
		"1 if the daemon could be asked for what it has, and 0 if not; then its metrics are missing.", nil, nil)
	buildDesc = prometheus.NewDesc("revenant_build_info",
		"1, with the versions of the program and of its API.", []string{"version", "api"}, nil)
	haltedDesc = prometheus.NewDesc("revenant_halted",
		"1 while new runs are refused.", nil, nil)
	activeDesc = prometheus.NewDesc("revenant_active_runs",
		"Runs that are not over.", nil, nil)
	resourcesDesc = prometheus.NewDesc("revenant_resources",
		"Resources, by kind and state.", []string{"kind", "state"}, nil)
	runsDesc = prometheus.NewDesc("revenant_runs",
		"The runs that the daemon keeps, at most the latest 10000, by verdict; none for those that have no verdict.", []string{"verdict"}, nil)
)

// census asks the backend for what it has, for one scrape.
type census struct {
	ctx     context.Context // of that scrape
	backend control.Backend
	log     *slog.Logger
}

// Describe sends nothing: what is collected is not the same each time.
func (c *census) Describe(chan<- *prometheus.Desc) {}

// Collect sends what the backend has, all of it or nothing.
func (c *census) Collect(out chan<- prometheus.Metric) {
	found, err := c.take()
	up := 1.0
	if err != nil {
		up = 0
		c.log.LogAttrs(c.ctx, slog.LevelWarn, "metrics: the backend cannot be asked", slog.Any("err", err))
	}
	out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
	for _, metric := range found {
		out <- metric
	}
}

// take returns all metrics, or none and why.
func (c *census) take() (found []prometheus.Metric, err error) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		found = append(found, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...))
	}
	info, err := c.backend.Info(c.ctx)
	if err != nil {
		return nil, err
	}
	halted := 0.0
	if info.Halted {
		halted = 1
	}
	gauge(buildDesc, 1, info.Version, strconv.Itoa(info.API))
	gauge(haltedDesc, halted)
	gauge(activeDesc, float64(info.ActiveRuns))

	for _, kind := range control.Kinds() {
		list, err := c.backend.List(c.ctx, kind)
		if err != nil {
			return nil, err
		}
		// Those of which there are none are 0, so that a series does not end.
		states := map[control.State]int{control.Running: 0, control.Failed: 0}
		for _, r := range list {
			states[r.Status.State]++
		}
		for state, n := range states {
			gauge(resourcesDesc, float64(n), string(kind), string(state))
		}
	}
	runs, err := c.backend.Runs(c.ctx, "", countedRuns)
	if err != nil {
		return nil, err
	}
	verdicts := map[journal.Verdict]int{journal.Upheld: 0, journal.Deviated: 0, journal.Inconclusive: 0, journal.AbortedVerdict: 0, "none": 0}
	for _, r := range runs {
		v := r.Verdict
		if v == "" {
			v = "none"
		}
		verdicts[v]++
	}
	for verdict, n := range verdicts {
		gauge(runsDesc, float64(n), string(verdict))
	}
	return found, nil
}
