//go:build linux

package bench_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roleEnv makes the benchmark binary something else: see play.
const roleEnv = "REVENANT_BENCH_ROLE"

// helper is a process in another role. It ends when its standard input does, so
// it does not outlive the benchmark, however that ends.
type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	addr string // what it serves at
	work int    // the process to measure: itself, or the program that it runs
}

// startHelper starts the benchmark binary in a role, with settings for it, and
// waits until it serves. program is the name of the program that does its work,
// or empty.
func startHelper(tb testing.TB, role, settings, program string) *helper {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, settingsEnv+"="+settings)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	h := &helper{cmd: cmd, in: in, out: bufio.NewReader(out), work: cmd.Process.Pid}
	tb.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("%s %s: %v", role, settings, err)
		}
	})
	h.addr = h.line(tb)
	if program != "" {
		if h.work, err = descendant(h.work, program); err != nil {
			tb.Fatalf("%s %s: %v", role, settings, err)
		}
	}
	return h
}

// line returns the next line that the helper prints.
func (h *helper) line(tb testing.TB) string {
	tb.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		tb.Fatalf("%s ended: %v", h.cmd.Args[0], err)
	}
	return strings.TrimSuffix(line, "\n")
}

// heap has the helper collect its garbage and returns the bytes of its heap and
// of its stacks.
func (h *helper) heap(tb testing.TB) float64 {
	tb.Helper()
	if _, err := io.WriteString(h.in, "heap\n"); err != nil {
		tb.Fatal(err)
	}
	n, err := strconv.ParseFloat(h.line(tb), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// cpu returns the time that the process at work and the processes below it have
// been on a processor, in seconds.
func (h *helper) cpu(tb testing.TB) float64 {
	tb.Helper()
	processes, err := processes()
	if err != nil {
		tb.Fatal(err)
	}
	sum := time.Duration(0)
	for _, pid := range below(processes, h.work) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			tb.Fatal(err)
		}
		for _, path := range threads {
			// In nanoseconds, where stat counts ticks of 10 ms. A thread that
			// has ended is no longer there, but none of these ends its threads
			// under load.
			text, err := os.ReadFile(path)
			if err != nil {
				tb.Fatal(err)
			}
			ns, _, _ := strings.Cut(string(text), " ")
			n, err := strconv.ParseInt(ns, 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum += time.Duration(n)
		}
	}
	return sum.Seconds()
}

// rss returns the bytes of memory that the process at work has.
func (h *helper) rss(tb testing.TB) float64 {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.work))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib * 1024
		}
	}
	tb.Fatalf("/proc/%d/status has no VmRSS", h.work)
	return 0
}

// process is what /proc says of one.
type process struct {
	parent int
	name   string
}

// processes returns those that there are, by number.
func processes() (map[int]process, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(map[int]process)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// `1 (a name, with whatever in it) S 0 ...`
		from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		if from < 0 || to < from {
			return nil, fmt.Errorf("%s is %q", path, text)
		}
		var state string
		var p process
		pid, err := strconv.Atoi(strings.TrimSpace(string(text[:from])))
		if _, scan := fmt.Sscan(string(text[to+1:]), &state, &p.parent); err != nil || scan != nil {
			return nil, errors.Join(err, scan)
		}
		p.name = string(text[from+1 : to])
		all[pid] = p
	}
	return all, nil
}

// below returns root and the processes that descend from it.
func below(all map[int]process, root int) []int {
	found := []int{root}
	for pid := range all {
		for up := pid; up > 1; up = all[up].parent {
			if all[up].parent == root {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// descendant returns the process of that name below root that has none of the
// same name above it.
func descendant(root int, name string) (int, error) {
	all, err := processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range below(all, root) {
		if all[pid].name == name && all[all[pid].parent].name != name {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process %q below %d", name, root)
}
