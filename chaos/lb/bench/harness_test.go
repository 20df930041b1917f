//go:build linux

package bench_test

import (
	"testing"
)

// The benchmarks measure what they say: all bytes come through each load
// balancer, and it is its process that works for them.
func TestMeasures(t *testing.T) {
	upstream := startUpstream(t)
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			balancer := s.start(t, upstream, idleTimeout)
			client, buf := newClient(t), make([]byte, 64<<10)
			before := balancer.cpu(t)
			const size = 16 << 20
			if n, err := get(client, "http://"+balancer.addr+"/body?size=16777216", buf); n != size || err != nil {
				t.Fatalf("got %d bytes, %v, want %d", n, err, size)
			}
			if used := balancer.cpu(t) - before; used <= 0 {
				t.Errorf("the processor was in use for %v s, want more", used)
			}
			if memory := balancer.rss(t); memory <= 0 {
				t.Errorf("%v bytes of memory, want more", memory)
			}
		})
	}
}
