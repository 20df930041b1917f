package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netns"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"github.com/revenant-mcp/revenant/chaos/journal"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// patience is how long to wait for what has to come, on a machine that is busy.
const patience = 60 * time.Second

// crashing is a definition that takes long enough to be killed in the middle. Its
// method begins with what must be in force then.
const crashing = `name: crash
title: A run that is killed
description: It is killed in the middle, and nothing of it may be left.
length: 10m
topology:
%s
clients: {naive: {}, gosdk: {}}
method:
  - at: 0s
%s
  - at: 9m
    emit: {}
hypothesis:
  protected: {sessions_begun: ">= 1"}
teeth: {none: It is there to be killed.}
`

// A process that is killed leaves nothing: no program, no file, no port, no
// network and no rule. It has no chance to undo anything.
func TestNothingOutlivesAKilledRun(t *testing.T) {
	for _, test := range []struct {
		name       string
		missing    error // what this machine lacks
		topology   string
		first      string // step
		program    string // that has to run, "" for none
		namespaces bool
	}{
		{"haproxy", lb.Available(lb.HAProxy), "  load_balancer: {engine: haproxy, idle_timeout: 5m}", "    emit: {}", "haproxy", false},
		{"nginx", lb.Available(lb.NGINX), "  load_balancer: {engine: nginx, idle_timeout: 5m}", "    emit: {}", "nginx", false},
		{"links", nil, "  load_balancer: {idle_timeout: 5m}\n  links: [front, back]",
			"    fault: {target: front, kind: blackhole}", "", false},
		{"namespaces", fault.Available(), "  network: namespaces\n  load_balancer: {idle_timeout: 5m}",
			"    fault: {target: network, kind: packet_loss, probability: 0.5}", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.missing != nil {
				t.Skipf("SKIPPED, NOT TESTED: %v", test.missing)
			}
			killInTheMiddle(t, fmt.Sprintf(crashing, test.topology, test.first), test.program, test.namespaces)
		})
	}
}

func killInTheMiddle(t *testing.T, definition, program string, namespaces bool) {
	rulesBefore := hostRules(t)
	r := startRun(t, definition, program, namespaces)
	r.signal(t, os.Kill)
	eventually(t, "no process of it is left", func() bool { return len(processesOf(r.tmp)) == 0 })
	eventually(t, "no file of it is left", func() bool { return len(filesIn(t, r.tmp)) == 0 })
	for _, addr := range r.up.listening {
		eventually(t, addr+" is free", func() bool {
			l, err := net.Listen("tcp", addr)
			if err == nil {
				l.Close()
			}
			return err == nil
		})
	}
	eventually(t, "no network namespace of it is in use", func() bool {
		return !slices.ContainsFunc(r.up.namespaces, func(ns string) bool { return slices.Contains(namespacesInUse(), ns) })
	})
	if rules := hostRules(t); rules != rulesBefore {
		t.Errorf("afterwards the machine's own rules are %q, want %q", rules, rulesBefore)
	}
	if t.Failed() {
		t.Logf("left: processes %v, files %v", processesOf(r.tmp), filesIn(t, r.tmp))
	}
}

// An interrupted run takes everything away before it ends, and writes its report.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	if err := lb.Available(lb.HAProxy); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	report := filepath.Join(t.TempDir(), "report")
	r := startRun(t, fmt.Sprintf(crashing, "  load_balancer: {engine: haproxy, idle_timeout: 5m}", "    emit: {}"),
		"haproxy", false, "--report", report, "--repeat", "2")
	status := r.signal(t, os.Interrupt)
	if left := processesOf(r.tmp); len(left) > 0 {
		t.Errorf("processes %v are left when it has ended", left)
	}
	if left := filesIn(t, r.tmp); len(left) > 0 {
		t.Errorf("files %v are left when it has ended", left)
	}
	out := r.output.String()
	if status != exitAborted || !strings.Contains(out, "revenant: interrupted, and everything is undone; aborted: crash\n") ||
		!strings.Contains(out, "interrupted before 1 of 2 runs\n") {
		t.Errorf("exit status %d, want %d, and said\n%s", status, exitAborted, out)
	}
	j, err := journal.Read(filepath.Join(report, "crash", journal.FileJSON))
	if err != nil {
		t.Fatal(err)
	}
	if j.Status != journal.Interrupted || j.Verdict != journal.AbortedVerdict || len(j.Arms) == 0 {
		t.Errorf("the journal has status %s, verdict %s and %d arms, want %s, %s and what was seen until then",
			j.Status, j.Verdict, len(j.Arms), journal.Interrupted, journal.AbortedVerdict)
	}
}

// underWay is the program in the middle of a run.
type underWay struct {
	cmd    *exec.Cmd
	ended  chan error // of one, which is put back
	output *bytes.Buffer
	tmp    string   // for the temporary files of the run and of nobody else
	up     snapshot // when it had everything up
}

