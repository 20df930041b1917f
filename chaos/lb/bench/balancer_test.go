//go:build linux

package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// clients is how many streams there are at a time.
	clients = 4
	// blockTime is how long one load takes.
	blockTime = 500 * time.Millisecond
	// idleTimeout has a clock run, and is never reached.
	idleTimeout = time.Minute
)

// BenchmarkBalancer: bytes of response bodies for a second of a processor, by
// the load balancer alone. The load balancers take turns, block by block, so that
// a machine that slows down slows all of them; of the ratios within a block the
// median counts.
func BenchmarkBalancer(b *testing.B) {
	for _, load := range []struct{ name, path string }{
		{"256", fmt.Sprintf("/events?size=256&for=%v", blockTime)},
		{"4096", fmt.Sprintf("/events?size=4096&for=%v", blockTime)},
		{"body", "/body?size=33554432"},
	} {
		b.Run(load.name, func(b *testing.B) {
			upstream := startUpstream(b)
			all := subjects(b)
			var balancers []*helper
			for _, s := range all {
				balancers = append(balancers, s.start(b, upstream, idleTimeout))
			}
			rates := make(map[string][]float64)
			for block := range 1 + max(b.N, 7) {
				for i, balancer := range balancers {
					before := balancer.cpu(b)
					n := fetch(b, "http://"+balancer.addr+load.path)
					rate := float64(n) / (balancer.cpu(b) - before)
					if block > 0 { // the first warms up
						rates[all[i].name] = append(rates[all[i].name], rate)
					}
				}
			}
			for name, rate := range rates {
				b.ReportMetric(median(rate)/1e6, name+"-MB/cpu-s")
			}
			for _, mode := range []string{"http", "tcp"} {
				for _, other := range []string{"haproxy-" + mode, "toxiproxy"} {
					if len(rates[other]) > 0 {
						b.ReportMetric(medianRatio(rates["embedded-"+mode], rates[other]), mode+"/"+other)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fetch has clients get url, each over and over for blockTime, and returns how
// many bytes they got.
func fetch(tb testing.TB, url string) int64 {
	tb.Helper()
	var all sync.WaitGroup
	var sum atomic.Int64
	var failed atomic.Pointer[error]
	until := time.Now().Add(blockTime)
	client := newClient(tb)
	defer client.CloseIdleConnections()
	for range clients {
		all.Go(func() {
			buf := make([]byte, 64<<10)
			for again := true; again; again = time.Now().Before(until) {
				n, err := get(client, url, buf)
				sum.Add(n)
				if err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		tb.Fatal(*err)
	}
	return sum.Load()
}

func newClient(tb testing.TB) *http.Client {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: clients}}
	tb.Cleanup(client.CloseIdleConnections)
	return client
}

func get(client *http.Client, url string, buf []byte) (int64, error) {
	res, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, res.Status)
	}
	// Hidden from it that the other side could do the reading.
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, res.Body, buf)
}

// medianRatio returns the median of x[i]/y[i].
func medianRatio(x, y []float64) float64 {
	ratios := make([]float64, len(x))
	for i := range x {
		ratios[i] = x[i] / y[i]
	}
	return median(ratios)
}

func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile returns the value that a part q of v is below.
func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[int(q*float64(len(v)-1))]
}
