package lb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb/internal/child"
)

// ErrMissing says that the program of an engine is not installed.
var ErrMissing = errors.New("program not found")

const (
	// startTimeout bounds the program's check of its configuration, and how long
	// it then takes to answer.
	startTimeout = 10 * time.Second
	// controlTimeout bounds one conversation with the program.
	controlTimeout = 5 * time.Second
	// connectTimeout is how long a program tries to connect to an upstream.
	connectTimeout = 5 * time.Second
)

// The descriptors that a program inherits: the clients' socket, and one of its
// own, which is the way to talk to it.
const (
	listenerFD = 3 + iota
	controlFD
)

// programDirs are not in every user's PATH, and are where Debian and Homebrew
// have the programs.
var programDirs = []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

// Available says whether this machine can run an engine: nil, or an error that
// says what to install and wraps [ErrMissing], or [errors.ErrUnsupported] where
// the operating system is not one to run programs on.
func Available(e Engine) error {
	_, err := findProgram(e)
	return err
}

// findProgram returns the path of e's program, "" for none.
func findProgram(e Engine) (string, error) {
	if e != HAProxy && e != NGINX {
		return "", nil
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		return "", fmt.Errorf("lb: engine %s: %s: %w", e, runtime.GOOS, errors.ErrUnsupported)
	}
	name := string(e)
	for _, dir := range append([]string{""}, programDirs...) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("lb: engine %s: %w in PATH or /usr/sbin: apt-get install %s", e, ErrMissing, name)
}

// program is an engine that is a program, run as a child process.
type program struct {
	// Immutable.
	cfg     Config
	path    string
	dialect dialect

	serves chan struct{} // closed when the program answers
	socket string        // where it does; set before serves is closed

	events uint64 // so far; owned by the reader of the log
}

// dialect is what differs between the programs.
type dialect interface {
	// configure writes the configuration.
	configure(f *configFile, cfg *Config, place place)
	// command returns the arguments with which to check the configuration, or to
	// run it, and what to add to the environment.
	command(config string, check bool) (args, env []string)
	// answers has a conversation that only a program that serves can have.
	answers(control net.Conn) error
	// cut cuts what is under way.
	cut(cfg *Config, dial func() (net.Conn, error)) (int, error)
	// event reads a line of the log, and reports whether that is an event. It is
	// called by one goroutine.
	event(cfg *Config, line string) (e Event, ok bool)
}

// place is where a program finds things.
type place struct {
	dir     string   // for its files
	clients net.Addr // of the socket that it inherits as listenerFD
	control string   // path of the one that it inherits as controlFD
}

func newProgram(cfg Config) (*program, error) {
	path, err := findProgram(cfg.Engine)
	if err != nil {
		return nil, err
	}
	p := &program{cfg: cfg, path: path, serves: make(chan struct{})}
	if cfg.Engine == HAProxy {
		p.dialect = haproxy{}
	} else {
		p.dialect = newNginx()
	}
	return p, nil
}

func (p *program) run(ctx context.Context, listener net.Listener, ready func()) error {
	// Held until the end: the port is freed at once, whatever the program does.
	defer listener.Close()
	err := p.runIn(ctx, listener, ready)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("lb: engine %s: %w", p.cfg.Engine, err)
}

