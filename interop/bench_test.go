package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// The benchmarks measure the middleware and the transport below it in the same
// run, in turn, so that a machine that slows down slows both. Each prints what
// DESIGN calls a row: the ratio, or the difference. scripts/bench.sh runs them.

const benchSession = "bench-session"

// benchServer answers POSTs with a result, GETs with what stream writes.
func benchServer(b *testing.B, stream func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, rest, _ := strings.Cut(string(body), `"id":`)
			id, _, _ := strings.Cut(rest, ",")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		if stream != nil {
			stream(w, r)
		}
	}))
	b.Cleanup(srv.Close)
	return srv
}

func guard(b *testing.B, base http.RoundTripper) *middleware.Transport {
	b.Helper()
	t, err := middleware.New(middleware.Config{Base: base})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func benchRequest(b *testing.B, ctx context.Context, method, url, cursor, body string) *http.Request {
	b.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", benchSession)
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	return req
}

// inTurn times two ways of doing the same, block by block, and returns the
// median of each in seconds and the median of their ratios.
func inTurn(blocks int, bare, guarded func()) (bareTime, guardedTime, ratio float64) {
	var a, g, q []float64
	bare()
	guarded()
	for range blocks {
		start := time.Now()
		bare()
		x := time.Since(start).Seconds()
		start = time.Now()
		guarded()
		y := time.Since(start).Seconds()
		a, g, q = append(a, x), append(g, y), append(q, y/x)
	}
	return median(a), median(g), median(q)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// canned answers at once: what is measured over it is the middleware alone.
type canned struct{}

func (canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	// A real transport derives a context and watches it.
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	_ = ctx.Done()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`)), Request: req,
	}, nil
}

// BenchmarkPost: a POST of a session, over a base that costs nothing.
func BenchmarkPost(b *testing.B) {
	const each = 2000
	post := func(rt http.RoundTripper) func() {
		ctx, cancel := context.WithCancel(b.Context())
		b.Cleanup(cancel)
		req := benchRequest(b, ctx, http.MethodPost, "http://mcp.test/mcp", "", "")
		return func() {
			for range each {
				resp, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
	bare, guarded := post(canned{}), post(guard(b, canned{}))
	x, y, _ := inTurn(max(b.N, 50), bare, guarded)
	b.ReportMetric((y-x)/each*1e9, "ns-more")
	b.ReportMetric(allocs(guarded, each)-allocs(bare, each), "allocs-more")
	b.ReportMetric(0, "ns/op")
}

func allocs(f func(), each int) float64 { return testing.AllocsPerRun(20, f) / float64(each) }

// BenchmarkPostLoopback: the same over a real transport and a socket.
func BenchmarkPostLoopback(b *testing.B) {
	const each = 200
	srv := benchServer(b, nil)
	post := func(rt http.RoundTripper) func() {
		client := &http.Client{Transport: rt}
		return func() {
			for range each {
				resp, err := client.Do(benchRequest(b, b.Context(), http.MethodPost, srv.URL, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
	base := &http.Transport{}
	b.Cleanup(base.CloseIdleConnections)
	bare, guarded := post(base), post(guard(b, base))
	_, _, ratio := inTurn(max(b.N, 20), bare, guarded)
	b.ReportMetric(ratio, "guarded/bare")
	b.ReportMetric(allocs(guarded, each)-allocs(bare, each), "allocs-more")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkThroughput: a stream that was resumed and released, read as the Go
// SDKs read: line by line through a bufio.Reader.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{256, 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const total = 48 << 20
			event := benchEvent(size)
			chunk := []byte(strings.Repeat(event, max(1, 32<<10/size)))
			srv := benchServer(b, func(w http.ResponseWriter, _ *http.Request) {
				for n := 0; n < total; n += len(chunk) {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})
			base := &http.Transport{}
			b.Cleanup(base.CloseIdleConnections)
			read := func(rt http.RoundTripper) func() {
				return func() {
					resp, err := rt.RoundTrip(benchRequest(b, b.Context(), http.MethodGet, srv.URL, "1000000", ""))
					if err != nil {
						b.Fatal(err)
					}
					defer resp.Body.Close()
					lines := bufio.NewReader(resp.Body)
					n := 0
					for {
						line, err := lines.ReadSlice('\n')
						n += len(line)
						if err == io.EOF {
							break
						}
						if err != nil && err != bufio.ErrBufferFull {
							b.Fatal(err)
						}
					}
					if n < total {
						b.Fatalf("read %d bytes, want at least %d", n, total)
					}
				}
			}
			x, y, ratio := inTurn(max(b.N, 15), read(base), read(guard(b, base)))
			b.ReportMetric(100/ratio, "%-of-bare")
			b.ReportMetric(total/x/1e6, "bare-MB/s")
			b.ReportMetric(total/y/1e6, "guarded-MB/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// benchEvent is a notification as servers send it, with its id, size bytes long.
func benchEvent(size int) string {
	head := "id: 1000001\nevent: message\n" +
		`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"`
	tail := "\"}}\n\n"
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// endless is a stream that costs nothing: what is measured over it is the
// middleware alone.
type endless struct {
	chunk string
	total int
}

func (e endless) RoundTrip(req *http.Request) (*http.Response, error) {
	var parts []io.Reader
	for n := 0; n < e.total; n += len(e.chunk) {
		parts = append(parts, strings.NewReader(e.chunk))
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(io.MultiReader(parts...)), Request: req,
	}, nil
}

// BenchmarkPending: what it costs to look out for the server's requests while
// there are none, over a stream that costs nothing, against PendingOff.
func BenchmarkPending(b *testing.B) {
	for _, size := range []int{256, 4 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const total = 16 << 20
			base := endless{chunk: strings.Repeat(benchEvent(size), max(1, 16<<10/size)), total: total}
			read := func(mode middleware.Pending) func() {
				rt, err := middleware.New(middleware.Config{Base: base, Pending: mode})
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, 4<<10)
				return func() {
					req := benchRequest(b, b.Context(), http.MethodPost, "http://bench.invalid/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
					resp, err := rt.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					defer resp.Body.Close()
					for err == nil {
						_, err = resp.Body.Read(buf)
					}
				}
			}
			x, y, _ := inTurn(max(b.N, 15), read(middleware.PendingOff), read(middleware.PendingReconcile))
			events := float64(total / size)
			b.ReportMetric(1e9*(y-x)/events, "ns-more/event")
			b.ReportMetric(1e9*x/events, "ns-off/event")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReconnect: what a reconnect costs more, in round trips to a server
// that takes 20 ms to answer anything.
func BenchmarkReconnect(b *testing.B) {
	const rtt = 20 * time.Millisecond
	srv := benchServer(b, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: 2\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	base := &http.Transport{MaxIdleConnsPerHost: 8}
	b.Cleanup(base.CloseIdleConnections)
	slow := roundTripper(func(req *http.Request) (*http.Response, error) {
		timer := time.NewTimer(rtt)
		<-timer.C
		return base.RoundTrip(req)
	})
	reconnect := func(rt http.RoundTripper) func() {
		return func() {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			resp, err := rt.RoundTrip(benchRequest(b, ctx, http.MethodGet, srv.URL, "1", ""))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 64)); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	}
	x, y, _ := inTurn(max(b.N, 15), reconnect(slow), reconnect(guard(b, slow)))
	b.ReportMetric((y-x)/x, "round-trips-more")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDeadSession: what reaches the wire of a dead session whose client
// never stops asking.
func BenchmarkDeadSession(b *testing.B) {
	const tries = 1000
	ask := func(guarded bool) float64 {
		wire := 0
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			wire++
			resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: req}
			if req.Method == http.MethodGet {
				resp.StatusCode = http.StatusOK
				resp.Header.Set("Content-Type", "text/event-stream")
				resp.Body = io.NopCloser(strings.NewReader("id: 2\ndata: {}\n\n"))
			}
			return resp, nil
		})
		var rt http.RoundTripper = base
		if guarded {
			rt = guard(b, base)
		}
		for i := range tries {
			method, cursor := http.MethodGet, "1"
			if i%2 == 1 {
				method, cursor = http.MethodPost, ""
			}
			resp, err := rt.RoundTrip(benchRequest(b, b.Context(), method, "http://mcp.test/mcp", cursor, ""))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return float64(wire)
	}
	b.ReportMetric(ask(false), "bare-requests")
	b.ReportMetric(ask(true), "wire-requests")
	b.ReportMetric(0, "ns/op")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// BenchmarkIdleMemory: what an idle stream takes more, first opened and
// resumed. The base is a stream in memory, so that sockets do not count.
func BenchmarkIdleMemory(b *testing.B) {
	for _, cursor := range []string{"", "1"} {
		name := "first"
		if cursor != "" {
			name = "resumed"
		}
		b.Run(name, func(b *testing.B) {
			const streams = 2000
			bare := idle(b, func() http.RoundTripper { return silent{} }, cursor, streams)
			guarded := idle(b, func() http.RoundTripper { return guard(b, silent{}) }, cursor, streams)
			b.ReportMetric((guarded-bare)/streams, "bytes-more")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// silent answers a GET with one event and then nothing, until it is closed,
// and a POST with a result.
type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req}
	if req.Method == http.MethodPost {
		body, _ := io.ReadAll(req.Body)
		_, rest, _ := strings.Cut(string(body), `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		resp.Header.Set("Content-Type", "application/json")
		resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)))
		return resp, nil
	}
	resp.Header.Set("Content-Type", "text/event-stream")
	client, server := net.Pipe()
	go func() { _, _ = io.WriteString(server, "id: 2\ndata: {}\n\n") }()
	resp.Body = client
	return resp, nil
}

// idle opens streams that have said one thing and returns the bytes of heap
// and stacks that they take.
func idle(b *testing.B, rt func() http.RoundTripper, cursor string, streams int) float64 {
	b.Helper()
	before := memory()
	var open sync.WaitGroup
	var opened atomic.Int64
	var bodies []io.Closer
	tr := rt()
	for i := range streams {
		req := benchRequest(b, b.Context(), http.MethodGet, "http://mcp.test/mcp", cursor, "")
		req.Header.Set("Mcp-Session-Id", fmt.Sprintf("session-%d", i))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
		open.Go(func() {
			lines := bufio.NewReader(resp.Body)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if line == "\n" {
					opened.Add(1)
				}
			}
		})
	}
	for opened.Load() < int64(streams) {
		runtime.Gosched()
	}
	after := memory()
	for _, c := range bodies {
		c.Close()
	}
	open.Wait()
	runtime.KeepAlive(tr)
	return after - before
}

func memory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
