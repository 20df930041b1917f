//go:build linux

package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/lb/internal/child"
)

const (
	// settingsEnv is for what a role needs to know.
	settingsEnv = "REVENANT_BENCH_SETTINGS"
	// toxiproxyEnv is where toxiproxy's server is, if there is one.
	toxiproxyEnv = "REVENANT_BENCH_TOXIPROXY"
)

// The roles that a process can have.
const (
	upstreamRole  = "upstream"  // no settings
	balancerRole  = "balancer"  // settings: an lb.Config in JSON
	toxiproxyRole = "toxiproxy" // settings: the address of the upstream
)

// play is the main function of a helper. It prints the address that it serves
// at, and ends with its standard input.
func play(role string) {
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	start := map[string]func(ctx context.Context, settings string, ran chan<- error) (addr string, err error){
		upstreamRole:  playUpstream,
		balancerRole:  playBalancer,
		toxiproxyRole: playToxiproxy,
	}[role]
	addr, err := start(ctx, os.Getenv(settingsEnv), ran)
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	fmt.Println(addr)

	go func() {
		for words := bufio.NewScanner(os.Stdin); words.Scan(); { // it says nothing but "heap"
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			fmt.Println(m.HeapAlloc + m.StackInuse)
		}
		stop()
	}()
	if err := <-ran; err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func playBalancer(ctx context.Context, settings string, ran chan<- error) (string, error) {
	var cfg lb.Config
	if err := json.Unmarshal([]byte(settings), &cfg); err != nil {
		return "", err
	}
	balancer, err := lb.New(cfg)
	if err != nil {
		return "", err
	}
	failed := make(chan error, 1)
	go func() { failed <- balancer.Run(ctx) }()
	select {
	case err := <-failed:
		return "", err
	case <-balancer.Ready():
	}
	go func() { ran <- <-failed }()
	return balancer.Addr().String(), nil
}

// playToxiproxy runs toxiproxy with one proxy and no toxic.
func playToxiproxy(ctx context.Context, upstream string, ran chan<- error) (string, error) {
	nest, err := child.New()
	if err != nil {
		return "", err
	}
	var ports []string
	for range 2 { // for the clients and for its API
		addr, err := freePort()
		if err != nil {
			nest.Close()
			return "", err
		}
		ports = append(ports, addr)
	}
	config := filepath.Join(nest.Dir(), "config.json")
	text := fmt.Sprintf(`[{"name":"bench","listen":%q,"upstream":%q,"enabled":true}]`, ports[0], upstream)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		nest.Close()
		return "", err
	}
	host, port, _ := net.SplitHostPort(ports[1])
	cmd := nest.Command(ctx, os.Getenv(toxiproxyEnv), "-config", config, "-host", host, "-port", port)
	ended := make(chan error, 1)
	go func() {
		err := nest.Run(cmd)
		nest.Close()
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		if conn, err := net.Dial("tcp", ports[0]); err == nil {
			conn.Close()
			go func() { ran <- <-ended }()
			return ports[0], nil
		}
		select {
		case err := <-ended:
			return "", fmt.Errorf("it ended: %v", err)
		case <-retry.C:
		}
	}
}

// freePort returns an address on loopback that nobody listens at.
func freePort() (string, error) {
	l, err := net.Listen("tcp", lb.DefaultAddr)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// playUpstream serves what is passed on:
//
//	/events?size=256&for=1s   events one by one, as fast as they are taken
//	/ticks?n=100&every=1ms    events with the time at which they are written
//	/body?size=67108864       so many bytes
//	/idle                     one event, and then nothing
//	anything else             a short answer
func playUpstream(ctx context.Context, _ string, ran chan<- error) (string, error) {
	listener, err := net.Listen("tcp", lb.DefaultAddr)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/ticks", ticks)
	mux.HandleFunc("/body", body)
	mux.HandleFunc("/idle", func(w http.ResponseWriter, r *http.Request) {
		begin(w)(firstEvent)
		<-r.Context().Done()
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, shortAnswer) })
	server := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		err := server.Serve(listener)
		if ctx.Err() != nil {
			err = nil
		}
		ran <- err
	}()
	return listener.Addr().String(), nil
}

const (
	firstEvent  = "id: 1\ndata: {}\n\n"
	shortAnswer = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// begin starts a stream and returns how to send an event on it.
func begin(w http.ResponseWriter) (send func(event string) bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	flusher.Flush()
	return func(event string) bool {
		io.WriteString(w, event)
		return flusher.Flush() == nil
	}
}

func events(w http.ResponseWriter, r *http.Request) {
	size, _ := strconv.Atoi(r.FormValue("size"))
	length, _ := time.ParseDuration(r.FormValue("for"))
	head, tail := "id: 1000001\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"", "\"}\n\n"
	event := head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	send := begin(w)
	for until := time.Now().Add(length); time.Now().Before(until); {
		if !send(event) {
			return
		}
	}
}

func ticks(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	every, _ := time.ParseDuration(r.FormValue("every"))
	send := begin(w)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range n {
		<-ticker.C
		if !send(fmt.Sprintf("data: %d\n\n", time.Now().UnixNano())) {
			return
		}
	}
}

func body(w http.ResponseWriter, r *http.Request) {
	size, _ := strconv.Atoi(r.FormValue("size"))
	w.Header().Set("Content-Length", strconv.Itoa(size))
	piece := make([]byte, 64<<10)
	for size > 0 {
		n, err := w.Write(piece[:min(size, len(piece))])
		if err != nil {
			return
		}
		size -= n
	}
}
