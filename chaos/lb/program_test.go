package lb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// ownerEnv makes the test binary the owner of a load balancer of that engine.
const ownerEnv = "REVENANT_TEST_OWNER_OF"

// own runs a load balancer until the process is killed.
func own(engine lb.Engine) {
	balancer, err := lb.New(lb.Config{Engine: engine, Upstream: "127.0.0.1:1"})
	if err != nil {
		panic(err)
	}
	go func() { panic(balancer.Run(context.Background())) }()
	<-balancer.Ready()
	fmt.Println(balancer.Addr())
	select {}
}

var programs = []lb.Engine{lb.HAProxy, lb.NGINX}

func TestNoProgramOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	for _, engine := range programs {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			needs(t, engine)
			tmp := t.TempDir()
			owner := exec.Command(os.Args[0])
			owner.Env = append(os.Environ(), ownerEnv+"="+string(engine), "TMPDIR="+tmp)
			owner.Stderr = os.Stderr
			stdout, _ := owner.StdoutPipe()
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			addr := strings.TrimSpace(line)
			if err != nil {
				t.Fatal(err)
			}
			if conn, err := net.Dial("tcp", addr); err != nil {
				t.Errorf("before: %v", err)
			} else {
				conn.Close()
			}
			owner.Process.Signal(syscall.SIGKILL)
			owner.Wait()
			// Each of its processes has the socket.
			eventually(t, "the port is free", func() bool {
				listener, err := net.Listen("tcp", addr)
				if err == nil {
					listener.Close()
				}
				return err == nil
			})
			eventually(t, "the files are gone", func() bool { return len(entries(t, tmp)) == 0 })
		})
	}
}

func TestRunOfAProgramLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, engine := range programs {
		t.Run(string(engine), func(t *testing.T) {
			needs(t, engine)
			balancer, stop := start(t, lb.Config{Engine: engine, Upstream: startUpstream(t, field)})
			<-balancer.Ready()
			if made := entries(t, tmp); len(made) != 1 {
				t.Errorf("files in use are %v, want one directory", made)
			}
			_, r := dial(t, balancer.Addr(), "GET /silent HTTP/1.1", "Host: h")
			expectStatus(t, r, "HTTP/1.1 200 OK")
			stop() // with a stream under way
			if left := entries(t, tmp); len(left) > 0 {
				t.Errorf("Run leaves %v, want nothing", left)
			}
			if listener, err := net.Listen("tcp", balancer.Addr().String()); err != nil {
				t.Errorf("the port after Run: %v", err)
			} else {
				listener.Close()
			}
		})
	}
}

// A context that has ended, or ends while the program starts, is no error.
func TestRunOfAProgramThatIsNotWanted(t *testing.T) {
	for _, engine := range programs {
		t.Run(string(engine), func(t *testing.T) {
			needs(t, engine)
			balancer, err := lb.New(lb.Config{Engine: engine, Upstream: "h:1"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := balancer.Run(ctx); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
			select {
			case <-balancer.Ready():
				t.Error("ready, though it never ran")
			default:
			}
		})
	}
}

// The program refuses what Validate cannot know, and the error has the setting.
func TestTheProgramRefuses(t *testing.T) {
	unresolvable := strings.Repeat("a", 64) // longer than a label may be: nobody is asked
	for _, engine := range programs {
		for field, cfg := range map[string]lb.Config{
			"Upstream":     {Upstream: unresolvable + ":80"},
			"Upstreams[1]": {Upstreams: []string{"127.0.0.1:1", unresolvable + ":80"}},
		} {
			t.Run(string(engine)+" "+field, func(t *testing.T) {
				needs(t, engine)
				cfg.Engine = engine
				balancer, err := lb.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				err = balancer.Run(t.Context())
				want := fmt.Sprintf("lb: engine %s: it refuses its configuration: exit status 1: Config.%s, line ", engine, field)
				if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), unresolvable) < 2 {
					t.Errorf("Run() = %v, want %s..., and what the program says", err, want)
				}
			})
		}
	}
}

func TestMissingProgram(t *testing.T) {
	defer lb.OnlyInPath()()
	t.Setenv("PATH", t.TempDir())
	for _, engine := range programs {
		_, err := lb.New(lb.Config{Engine: engine, Upstream: "h:1"})
		if !errors.Is(err, lb.ErrMissing) || !strings.Contains(err.Error(), "apt-get install "+string(engine)) {
			t.Errorf("New(Engine: %s) = %v, want %v and what to install", engine, err, lb.ErrMissing)
		}
		if got := lb.Available(engine); got == nil || got.Error() != err.Error() {
			t.Errorf("Available(%s) = %v, want the error of New", engine, got)
		}
	}
	if err := lb.Available(lb.Embedded); err != nil {
		t.Errorf("Available(%s) = %v, want nil", lb.Embedded, err)
	}
}

// imposter puts a script in the place of haproxy.
func imposter(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "haproxy"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lb.OnlyInPath())
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

func TestProgramThatEndsByItself(t *testing.T) {
	imposter(t, `[ "$1" = -c ] && exit 0; echo too hot here >&2; exit 7`)
	balancer, err := lb.New(lb.Config{Engine: lb.HAProxy, Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "lb: engine haproxy: exit status 7: too hot here"
	if err := balancer.Run(t.Context()); err == nil || err.Error() != want {
		t.Errorf("Run() = %v, want %s", err, want)
	}
}

func TestProgramThatAnswersWrongly(t *testing.T) {
	imposter(t, `[ "$1" = -c ] && exit 0; exec perl -e '
		open(my $s, "+<&=", 4); accept(my $c, $s); sysread($c, my $b, 100); syswrite($c, "what?\n"); close($c); sleep 100'`)
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("SKIPPED: no perl to answer wrongly")
	}
	balancer, err := lb.New(lb.Config{Engine: lb.HAProxy, Upstream: "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := balancer.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `it does not answer: "what?\n"`) {
		t.Errorf("Run() = %v, want it to say that the answer is wrong", err)
	}
	select {
	case <-balancer.Ready():
		t.Error("ready, though nothing has answered")
	default:
	}
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// eventually waits for what nothing tells.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("not in time: %s", what)
			return
		}
	}
}
