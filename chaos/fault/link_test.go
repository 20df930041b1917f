package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// memory is a link between a client and a server in memory, for one bubble.
type memory struct {
	*fault.Link
	front, back *memnettest.Listener
	began       time.Time
	seen        chan fault.LinkEvent
	stop        func() // and waits
}

func newMemory(t *testing.T, cfg fault.LinkConfig) *memory {
	t.Helper()
	m := &memory{
		front: memnettest.New(), back: memnettest.New(),
		began: time.Now(), seen: make(chan fault.LinkEvent, 1024),
	}
	cfg.Listener = m.front
	if cfg.Dial == nil {
		cfg.Dial = m.back.DialContext
	}
	observe := cfg.Observe
	cfg.Observe = func(e fault.LinkEvent) {
		m.seen <- e
		if observe != nil {
			observe(e)
		}
	}
	m.Link, m.stop = startLink(t, cfg)
	return m
}

// startLink runs a link until stop is called, which waits for it.
func startLink(t *testing.T, cfg fault.LinkConfig) (link *fault.Link, stop func()) {
	t.Helper()
	link, err := fault.NewLink(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- link.Run(ctx) }()
	return link, func() {
		t.Helper()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}
}

// dial connects a client that the link has not let through yet.
func (m *memory) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := m.front.DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// connect opens a connection through the link.
func (m *memory) connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client = m.dial(t)
	server, err := m.back.Accept()
	if err != nil {
		t.Fatal(err)
	}
	m.wait(t, fault.Opened)
	return client, server
}

// wait returns the next event, which must be of this kind.
func (m *memory) wait(t *testing.T, kind fault.LinkEventKind) fault.LinkEvent {
	t.Helper()
	e := <-m.seen
	if e.Kind != kind {
		t.Fatalf("event is %v %+v, want %v", e.Kind, e, kind)
	}
	return e
}

// at checks that it is exactly d since the link was made.
func (m *memory) at(t *testing.T, what string, d time.Duration) {
	t.Helper()
	if got := time.Since(m.began); got != d {
		t.Errorf("%s after %v, want %v", what, got, d)
	}
}

// quiet checks that conn has neither bytes nor an end when everything has come
// to rest.
func quiet(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer conn.SetReadDeadline(time.Time{})
	b := make([]byte, 16)
	var timeout net.Error
	if n, err := conn.Read(b); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("read %q, %v, want nothing", b[:n], err)
	}
}

// end checks that conn has nothing more than an end in order.
func end(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("read %q, %v, want the end", got, err)
	}
}

func TestLinkPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		write(t, client, "request")
		expect(t, server, "request")
		write(t, server, "response")
		expect(t, client, "response")
		server.Close()
		end(t, client)
		if e := m.wait(t, fault.Closed); e.Conn != 1 || e.ToClient != 8 || e.ToServer != 7 || e.Err != nil {
			t.Errorf("event is %+v, want connection 1, 8 and 7 bytes, no error", e)
		}
		m.at(t, "all is done", 0)
	})
}

func TestCutsOpenAndNewConnections(t *testing.T) {
	for _, kind := range []fault.Kind{fault.FIN, fault.RST} { // in memory they look alike
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, fault.LinkConfig{})
			defer m.stop()
			client, server := m.connect(t)
			undo := apply(t, fault.Fault{Kind: kind}, m)
			end(t, client)
			end(t, server)
			if e := m.wait(t, fault.Cut); e.Fault.Kind != kind || e.Conn != 1 {
				t.Errorf("event is %+v, want %v of connection 1", e, kind)
			}
			m.wait(t, fault.Closed)

			end(t, m.dial(t)) // the server is not told
			m.wait(t, fault.Cut)
			m.wait(t, fault.Closed)

			undo()
			client, server = m.connect(t)
			write(t, server, "event")
			expect(t, client, "event")
		})
	}
}

// A cut that one side is to see leaves the other side open.
func TestCutOfOneSide(t *testing.T) {
	for _, direction := range []fault.Direction{fault.ToClient, fault.ToServer} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, fault.LinkConfig{})
			defer m.stop()
			sides := func(client, server net.Conn) (cut, open net.Conn) {
				if direction == fault.ToServer {
					return server, client
				}
				return client, server
			}
			cut, open := sides(m.connect(t))
			undo := apply(t, fault.Fault{Kind: fault.FIN, Direction: direction}, m)
			end(t, cut)
			write(t, open, strings.Repeat("swallowed", 1<<20))
			quiet(t, open)
			m.wait(t, fault.Cut)
			open.Close()
			m.wait(t, fault.Closed)
			undo()

			if direction == fault.ToServer { // a new connection gets through to be cut
				apply(t, fault.Fault{Kind: fault.FIN, Direction: direction}, m)
				cut, open := sides(m.connect(t))
				end(t, cut)
				quiet(t, open)
			}
		})
	}
}

func TestConnAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		var clients []net.Conn
		for range 3 {
			client, _ := m.connect(t)
			clients = append(clients, client)
		}
		apply(t, fault.Fault{Kind: fault.RST, Conn: 2}, m)
		end(t, clients[1])
		quiet(t, clients[0])
		quiet(t, clients[2])
		m.wait(t, fault.Cut)
		m.wait(t, fault.Closed)

		// One that has been cut and is still there does not count.
		lingering, _ := m.connect(t)
		apply(t, fault.Fault{Kind: fault.FIN, Conn: 4, Direction: fault.ToServer}, m)
		m.wait(t, fault.Cut)
		defer lingering.Close()

		apply(t, fault.Fault{Kind: fault.RST, Limit: 3}, m)
		end(t, clients[0])
		end(t, clients[2])
		for range 4 {
			<-m.seen
		}
		end(t, m.dial(t)) // the third
		m.wait(t, fault.Cut)
		m.wait(t, fault.Closed)
		client, _ := m.connect(t)
		quiet(t, client)
		if got := fmt.Sprint(m.Conns()); got != "[4 6]" {
			t.Errorf("Conns() = %v, want [4 6]", got)
		}
	})
}

// The hook may apply faults, also to the connection that it is told of.
func TestObserveApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *memory
		m = newMemory(t, fault.LinkConfig{Observe: func(e fault.LinkEvent) {
			if e.Kind == fault.Opened && e.Conn == 2 {
				apply(t, fault.Fault{Kind: fault.RST}, m)
			}
		}})
		defer m.stop()
		first, _ := m.connect(t)
		second, _ := m.connect(t)
		end(t, first)
		end(t, second)
	})
}

func TestBlackhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		spared, sparedServer := m.connect(t)
		undo := apply(t, fault.Fault{Kind: fault.Blackhole}, m)
		write(t, client, strings.Repeat("swallowed", 1<<20)) // more than any buffer
		quiet(t, server)
		sparedServer.Close() // an end is swallowed too
		quiet(t, spared)

		undo()
		end(t, spared) // nothing was lost before it
		m.wait(t, fault.Closed)
		write(t, client, "more") // a stream has no hole
		quiet(t, server)
		write(t, server, "event") // and the other direction none
		expect(t, client, "event")
		client.Close()
		server.Close()
		if e := m.wait(t, fault.Closed); e.ToServer != 0 || e.ToClient != 5 {
			t.Errorf("event is %+v, want 5 bytes to the client and none to the server", e)
		}
	})
}

func TestBlackholeOfOneDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		apply(t, fault.Fault{Kind: fault.Blackhole, Direction: fault.ToClient}, m)
		client, server := m.connect(t)
		write(t, client, "request")
		expect(t, server, "request")
		write(t, server, "event")
		quiet(t, client)
	})
}

func TestLinkPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *memory
		dials := 0
		m = newMemory(t, fault.LinkConfig{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials++
			return m.back.DialContext(ctx, network, addr)
		}})
		defer m.stop()
		client, server := m.connect(t)
		undo := apply(t, fault.Fault{Kind: fault.Partition}, m)
		write(t, client, "request")
		write(t, server, "event")
		quiet(t, client)
		quiet(t, server)
		fresh := m.dial(t)
		quiet(t, fresh)
		if dials != 1 {
			t.Errorf("the server was dialled %d times during the partition, want 0", dials-1)
		}
		undo()
		expect(t, server, "request")
		expect(t, client, "event")
		freshServer, err := m.back.Accept()
		if err != nil {
			t.Fatal(err)
		}
		write(t, fresh, "hello")
		expect(t, freshServer, "hello")
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		undo := apply(t, fault.Fault{Kind: fault.Latency, Delay: time.Second, Direction: fault.ToClient}, m)
		write(t, client, "request")
		expect(t, server, "request")
		m.at(t, "the request arrives", 0)
		write(t, server, "one")
		time.Sleep(300 * time.Millisecond)
		write(t, server, "two")
		expect(t, client, "one")
		m.at(t, "the first arrives", time.Second)
		expect(t, client, "two")
		m.at(t, "the second arrives", 1300*time.Millisecond) // not one delay after the first
		server.Close()
		end(t, client)
		m.at(t, "the end arrives", 2300*time.Millisecond)

		client, server = m.connect2(t)
		write(t, server, "three")
		undo()
		expect(t, client, "three")
		m.at(t, "what was under way arrives", 2300*time.Millisecond)
	})
}

