package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// serverStart is how long a server may take to say where it listens.
const serverStart = 10 * time.Second

// command is exec.CommandContext for a program that starts others: the suite
// starts the client under test through a shell. When ctx ends, so do all.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	endTogether(cmd)
	// A child that got away must not keep Wait from returning by its hold on a pipe.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverProcess is a server under test. Its owner stops it.
type serverProcess struct {
	url string

	cancel context.CancelFunc
	done   chan struct{} // closed once the process has been reaped
}

// startServer starts program on a free port of loopback, and waits for the first
// line of its output, which is its URL. What it says on stderr goes to the file
// logName.
func startServer(ctx context.Context, program, logName string) (*serverProcess, error) {
	log, err := os.Create(logName)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(ctx)
	cmd := command(ctx, program, "-addr", "127.0.0.1:0")
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}

	s := &serverProcess{cancel: cancel, done: make(chan struct{})}
	first := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadString('\n')
		first <- strings.TrimSpace(line)
		// A server that goes on talking must not wait for a reader.
		_, _ = io.Copy(io.Discard, lines)
		// It is stopped by a kill, so its status says nothing.
		_ = cmd.Wait()
	}()

	timeout := time.NewTimer(serverStart)
	defer timeout.Stop()
	select {
	case s.url = <-first:
		if strings.HasPrefix(s.url, "http") {
			return s, nil
		}
		err = fmt.Errorf("the first line of the server's output is %q, want its URL", s.url)
	case <-timeout.C:
		err = fmt.Errorf("the server does not say where it listens within %v", serverStart)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.stop()
	if text, readErr := os.ReadFile(logName); readErr == nil && len(text) > 0 {
		err = errors.Join(err, fmt.Errorf("the server: %s", lastLine(text)))
	}
	return nil, err
}

// stop ends the server and returns when it is gone. It may be called again.
func (s *serverProcess) stop() {
	s.cancel()
	<-s.done
}
