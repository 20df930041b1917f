package fault_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

// newNetwork makes a network for one test, which is skipped, saying why, where
// there can be none.
func newNetwork(t *testing.T) *fault.Network {
	t.Helper()
	n, err := fault.NewNetwork()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// pair is a connection from the client's side to the server's.
func pair(t *testing.T, n *fault.Network) (client, server net.Conn) {
	t.Helper()
	listener, err := n.Server().Listen(t.Context(), "tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return dialed(t, n, listener)
}

func dialed(t *testing.T, n *fault.Network, listener net.Listener) (client, server net.Conn) {
	t.Helper()
	client, err := n.Client().DialContext(t.Context(), "tcp", at(n.Server(), listener))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// at is the address of listener for the other side.
func at(side *fault.Side, listener net.Listener) string {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort(side.Addr().String(), port)
}

// await polls until the condition holds: for what the kernel does by itself and
// tells nobody.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-enough.C:
			t.Fatalf("%s: still not so after %v", what, patience)
		}
	}
}

func tracked(t *testing.T, n *fault.Network) int {
	t.Helper()
	count, err := n.Tracked()
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// silence fails the test unless conn stays without bytes and without an end for
// a while: whatever would come has had the time to.
func silence(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	defer conn.SetReadDeadline(time.Time{})
	b := make([]byte, 16)
	if n, err := conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %q, %v, want nothing", b[:n], err)
	}
}

// ended is how conn ends when everything before has been read.
func ended(t *testing.T, conn net.Conn) error {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(patience))
	n, err := conn.Read(make([]byte, 16))
	if err == nil {
		t.Errorf("read %d bytes, want an end", n)
	}
	return err
}

// The silent drop of INFRA.md, as AWS's NLB and NAT gateways do it.
func TestSilentDrop(t *testing.T) {
	for _, test := range []struct {
		kind  fault.Kind
		after time.Duration
	}{
		{fault.SilentDrop, 2 * time.Second},
		{fault.SilentDrop, 0},
		{fault.SilentDropThenReset, 2 * time.Second},
		{fault.SilentDropThenReset, 0},
	} {
		f := fault.Fault{Kind: test.kind, After: test.after}
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			client, server := pair(t, n)
			write(t, client, "subscribe")
			expect(t, server, "subscribe")
			write(t, server, "event 1")
			expect(t, client, "event 1")
			if got := tracked(t, n); got != 1 {
				t.Fatalf("the router knows %d connections, want 1", got)
			}

			undo := apply(t, f, n)
			await(t, "the connection is forgotten", func() bool { return tracked(t, n) == 0 })
			silence(t, client) // no FIN, no RST
			silence(t, server)

			write(t, client, "request") // accepted
			if test.kind == fault.SilentDropThenReset {
				if err := ended(t, client); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the client's connection ended with %v, want %v", err, syscall.ECONNRESET)
				}
				write(t, server, "event 2")
				if err := ended(t, server); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the server's connection ended with %v, want %v", err, syscall.ECONNRESET)
				}
			} else {
				silence(t, client)
				silence(t, server)
			}

			fresh, freshServer := pair(t, n) // new connections are known
			write(t, fresh, "hello")
			expect(t, freshServer, "hello")

			undo()
			if test.kind == fault.SilentDrop {
				expect(t, server, "request") // TCP has sent it again
				write(t, server, "event 2")
				expect(t, client, "event 2")
			}
			write(t, fresh, "hello")
			expect(t, freshServer, "hello")
		})
	}
}

// A keepalive within the limit keeps the connection known.
func TestSilentDropSparesBusyConnections(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	busy, busyServer := pair(t, n)
	idle, _ := pair(t, n)
	apply(t, fault.Fault{Kind: fault.SilentDrop, After: 3 * time.Second}, n)
	pair(t, n) // a new one is forgotten too
	await(t, "the idle ones are forgotten", func() bool {
		write(t, busy, ":")
		expect(t, busyServer, ":")
		return tracked(t, n) == 1
	})
	write(t, idle, "lost")
	write(t, busy, "kept")
	expect(t, busyServer, "kept")
}

