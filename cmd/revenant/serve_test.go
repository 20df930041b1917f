package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// serving is a daemon in this process.
type serving struct {
	dir, line string // line is what it says when it serves
	stderr    bytes.Buffer
	stop      func() int // returns the exit status
}

// startServing runs "revenant serve" until stop is called, or the test ends.
func startServing(t *testing.T, dir string, flags ...string) *serving {
	t.Helper()
	s := &serving{dir: dir}
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		status := run(ctx, append([]string{"serve", "--data-dir", dir}, flags...), noEnv, strings.NewReader(""), w, &s.stderr)
		w.Close()
		ended <- status
	}()
	stopped := false
	var status int
	s.stop = func() int {
		if !stopped {
			stopped = true
			cancel()
			out.Close()
			status = <-ended
		}
		return status
	}
	t.Cleanup(func() { s.stop() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it ended with %d: %s", s.stop(), s.stderr.String())
	}
	s.line = strings.TrimSpace(line)
	return s
}

func noEnv(string) string { return "" }

// revenant runs a command in this process.
func revenant(env func(string) string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	status = run(ctx, args, env, strings.NewReader(""), &out, &err)
	return status, out.String(), err.String()
}

// shortDir is a folder whose path is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "d")
}

func wantMode(t *testing.T, file string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Error(err)
	} else if info.Mode().Perm() != want {
		t.Errorf("%s has mode %04o, want %04o", file, info.Mode().Perm(), want)
	}
}

func TestServeAndAsk(t *testing.T) {
	dir := shortDir(t)
	s := startServing(t, dir, "--log-format", "json")
	socket := filepath.Join(dir, socketName)
	if s.line != "serving at "+socket {
		t.Errorf("it says %q, want where it serves", s.line)
	}
	wantMode(t, dir, 0o700)
	wantMode(t, socket, 0o600)
	c, err := control.New(control.ClientConfig{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, _, err := c.Put(t.Context(), control.Servers, "s", 0, fmt.Appendf(nil, `{"addrs": [%q]}`, taken.Addr())); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"halt --reason because", "halted"},
		{"status", "halted          yes: because\n"},
		{"status", "servers         1\n"},
		{"status", "servers/s has failed: listen tcp " + taken.Addr().String()},
		{"status --json", `"halt_reason": "because"`},
		{"resume", "begun again"},
		{"status", "halted          no\n"},
	} {
		status, out, text := revenant(noEnv, append(strings.Fields(c.args), "--data-dir", dir)...)
		if status != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("revenant %s = %d\n%s%s\nwant %q", c.args, status, out, text, c.want)
		}
	}
	if status := s.stop(); status != exitOK {
		t.Errorf("it ended with %d: %s", status, s.stderr.String())
	}
	for line := range strings.Lines(s.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has %q, want JSON", line)
		}
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("its socket is left")
	}
	status, _, text := revenant(noEnv, "status", "--data-dir", dir)
	if status != exitFailed || !strings.Contains(text, `no daemon answers, and "revenant serve" starts one`) {
		t.Errorf("revenant status without a daemon = %d, %s", status, text)
	}
}

func TestServeOverTCP(t *testing.T) {
	dir := shortDir(t)
	s := startServing(t, dir, "--listen", "127.0.0.1:0")
	_, url, found := strings.Cut(s.line, " and ")
	if !found {
		t.Fatalf("it says %q, want an URL, too", s.line)
	}
	file := filepath.Join(dir, tokenName)
	wantMode(t, file, 0o600)
	token, err := readToken(file)
	if err != nil || len(token) < 20 {
		t.Fatalf("the token is %q, %v", token, err)
	}
	status, out, text := revenant(noEnv, "status", "--endpoint", url, "--token-file", file)
	if status != exitOK || !strings.Contains(out, dir) {
		t.Errorf("revenant status --endpoint = %d, %s%s", status, out, text)
	}
	resp, err := http.Get(url + "/v1/info")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token the answer is %d, want 401", resp.StatusCode)
	}
	s.stop()
	if strings.Contains(s.stderr.String(), token) {
		t.Error("the token is in the log")
	}
	startServing(t, dir, "--listen", "127.0.0.1:0").stop()
	if again, err := readToken(file); err != nil || again != token {
		t.Errorf("the next daemon's token is %q, %v, want the same", again, err)
	}
}

