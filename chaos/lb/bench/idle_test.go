//go:build linux

package bench_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	idleStreams = 10_000
	// idleLimit is the idle timeout of each. All of them have to be open before
	// the first one is over.
	idleLimit = 20 * time.Second
	// openers is how many streams are being opened at a time: haproxy holds
	// the first event of each back for 200 ms.
	openers = 512
	// ownFiles is how many open files a process has besides its streams.
	ownFiles = 64
)

// BenchmarkIdle: streams that say one thing and are then silent until their idle
// timeout, all open at the same time. A stream takes two files of its load
// balancer: where the limit of a process is too low, a second process has the
// rest of the streams. What is reported of memory is the first one's.
func BenchmarkIdle(b *testing.B) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	// The clients and the upstream have one file for each stream.
	streams := min(idleStreams, int(min(files.Max, 1<<20))-ownFiles)
	capacity := min(streams, (int(min(files.Max, 1<<20))-ownFiles)/2)
	for _, s := range subjects(b) {
		if s.program != "" && s.name != "haproxy-http" {
			continue
		}
		b.Run(s.name, func(b *testing.B) { s.idle(b, streams, capacity) })
	}
}

func (s subject) idle(b *testing.B, streams, capacity int) {
	if capacity < idleStreams {
		b.Logf("THE LIMIT OF OPEN FILES is too low for %d streams through one process: of %d streams %d go through the first",
			idleStreams, streams, capacity)
	}
	upstream := startUpstream(b)
	var balancers []*helper
	for range (streams + capacity - 1) / capacity {
		balancers = append(balancers, s.start(b, upstream, idleLimit))
	}
	first := balancers[0]
	cpu := func() (sum float64) {
		for _, balancer := range balancers {
			sum += balancer.cpu(b)
		}
		return sum
	}
	heap := func() float64 {
		if s.program != "" {
			return 0
		}
		return first.heap(b)
	}
	heapBefore, rssBefore, cpuBefore := heap(), first.rss(b), cpu()

	c := &crowd{}
	c.open(streams, func(i int) string { return balancers[i/capacity].addr })
	// RSS first: what follows makes it smaller.
	rss := (first.rss(b) - rssBefore) / float64(capacity)
	opened := cpu()
	heapAfter := heap()
	atOnce := c.waiting()
	idle := cpu()
	c.cut.Wait()
	end := cpu()

	if len(c.errs) > 0 {
		b.Errorf("%d of %d streams failed, the first: %v", len(c.errs), streams, c.errs[0])
	}
	b.ReportMetric(float64(atOnce), "open-at-once")
	b.ReportMetric(float64(capacity), "in-one-process")
	b.ReportMetric(rss/1024, "rss-KiB")
	if s.program == "" {
		b.ReportMetric((heapAfter-heapBefore)/float64(capacity)/1024, "heap-KiB")
	}
	b.ReportMetric(float64(len(c.lasted)), "cut")
	if len(c.lasted) > 0 {
		limit := idleLimit.Seconds()
		b.ReportMetric(100*(quantile(c.lasted, 0)/limit-1), "first-%")
		b.ReportMetric(100*(quantile(c.lasted, 0.99)/limit-1), "p99-%")
		b.ReportMetric(100*(quantile(c.lasted, 1)/limit-1), "last-%")
	}
	b.ReportMetric(opened-cpuBefore, "open-cpu-s")
	b.ReportMetric(end-idle, "cut-cpu-s")
	b.ReportMetric(0, "ns/op")
}

// crowd is many clients, each of which has a stream.
type crowd struct {
	cut sync.WaitGroup // the streams that have been opened

	mu     sync.Mutex
	errs   []error
	opened int
	lasted []float64 // from the last byte of a stream to its end, in seconds
}

// open opens streams through the load balancer that addr says, and returns when
// all of them are open, or have failed.
func (c *crowd) open(streams int, addr func(i int) string) {
	var opening sync.WaitGroup
	defer opening.Wait()
	next := make(chan int)
	for range openers {
		opening.Go(func() {
			for i := range next {
				conn, r, err := openIdle(addr(i))
				if err != nil {
					c.failed(err)
					continue
				}
				c.mu.Lock()
				c.opened++
				c.mu.Unlock()
				said := time.Now()
				c.cut.Go(func() { c.listen(conn, r, said) })
			}
		})
	}
	for i := range streams {
		next <- i
	}
	close(next)
}

// openIdle opens a stream and reads the one thing that it says.
func openIdle(addr string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(conn, 512)
	res, err := exchange(conn, r, "/idle")
	if err == nil {
		text := make([]byte, len(firstEvent))
		if _, err = io.ReadFull(res.Body, text); err == nil && string(text) != firstEvent {
			err = fmt.Errorf("event is %q, want %q", text, firstEvent)
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, r, nil
}

// listen waits for the end of a stream that has said its one thing.
func (c *crowd) listen(conn net.Conn, r *bufio.Reader, said time.Time) {
	defer conn.Close()
	if r.Buffered() == 2 { // the end of the event's chunk
		r.Discard(2)
	}
	rest, err := io.ReadAll(r)
	lasted := time.Since(said)
	if err != nil || len(rest) > 0 && string(rest) != "\r\n" {
		c.failed(fmt.Errorf("a silent stream ends with %q, %v, want nothing and a FIN", rest, err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lasted = append(c.lasted, lasted.Seconds())
}

func (c *crowd) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// waiting returns how many streams are open.
func (c *crowd) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened - len(c.lasted)
}
