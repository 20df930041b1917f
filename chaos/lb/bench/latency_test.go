//go:build linux

package bench_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	latencyBlocks = 20
	// perBlock is how many requests, or events, one block has.
	perBlock = 100
	// unsettled is how many at the beginning do not count.
	unsettled = 5
)

// BenchmarkLatency: what a load balancer adds to the time of a short exchange on
// a connection that is open, one at a time, and to that of an event from its
// upstream's write to the client's read. Each is a part of the direct
// connection's time at the same quantile in the same block; of the blocks the
// median counts.
func BenchmarkLatency(b *testing.B) {
	for _, kind := range []struct {
		name string
		time func(tb testing.TB, addr string) []float64
	}{{"request", requestTimes}, {"event", eventTimes}} {
		b.Run(kind.name, func(b *testing.B) {
			upstream := startUpstream(b)
			names, addrs := []string{"direct"}, []string{upstream}
			for _, s := range subjects(b) {
				names, addrs = append(names, s.name), append(addrs, s.start(b, upstream, idleTimeout).addr)
			}
			quantiles := map[string]float64{"p50": 0.5, "p99": 0.99}
			direct, added := make(map[string][]float64), make(map[string][]float64)
			for range latencyBlocks {
				var bare []float64
				for i, addr := range addrs {
					times := kind.time(b, addr)
					if i == 0 {
						bare = times
					}
					for name, q := range quantiles {
						if i == 0 {
							direct[name] = append(direct[name], quantile(bare, q))
						} else {
							unit := names[i] + "-" + name
							added[unit] = append(added[unit], quantile(times, q)/quantile(bare, q)-1)
						}
					}
				}
			}
			for name, times := range direct {
				b.ReportMetric(median(times)*1e6, "direct-"+name+"-us")
			}
			for unit, ratios := range added {
				b.ReportMetric(median(ratios), unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// requestTimes sends requests on a connection of its own, and returns how long
// each takes to the end of its answer.
func requestTimes(tb testing.TB, addr string) (times []float64) {
	tb.Helper()
	conn, r := connect(tb, addr)
	defer conn.Close()
	for i := range unsettled + perBlock {
		start := time.Now()
		res := ask(tb, conn, r, "/")
		text, err := io.ReadAll(res.Body)
		took := time.Since(start)
		if err != nil || string(text) != shortAnswer {
			tb.Fatalf("%s: %q, %v, want %q", addr, text, err, shortAnswer)
		}
		if i >= unsettled {
			times = append(times, took.Seconds())
		}
	}
	return times
}

// eventTimes opens a stream and returns how long each of its events is under way.
func eventTimes(tb testing.TB, addr string) (times []float64) {
	tb.Helper()
	conn, r := connect(tb, addr)
	defer conn.Close()
	res := ask(tb, conn, r, fmt.Sprintf("/ticks?n=%d&every=1ms", unsettled+perBlock))
	lines := bufio.NewScanner(res.Body)
	for n := 0; lines.Scan(); {
		var sent int64
		if _, err := fmt.Sscanf(lines.Text(), "data: %d", &sent); err != nil {
			continue
		}
		if n++; n > unsettled {
			times = append(times, float64(time.Now().UnixNano()-sent)/1e9)
		}
	}
	if err := lines.Err(); err != nil || len(times) != perBlock {
		tb.Fatalf("%s: %d events, %v, want %d", addr, len(times), err, perBlock)
	}
	return times
}

// connect opens a connection for requests.
func connect(tb testing.TB, addr string) (net.Conn, *bufio.Reader) {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// ask sends a request and reads the head of its response.
func ask(tb testing.TB, conn net.Conn, r *bufio.Reader, path string) *http.Response {
	tb.Helper()
	res, err := exchange(conn, r, path)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return res
}

func exchange(conn net.Conn, r *bufio.Reader, path string) (*http.Response, error) {
	head := []string{"GET " + path + " HTTP/1.1", "Host: bench", "Accept: text/event-stream", "\r\n"}
	if _, err := io.WriteString(conn, strings.Join(head, "\r\n")); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(r, nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", res.Status)
	}
	return res, err
}