func TestServeRefuses(t *testing.T) {
	write := func(dir, name string, mode os.FileMode, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	files := t.TempDir()
	readable := write(files, "readable", 0o644, "0123456789abcdef")
	empty := write(files, "empty", 0o600, "\n")
	brief := write(files, "brief", 0o600, "secret")
	if err := os.Chmod(files, 0o755); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(files, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	plain := write(private, "plain", 0o600, "")
	live, err := listenUnix(filepath.Join(private, "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for _, c := range []struct {
		status int
		args   []string
		want   string
	}{
		{exitUsage, []string{"x"}, `takes no argument, and not "x"`},
		{exitUsage, []string{"--listen", "0.0.0.0:80"}, `"0.0.0.0:80", which other machines may reach: want 127.0.0.1:80, or --allow-remote`},
		{exitUsage, []string{"--listen", "localhost:80"}, "which other machines may reach"},
		{exitUsage, []string{"--listen", "8700"}, "want an address and a port"},
		{exitUsage, []string{"--listen", "0.0.0.0:0", "--allow-remote"}, "--allow-remote needs --token-file"},
		{exitUsage, []string{"--listen", "127.0.0.1:0", "--allow-host", "x"}, "--allow-host is for --allow-remote"},
		{exitUsage, []string{"--token-file", brief}, "--token-file is for --listen"},
		{exitUsage, []string{"--log-format", "xml"}, "want text or json"},
		{exitUsage, []string{"--concurrency", "0"}, "want from 1 to 16"},
		{exitFailed, []string{"--listen", "127.0.0.1:0", "--token-file", readable}, "mode 0644, want 0600"},
		{exitFailed, []string{"--listen", "127.0.0.1:0", "--token-file", empty}, "it is empty"},
		{exitFailed, []string{"--listen", "127.0.0.1:0", "--token-file", brief}, "want at least 16"},
		{exitFailed, []string{"--listen", "127.0.0.1:0", "--token-file", filepath.Join(files, "none")}, "no such file"},
		{exitFailed, []string{"--socket", filepath.Join(files, "s")}, "its folder has mode 0755, want 0700"},
		{exitFailed, []string{"--socket", plain}, "no socket"},
		{exitFailed, []string{"--socket", filepath.Join(private, "live")}, "somebody answers there already"},
		{exitFailed, []string{"--socket", filepath.Join(private, strings.Repeat("x", 100))}, "takes no more than 103"},
	} {
		status, out, text := revenant(noEnv, append([]string{"serve", "--data-dir", shortDir(t)}, c.args...)...)
		if status != c.status || !strings.Contains(text, c.want) || out != "" || strings.Contains(text, "secret\n") {
			t.Errorf("revenant serve %q = %d, %q, %q, want %d, %q", c.args, status, out, text, c.status, c.want)
		}
	}
	if text, err := os.ReadFile(plain); err != nil || len(text) != 0 {
		t.Errorf("the file that is no socket is %q, %v, want it as it was", text, err)
	}
	if status, _, text := revenant(noEnv, "serve"); status != exitUsage || !strings.Contains(text, "neither XDG_STATE_HOME nor HOME") {
		t.Errorf("revenant serve without HOME = %d, %s", status, text)
	}
}

func TestTheSecondDaemonIsRefused(t *testing.T) {
	dir := shortDir(t)
	startServing(t, dir)
	status, _, text := revenant(noEnv, "serve", "--data-dir", dir)
	want := fmt.Sprintf("revenant: daemon: data directory %s is in use by the daemon with pid %d: stop that, or use another --data-dir\n", dir, os.Getpid())
	if status != exitFailed || text != want {
		t.Errorf("the second is told %d, %q, want %q", status, text, want)
	}
	if status, _, text := revenant(noEnv, "status", "--data-dir", dir); status != exitOK {
		t.Errorf("the first does not answer any more: %s", text)
	}
}

func TestDefaultDataDir(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/state", "/home/x", "/state/revenant"},
		{"", "/home/x", "/home/x/.local/state/revenant"},
		{"relative", "/home/x", "/home/x/.local/state/revenant"},
	} {
		var dir, socket string
		err := resolveDataDir(&dir, &socket, func(name string) string {
			return map[string]string{"XDG_STATE_HOME": c.state, "HOME": c.home}[name]
		})
		if err != nil || dir != c.want || socket != c.want+"/revenant.sock" {
			t.Errorf("with %+v it is %s, %s, %v", c, dir, socket, err)
		}
	}
}