// connect2 is connect after a connection that has ended.
func (m *memory) connect2(t *testing.T) (client, server net.Conn) {
	t.Helper()
	m.wait(t, fault.Closed)
	return m.connect(t)
}

// Jitter is within its bounds, differs from piece to piece, and is the same
// whenever the seed is, whatever other connections do.
func TestJitterIsSeeded(t *testing.T) {
	arrivals := func(seed uint64, busy bool) (times []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, fault.LinkConfig{Seed: seed})
			defer m.stop()
			apply(t, fault.Fault{Kind: fault.Latency, Delay: time.Second, Jitter: 500 * time.Millisecond}, m)
			client, server := m.connect(t)
			other, otherServer := m.connect(t)
			for range 20 {
				if busy {
					write(t, otherServer, "x")
					expect(t, other, "x")
				}
				sent := time.Now()
				write(t, server, "x")
				expect(t, client, "x")
				times = append(times, time.Since(sent))
			}
		})
		return times
	}
	first := arrivals(1, false)
	distinct := make(map[time.Duration]bool)
	for _, d := range first {
		distinct[d] = true
		if d < 500*time.Millisecond || d > 1500*time.Millisecond {
			t.Errorf("a delay is %v, want 1s ± 500ms", d)
		}
	}
	if len(distinct) < 15 {
		t.Errorf("%d of 20 delays differ", len(distinct))
	}
	if again := arrivals(1, true); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("with the same seed the delays are\n%v and\n%v", first, again)
	}
	if other := arrivals(2, false); fmt.Sprint(other) == fmt.Sprint(first) {
		t.Error("with another seed the delays are the same")
	}
}

func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		undo := apply(t, fault.Fault{Kind: fault.Bandwidth, BytesPerSecond: 1000, Direction: fault.ToClient}, m)
		apply(t, fault.Fault{Kind: fault.Bandwidth, BytesPerSecond: 1 << 20}, m) // the lowest counts
		write(t, server, strings.Repeat("x", 2500))
		expect(t, client, strings.Repeat("x", 500))
		m.at(t, "the first part arrives", 500*time.Millisecond)
		expect(t, client, strings.Repeat("x", 2000))
		m.at(t, "all arrives", 2500*time.Millisecond)
		time.Sleep(time.Hour) // an idle hour saves nothing up
		write(t, server, strings.Repeat("x", 1000))
		expect(t, client, strings.Repeat("x", 1000))
		m.at(t, "the next arrives", time.Hour+3500*time.Millisecond)
		write(t, client, "request")
		expect(t, server, "request")
		undo()
		began := time.Now()
		write(t, server, strings.Repeat("x", 10000))
		expect(t, client, strings.Repeat("x", 10000))
		if d := time.Since(began); d >= time.Second {
			t.Errorf("10,000 bytes take %v after the undo", d)
		}
	})
}

func TestCutAfter(t *testing.T) {
	for _, how := range []fault.How{fault.HowFIN, fault.HowRST, fault.HowBlackhole} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, fault.LinkConfig{})
			defer m.stop()
			client, server := m.connect(t)
			write(t, server, "before")
			expect(t, client, "before")
			apply(t, fault.Fault{Kind: fault.CutAfter, Bytes: 7, How: how}, m)
			write(t, client, "does not count")
			expect(t, server, "does not count")
			write(t, server, "1234")
			expect(t, client, "1234")
			write(t, server, "5678")
			expect(t, client, "567")
			if how == fault.HowBlackhole {
				quiet(t, client)
				quiet(t, server)
			} else {
				end(t, client)
				end(t, server)
			}
			if e := m.wait(t, fault.Cut); e.ToClient != 13 || e.Fault.How != how {
				t.Errorf("event is %+v, want 13 bytes to the client", e)
			}
		})
	}
}

func TestCutAfterNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		apply(t, fault.Fault{Kind: fault.CutAfter}, m)
		end(t, client)
		end(t, server)
	})
}