// startRun starts the program, and waits until the run is in the middle.
func startRun(t *testing.T, definition, program string, namespaces bool, flags ...string) *underWay {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crash.yaml")
	if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &underWay{ended: make(chan error, 1), output: new(bytes.Buffer), tmp: t.TempDir()}
	r.cmd = exec.Command("revenant", append([]string{"run", file}, flags...)...) // TestMain has put it into PATH
	// All that the run starts has this in its environment, or is in a folder below.
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() { r.signal(t, os.Kill) })

	// Four cells: two kinds of clients in two arms.
	const cells = 4
	eventually(t, "the run is under way", func() bool {
		select {
		case err := <-r.ended:
			r.ended <- err
			t.Fatalf("revenant run ended in the beginning: %v\n%s", err, r.output.String())
		default:
		}
		r.up = lookAt(t, r.tmp, r.cmd.Process.Pid)
		if program != "" && (r.up.count(program) < cells || len(r.up.files) < cells) {
			return false
		}
		if namespaces {
			// Three for each, and in a router of each the rule of the fault.
			return len(r.up.namespaces) >= 3*cells && r.up.tables >= cells
		}
		// The clients of all cells have their streams.
		return len(r.up.listening) >= 2*cells && r.up.connected >= 2*cells
	})
	if t.Failed() {
		t.Fatalf("it is %+v", r.up)
	}
	t.Logf("in the middle: %d processes, ports %v, namespaces %v, rules in %d of them, files %v",
		len(r.up.processes), r.up.listening, r.up.namespaces, r.up.tables, r.up.files)
	return r
}

// signal sends a signal, and waits for the end of the program, whose exit status it
// returns.
func (r *underWay) signal(t *testing.T, s os.Signal) int {
	t.Helper()
	r.cmd.Process.Signal(s)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case err := <-r.ended:
		r.ended <- err
	case <-late.C:
		r.cmd.Process.Kill()
		r.ended <- <-r.ended
		t.Errorf("the program had not ended %v after signal %v", patience, s)
	}
	return r.cmd.ProcessState.ExitCode()
}

// snapshot is what there is of a run.
type snapshot struct {
	processes  []process
	listening  []string // addresses, of this machine's own network
	connected  int      // ends of connections
	namespaces []string // of networks that are not the machine's
	tables     int      // of rules in those
	files      []string
}

func (s snapshot) count(program string) (n int) {
	for _, p := range s.processes {
		if p.name == program {
			n++
		}
	}
	return n
}

type process struct {
	pid  int
	name string
}

// processesOf returns all processes whose temporary files are in a folder, whoever
// is their parent: they have it in their environment, or, as nginx, which writes
// over its own, are in a folder below it.
func processesOf(tmp string) (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if !bytes.Contains(environ, []byte("TMPDIR="+tmp+"\x00")) && !strings.HasPrefix(cwd, tmp+"/") {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		all = append(all, process{pid, strings.TrimSpace(string(name))})
	}
	return all
}

// lookAt looks at the run of a process and of what that has started.
func lookAt(t *testing.T, tmp string, owner int) snapshot {
	t.Helper()
	s := snapshot{processes: processesOf(tmp), files: filesIn(t, tmp)}
	sockets := make(map[string]bool) // inodes
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.processes {
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		for _, link := range links {
			name, _ := os.Readlink(link)
			switch {
			case strings.HasPrefix(name, "socket:["):
				sockets[strings.Trim(strings.TrimPrefix(name, "socket:"), "[]")] = true
			case strings.HasPrefix(name, "net:[") && name != own && !slices.Contains(s.namespaces, name):
				s.namespaces = append(s.namespaces, name)
				s.tables += tablesIn(link)
			}
		}
	}
	s.listening, s.connected = tcpOf(owner, sockets)
	return s
}

// tcpOf returns what a process's network has of some sockets: the addresses that
// are listened on, and how many are ends of connections.
func tcpOf(pid int, sockets map[string]bool) (listening []string, connected int) {
	const stateEstablished, stateListen = "01", "0A"
	table, err := os.Open(fmt.Sprintf("/proc/%d/net/tcp", pid))
	if err != nil {
		return nil, 0
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || !sockets[fields[9]] {
			continue
		}
		switch fields[3] {
		case stateListen:
			listening = append(listening, addrOf(fields[1]))
		case stateEstablished:
			connected++
		}
	}
	return listening, connected
}

// addrOf reads an address as /proc has it: "0100007F:1F90".
func addrOf(text string) string {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b) != 4 {
		return text
	}
	slices.Reverse(b) // It is in the order of a little-endian machine.
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr, uint16(n)).String()
}

// tablesIn counts the tables of rules in a network namespace, which a link in
// /proc names.
func tablesIn(link string) int {
	ns, err := netns.GetFromPath(link)
	if err != nil {
		return 0
	}
	defer ns.Close()
	conn, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	if err != nil {
		return 0
	}
	tables, _ := conn.ListTables()
	return len(tables)
}

// hostRules is the tables and chains of nftables on this machine.
func hostRules(t *testing.T) string {
	t.Helper()
	conn, err := nftables.New()
	if err != nil {
		t.Logf("SKIPPED, NOT TESTED: that no rule is left on the machine: %v", err)
		return ""
	}
	chains, err := conn.ListChains()
	if err != nil {
		t.Logf("SKIPPED, NOT TESTED: that no rule is left on the machine: %v", err)
		return ""
	}
	tables, err := conn.ListTables()
	if err != nil {
		t.Logf("SKIPPED, NOT TESTED: that no rule is left on the machine: %v", err)
		return ""
	}
	var names []string
	for _, table := range tables {
		names = append(names, table.Name)
	}
	for _, c := range chains {
		names = append(names, c.Table.Name+"/"+c.Name)
	}
	return strings.Join(names, " ")
}

// namespacesInUse are the network namespaces that a thread is in, or that a
// process has a file of.
func namespacesInUse() (all []string) {
	in, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	held, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range slices.Concat(in, held) {
		if name, err := os.Readlink(link); err == nil && strings.HasPrefix(name, "net:[") {
			all = append(all, name)
		}
	}
	return all
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// eventually waits for what nothing tells.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Errorf("not in time: %s", what)
			return
		}
	}
}
