//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandEndsWithItsChildren(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(ctx, "sh", "-c", "sleep 600 & echo started; wait")
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	out := bufio.NewReader(read)
	if line, err := out.ReadString('\n'); err != nil {
		t.Fatalf("the command printed %q: %v", line, err)
	}

	cancel()
	_ = cmd.Wait()
	// The child holds the other end of the pipe for as long as it lives.
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("after the end: read %q, %v", rest, err)
	}
}

func TestStartServer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "server")
	write(t, program, "#!/bin/sh\necho \"http://$2/mcp\"\necho more\nexec sleep 600\n")
	chmod(t, program)
	s, err := startServer(t.Context(), program, filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "http://127.0.0.1:0/mcp"; s.url != want {
		t.Errorf("url = %q, want %q", s.url, want)
	}
	s.stop()
	s.stop()
}

func TestStartServerSaysWhyNot(t *testing.T) {
	for script, want := range map[string][]string{
		"#!/bin/sh\necho 'server: address in use' >&2\nexit 1\n": {`output is ""`, "address in use"},
		"#!/bin/sh\necho listening\nexec sleep 600\n":            {`output is "listening"`},
	} {
		dir := t.TempDir()
		program := filepath.Join(dir, "server")
		write(t, program, script)
		chmod(t, program)
		s, err := startServer(t.Context(), program, filepath.Join(dir, "server.log"))
		if err == nil {
			s.stop()
			t.Errorf("%q: no error", script)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %q, want %q in it", script, err, part)
			}
		}
	}
	if _, err := startServer(t.Context(), "/nonexistent/server", filepath.Join(t.TempDir(), "server.log")); err == nil {
		t.Error("a server that is not there: no error")
	}
}

func chmod(t *testing.T, name string) {
	t.Helper()
	if err := os.Chmod(name, 0o755); err != nil {
		t.Fatal(err)
	}
}