func TestPacketLoss(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	client, server := pair(t, n)
	undo := apply(t, fault.Fault{Kind: fault.PacketLoss, Probability: 0.1, Direction: fault.ToClient}, n)
	lost := func() uint64 { return fault.Hits(t, n)[fault.LastTable(n)] }
	for lost() < 3 {
		write(t, server, "event")
		expect(t, client, "event") // TCP sends again what is lost
	}
	undo()
	write(t, server, "event")
	expect(t, client, "event")
}

func TestAllPacketsLost(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	client, server := pair(t, n)
	undo := apply(t, fault.Fault{Kind: fault.PacketLoss, Probability: 1}, n)
	write(t, server, "event")
	write(t, client, "request")
	silence(t, client)
	silence(t, server)
	undo()
	expect(t, client, "event")
	expect(t, server, "request")
}

func TestNetworkPartition(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	listener, err := n.Server().Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, server := dialed(t, n, listener)

	undo := apply(t, fault.Fault{Kind: fault.Partition}, n)
	write(t, server, "event")
	write(t, client, "request")
	silence(t, client)
	silence(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var timeout net.Error
	conn, err := n.Client().DialContext(ctx, "tcp", at(n.Server(), listener))
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("dial = %v, %v, want no answer until the deadline", conn, err)
	}
	undo()
	expect(t, client, "event")
	expect(t, server, "request")
}

func TestNetworkPartitionOfOneDirection(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	client, server := pair(t, n)
	undo := apply(t, fault.Fault{Kind: fault.Partition, Direction: fault.ToClient}, n)
	write(t, client, "request")
	expect(t, server, "request")
	write(t, server, "event")
	silence(t, client)
	undo()
	expect(t, client, "event")
}

func TestNetworkReset(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	listener, err := n.Server().Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, server := dialed(t, n, listener)
	undo := apply(t, fault.Fault{Kind: fault.Reset}, n)
	silence(t, client) // a packet has to cross
	write(t, client, "request")
	if err := ended(t, client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client's connection ended with %v, want %v", err, syscall.ECONNRESET)
	}
	silence(t, server)
	conn, err := n.Client().DialContext(t.Context(), "tcp", at(n.Server(), listener))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial = %v, %v, want %v", conn, err, syscall.ECONNREFUSED)
	}
	undo()
	client, server = dialed(t, n, listener)
	write(t, client, "request")
	expect(t, server, "request")
}

func TestNetworkRefuses(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	apply(t, fault.Fault{Kind: fault.SilentDrop, After: time.Minute}, n)
	for _, test := range []struct {
		fault fault.Fault
		want  string
	}{
		{fault.Fault{Kind: fault.FIN}, "want a Link"},
		{fault.Fault{Kind: fault.Partition, Conn: 1}, "conn and limit want a Link"},
		{fault.Fault{Kind: fault.SilentDropThenReset}, "silent_drop_then_reset is in force"},
	} {
		_, err := test.fault.Apply(t.Context(), n)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Apply(%v) = %v, want %q", test.fault, err, test.want)
		}
	}
}

// An undo leaves the router as it was: the tables, and the settings.
func TestUndoLeavesNothing(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	before := fault.RouterState(t, n)
	for _, f := range []fault.Fault{
		{Kind: fault.SilentDrop},
		{Kind: fault.SilentDropThenReset, After: time.Second},
		{Kind: fault.PacketLoss, Probability: 0.5},
		{Kind: fault.Partition},
		{Kind: fault.Reset},
	} {
		undo := apply(t, f, n)
		if got := fault.RouterState(t, n); got == before {
			t.Errorf("%v in force: the router is as before", f)
		}
		undo()
		if got := fault.RouterState(t, n); got != before {
			t.Errorf("after %v: the router is\n%s\nwant\n%s", f, got, before)
		}
	}
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	newNetwork(t) // skips
	if err := fault.Available(); err != nil {
		t.Errorf("Available() = %v, want nil where a Network can be made", err)
	}
}

func TestClosedNetwork(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	client, server := pair(t, n)
	apply(t, fault.Fault{Kind: fault.Partition}, n) // its undo comes after Close
	for range 2 {
		if err := n.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	if _, err := n.Client().Listen(t.Context(), "tcp", ":0"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Listen() = %v, want %v", err, net.ErrClosed)
	}
	if _, err := (fault.Fault{Kind: fault.Partition}).Apply(t.Context(), n); err == nil {
		t.Error("Apply() = nil, want an error")
	}
	client.Close()
	server.Close()
}
