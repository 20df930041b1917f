package fault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

func init() {
	children["network"] = holdNetwork
	children["link"] = holdLink
	children["stack"] = holdStack
}

// holdNetwork is a process with a network, two faults, a listener and a
// connection. It says which namespaces the sides are and waits.
func holdNetwork() {
	die := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	n, err := fault.NewNetwork()
	die(err)
	listener, err := n.Server().Listen(context.Background(), "tcp4", ":0")
	die(err)
	conn, err := n.Client().DialContext(context.Background(), "tcp", at(n.Server(), listener))
	die(err)
	_, err = fault.Fault{Kind: fault.SilentDrop, After: time.Second}.Apply(context.Background(), n)
	die(err)
	_, err = fault.Fault{Kind: fault.PacketLoss, Probability: 0.5}.Apply(context.Background(), n)
	die(err)
	for _, side := range []*fault.Side{n.Client(), n.Server()} {
		die(side.Do(func() error {
			name, err := os.Readlink("/proc/thread-self/ns/net")
			fmt.Println("namespace", name)
			return err
		}))
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	conn.Close()
}

// holdLink is a process with a link that has a fault in force.
func holdLink() {
	link, err := fault.NewLink(fault.LinkConfig{Upstream: "127.0.0.1:1"})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go link.Run(context.Background())
	fault.Fault{Kind: fault.Blackhole}.Apply(context.Background(), link)
	fmt.Println("port", link.Addr())
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// holdStack is a process with a fault in force that ends on a signal.
func holdStack() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	faults := fault.NewStack(ctx)
	defer faults.Close()
	target := &recorder{undo: func(f fault.Fault) error {
		fmt.Println("undone", f)
		return nil
	}}
	if _, err := faults.Apply(ctx, fault.Fault{Kind: fault.FIN}, target); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	<-ctx.Done()
}

// startChild runs this test binary as one of the children, and returns what it
// says of itself before it is ready. kill kills it by SIGKILL, and waits.
func startChild(t *testing.T, name string) (said []string, kill func()) {
	t.Helper()
	said, kill, _ = startChildToSignal(t, name)
	return said, kill
}

// startChildToSignal is startChild, and end sends the child a signal, waits, and
// returns what it says until it has ended.
func startChildToSignal(t *testing.T, name string) (said []string, kill func(), end func(os.Signal) []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(stdout)
	end = func(s os.Signal) (said []string) {
		cmd.Process.Signal(s)
		for lines.Scan() {
			said = append(said, lines.Text())
		}
		return said
	}
	for lines.Scan() {
		if lines.Text() == "ready" {
			return said, kill, end
		}
		said = append(said, lines.Text())
	}
	t.Fatalf("the child ended, having said %q", said)
	return nil, nil, nil
}

// hostNetwork is what the process's own network has: interfaces, addresses and
// routes, and the names of namespaces.
func hostNetwork(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range []string{"/proc/net/dev", "/proc/net/fib_trie", "/proc/net/route"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if name == "/proc/net/dev" { // the rest is counters
				line, _, _ = strings.Cut(line, ":")
			}
			all = append(all, strings.TrimSpace(line))
		}
	}
	names, _ := filepath.Glob("/run/netns/*")
	return strings.Join(append(all, names...), "\n")
}

// inUse reports whether any thread of any process is in the namespace.
func inUse(namespace string) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	held, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	return slices.ContainsFunc(slices.Concat(links, held), func(link string) bool {
		name, err := os.Readlink(link)
		return err == nil && name == namespace
	})
}

// kill -9 in the middle of a fault leaves nothing: the child has no chance to
// undo anything.
func TestKilledProcessLeavesNoNetwork(t *testing.T) {
	newNetwork(t) // skips
	before := hostNetwork(t)
	said, kill := startChild(t, "network")
	if len(said) != 2 {
		t.Fatalf("the child said %q, want two namespaces", said)
	}
	if got := hostNetwork(t); got != before {
		t.Errorf("with a network the host's is\n%s\nwant\n%s", got, before)
	}
	for _, line := range said {
		namespace := strings.TrimPrefix(line, "namespace ")
		if !inUse(namespace) {
			t.Errorf("%s is not in use while the child runs", namespace)
		}
	}
	kill()
	for _, line := range said {
		namespace := strings.TrimPrefix(line, "namespace ")
		if inUse(namespace) {
			t.Errorf("%s is in use after the child was killed", namespace)
		}
	}
	if got := hostNetwork(t); got != before {
		t.Errorf("afterwards the host's network is\n%s\nwant\n%s", got, before)
	}
}

func TestKilledProcessLeavesNoPort(t *testing.T) {
	said, kill := startChild(t, "link")
	if len(said) != 1 {
		t.Fatalf("the child said %q, want a port", said)
	}
	addr := strings.TrimPrefix(said[0], "port ")
	if _, err := fault.NewLink(fault.LinkConfig{Addr: addr, Upstream: "h:1"}); err == nil {
		t.Fatalf("%s is free while the child runs", addr)
	}
	kill()
	link, err := fault.NewLink(fault.LinkConfig{Addr: addr, Upstream: "h:1"})
	if err != nil {
		t.Fatalf("%s after the child was killed: %v", addr, err)
	}
	link.Close()
}

func TestASignalUndoesAll(t *testing.T) {
	_, _, end := startChildToSignal(t, "stack")
	if got := end(syscall.SIGTERM); len(got) != 1 || got[0] != "undone fin" {
		t.Errorf("after SIGTERM the child said %q, want that the fault is undone", got)
	}
}

// Without the right, Available says what is missing, on one line.
func TestUnavailable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can give up a right")
	}
	var err error
	dropped := withoutCapabilities(t, func() { err = fault.Available() })
	if !dropped {
		return
	}
	want := "fault: network faults need CAP_NET_ADMIN and CAP_SYS_ADMIN, run as root: unsupported operation"
	if err == nil || err.Error() != want || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Available() = %v, want %q", err, want)
	}
}