// A new connection counts for itself; one direction does not count for the other.
func TestCutAfterOfNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		apply(t, fault.Fault{Kind: fault.CutAfter, Bytes: 3, Direction: fault.ToServer}, m)
		for range 2 {
			client, server := m.connect(t)
			write(t, server, "1234")
			expect(t, client, "1234")
			write(t, client, "1234")
			expect(t, server, "123")
			end(t, client)
			end(t, server)
			m.wait(t, fault.Cut)
			m.wait(t, fault.Closed)
		}
	})
}

// A client that does not read holds up the server.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		fill := func(piece string) (accepted int) {
			server.SetWriteDeadline(time.Now().Add(time.Second))
			for {
				n, err := io.WriteString(server, piece)
				accepted += n
				if err != nil {
					return accepted
				}
			}
		}
		// A piece is in the writer's hands, and one in the reader's.
		accepted := fill(strings.Repeat("x", 8<<10))
		if want := 256<<10 + 2*16<<10; accepted < 256<<10 || accepted > want {
			t.Errorf("the server got rid of %d bytes, want from %d to %d", accepted, 256<<10, want)
		}
		expect(t, client, strings.Repeat("x", accepted))
		if accepted := fill("x"); accepted > 5000 {
			t.Errorf("the server got rid of %d pieces of a byte, want no more than 5000", accepted)
		}
	})
}

func TestRunEndsWithConnectionsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		plain, _ := m.connect(t)
		holed, _ := m.connect(t)
		apply(t, fault.Fault{Kind: fault.Blackhole, Conn: 2}, m)
		write(t, holed, "swallowed")
		stuck, _ := m.connect(t)
		apply(t, fault.Fault{Kind: fault.FIN, Conn: 3, Direction: fault.ToServer}, m)
		m.wait(t, fault.Cut)
		apply(t, fault.Fault{Kind: fault.Partition, Conn: 4}, m)
		waiting := m.dial(t)
		synctest.Wait()
		m.stop()
		for _, client := range []net.Conn{plain, holed, stuck, waiting} {
			end(t, client)
		}
		for range 4 {
			m.wait(t, fault.Closed)
		}
		if got := m.Conns(); len(got) > 0 {
			t.Errorf("Conns() = %v after Run", got)
		}
	})
}

func TestRunReportsABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, back := memnettest.New(), memnettest.New()
		link, err := fault.NewLink(fault.LinkConfig{Listener: front, Dial: back.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error, 1)
		go func() { ran <- link.Run(context.Background()) }()
		client, err := front.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := back.Accept(); err != nil {
			t.Fatal(err)
		}
		front.Close()
		if err := <-ran; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Run() = %v, want %v", err, net.ErrClosed)
		}
		end(t, client)
	})
}

// A connection that cannot be made on is not left open.
func TestUpstreamRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		m := newMemory(t, fault.LinkConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, refused
		}})
		defer m.stop()
		end(t, m.dial(t))
		if e := m.wait(t, fault.Closed); !errors.Is(e.Err, refused) {
			t.Errorf("event is %+v, want %v", e, refused)
		}
	})
}

// A dial under way ends when the connection is cut.
func TestCutEndsTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer m.stop()
		client := m.dial(t)
		quiet(t, client)
		apply(t, fault.Fault{Kind: fault.RST}, m)
		end(t, client)
		m.wait(t, fault.Cut)
		m.wait(t, fault.Closed)
	})
}

func TestLinkRefuses(t *testing.T) {
	link, err := fault.NewLink(fault.LinkConfig{Listener: memnettest.New(), Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = fault.Fault{Kind: fault.PacketLoss, Probability: 1}.Apply(t.Context(), link)
	if err == nil || !strings.Contains(err.Error(), "want a Network") {
		t.Errorf("Apply() = %v, want a Network", err)
	}
	for range 2 {
		if err := link.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if err := link.Run(t.Context()); err == nil {
		t.Error("Run() after Close = nil, want an error")
	}
}

func TestLinkConfigReportsAllFaults(t *testing.T) {
	_, err := fault.NewLink(fault.LinkConfig{Addr: "nowhere", Upstream: ":80"})
	if err == nil || !strings.Contains(err.Error(), `Addr is "nowhere"`) || !strings.Contains(err.Error(), `Upstream is ":80"`) {
		t.Errorf("NewLink() = %v, want both faults", err)
	}
}