// runIn runs the program in a nest, until ctx ends or the program does.
func (p *program) runIn(ctx context.Context, listener net.Listener, ready func()) error {
	nest, err := child.New()
	if err != nil {
		return err
	}
	defer nest.Close()
	place := place{nest.Dir(), listener.Addr(), filepath.Join(nest.Dir(), "control")}
	control, err := net.Listen("unix", place.control)
	if err != nil {
		return err
	}
	defer control.Close()
	var sockets []*os.File
	for _, l := range []net.Listener{listener, control} {
		socket, err := child.Inherit(l.(syscall.Conn)) // resolve has seen to it
		if err != nil {
			return err
		}
		defer socket.Close()
		sockets = append(sockets, socket)
	}

	config := new(configFile)
	p.dialect.configure(config, &p.cfg, place)
	path := filepath.Join(nest.Dir(), "config")
	if err := os.WriteFile(path, config.text.Bytes(), 0o600); err != nil {
		return err
	}
	command := func(ctx context.Context, check bool) *exec.Cmd {
		args, env := p.dialect.command(path, check)
		cmd := nest.Command(ctx, p.path, args...)
		cmd.Env = append(os.Environ(), env...)
		cmd.ExtraFiles = sockets
		return cmd
	}

	checking, done := context.WithTimeout(ctx, startTimeout)
	defer done()
	var verdict bytes.Buffer
	check := command(checking, true)
	check.Stdout, check.Stderr = &verdict, &verdict
	if err := nest.Run(check); err != nil {
		return config.explain(err, verdict.String())
	}

	// What ends the program is ctx, or that it does not answer.
	serve, stop := context.WithCancelCause(ctx)
	var answering sync.WaitGroup
	answering.Go(func() {
		if err := p.awaitAnswer(serve, place.control); err != nil {
			stop(err)
			return
		}
		p.socket = place.control
		close(p.serves)
		ready()
	})
	log := &lines{each: p.log}
	cmd := command(serve, false)
	cmd.Stdout, cmd.Stderr = log, log
	err = nest.Run(cmd)
	if cause := context.Cause(serve); cause != nil {
		err = cause
	} else if err == nil {
		err = errors.New("it ended by itself")
	}
	stop(err)
	answering.Wait()
	return withOutput(err, log.last)
}

// awaitAnswer returns when the program serves, or cannot be waited for any
// longer. Its socket is open already, so there is nothing to try again.
func (p *program) awaitAnswer(ctx context.Context, socket string) error {
	conn, err := net.DialTimeout("unix", socket, startTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(startTimeout))
	if err := p.dialect.answers(conn); err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return nil
}

func (p *program) cut(Expiry) int {
	select {
	case <-p.serves:
	default:
		return 0
	}
	n, err := p.dialect.cut(&p.cfg, func() (net.Conn, error) {
		conn, err := net.DialTimeout("unix", p.socket, controlTimeout)
		if err == nil {
			conn.SetDeadline(time.Now().Add(controlTimeout))
		}
		return conn, err
	})
	if err != nil {
		return 0 // it has ended, or is about to: nothing is under way
	}
	return n
}

// log takes a line that the program has written, and reports whether it was an
// event.
func (p *program) log(line string) bool {
	if p.cfg.Observe == nil {
		return false
	}
	e, ok := p.dialect.event(&p.cfg, line)
	if ok {
		p.events++
		e.Stream, e.At = p.events, time.Now()
		p.cfg.Observe(e)
	}
	return ok
}

// withOutput adds to err what the program has said.
func withOutput(err error, output string) error {
	if output = strings.TrimSpace(output); output == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, output)
}

// lines is a writer that calls each with every line, and keeps the end of those
// that it says are no events.
type lines struct {
	each func(line string) (event bool)
	part []byte // of a line
	last string
}

// keptOutput is how much of a program's messages an error can show.
const keptOutput = 2000

func (l *lines) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.part = rest
		if text := string(line); !l.each(text) {
			l.last += text + "\n"
			l.last = l.last[max(0, len(l.last)-keptOutput):]
		}
	}
}

// configFile is a configuration, and which settings its lines are from.
type configFile struct {
	text     bytes.Buffer
	settings []string // by line; "" where it is from none
}

// add appends a line.
func (f *configFile) add(format string, args ...any) { f.from("", format, args...) }

// from appends a line that comes from a field of Config.
func (f *configFile) from(setting, format string, args ...any) {
	fmt.Fprintf(&f.text, format+"\n", args...)
	f.settings = append(f.settings, setting)
}

var configLine = regexp.MustCompile(`/config:(\d+)`)

// explain is the error for a configuration that the program has refused.
func (f *configFile) explain(err error, verdict string) error {
	err = fmt.Errorf("it refuses its configuration: %w", err)
	for _, match := range configLine.FindAllStringSubmatch(verdict, -1) {
		if n, _ := strconv.Atoi(match[1]); n > 0 && n <= len(f.settings) && f.settings[n-1] != "" {
			line := strings.Split(f.text.String(), "\n")[n-1]
			err = fmt.Errorf("%w: Config.%s, line %d, %q", err, f.settings[n-1], n, strings.TrimSpace(line))
			break
		}
	}
	return withOutput(err, verdict)
}

// milliseconds is d as both programs write it, rounded up.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10) + "ms"
}
