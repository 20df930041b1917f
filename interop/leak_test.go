package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/middleware"
)

// The tests here run on loopback, in real time, and assert no times.

// leakFree checks, when the test and its cleanups so far are over, that it has
// left no goroutine.
func leakFree(t *testing.T) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// openFiles counts the process's file descriptors, or is 0 where that cannot
// be told.
func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// socketArm is an arm over a server on loopback.
func socketArm(t *testing.T, h http.Handler, cfg middleware.Config) *arm {
	t.Helper()
	srv := httptest.NewServer(h)
	base := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	a := newArm(t, "protected", cfg, base)
	a.url = srv.URL
	return a
}

// send sends a request of a session, with a cursor if it is a GET.
func (a *arm) send(ctx context.Context, method, session, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set(headerSession, session)
	if method == http.MethodGet {
		req.Header.Set(headerCursor, "cursor")
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	return a.http.Do(req)
}

// C87: a consumer that leaves while its replay is held leaves nothing behind.
func TestAThousandConsumersLeaveInMidHold(t *testing.T) {
	leakFree(t)
	const cycles, warm, width = 1000, 100, 8
	s := &stub{
		get: func(w http.ResponseWriter, r *http.Request, n int) {
			open(w, note("1", "held"), note("2", "held"))
			<-r.Context().Done()
		},
		ping: func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() },
	}
	a := socketArm(t, s, middleware.Config{})
	var leave sync.Map // session -> context.CancelFunc
	guard, err := middleware.New(middleware.Config{
		Base: a.tap,
		Observe: func(e middleware.Event) {
			if cancel, ok := leave.Load(e.SessionID); ok && e.Kind == middleware.ProbeSent {
				cancel.(context.CancelFunc)()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.http = &http.Client{Transport: guard}

	var next atomic.Int64
	run := func(until int64) {
		var group sync.WaitGroup
		for worker := range width {
			group.Go(func() {
				for i := next.Add(1); i <= until && !t.Failed(); i = next.Add(1) {
					// New sessions, and such as were left before. No two workers share
					// one: the hook would cancel the wrong request.
					session := fmt.Sprintf("session-%d-%d", worker, i%5)
					if i%2 == 0 {
						session = fmt.Sprint("session-", i)
					}
					ctx, cancel := context.WithCancel(context.Background())
					leave.Store(session, cancel)
					resp, err := a.send(ctx, http.MethodGet, session, "")
					if !errors.Is(err, context.Canceled) {
						t.Errorf("reconnect %d = %v, %v, want context.Canceled", i, resp, err)
					}
					if err == nil {
						resp.Body.Close()
					}
					cancel()
				}
			})
		}
		group.Wait()
		next.Store(until)
	}
	run(warm)
	before := openFiles()
	run(cycles)
	a.tap.CloseIdleConnections()
	// Sockets that the other side has yet to close are not the client's.
	if after := openFiles(); after > before+4*width {
		t.Errorf("%d file descriptors after %d reconnects, %d after %d: want no growth", after, cycles, before, warm)
	} else {
		t.Logf("file descriptors: %d after %d reconnects, %d after %d", before, warm, after, cycles)
	}
	if infos := guard.Sessions(); len(infos) == 0 {
		t.Errorf("Sessions() is empty, want the sessions that were left")
	} else {
		for _, info := range infos {
			if info.InFlight != 0 {
				t.Errorf("session %q has %d requests in flight, want 0", info.SessionID, info.InFlight)
			}
		}
	}
}

// C87: the same for bodies that are closed after the release, some while they
// are read.
func TestAThousandConsumersCloseAReleasedStream(t *testing.T) {
	leakFree(t)
	const cycles, width = 1000, 8
	s := &stub{get: func(w http.ResponseWriter, r *http.Request, n int) {
		open(w, note("1", "held"))
		for i := 0; i < 20 && n%2 == 0; i++ {
			say(w, note("2", strings.Repeat("x", 1000)))
		}
		<-r.Context().Done()
	}}
	a := socketArm(t, s, middleware.Config{})
	var next atomic.Int64
	var group sync.WaitGroup
	before := openFiles()
	for range width {
		group.Go(func() {
			for i := next.Add(1); i <= cycles; i = next.Add(1) {
				resp, err := a.send(context.Background(), http.MethodGet, fmt.Sprint("session-", i%20), "")
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Errorf("reconnect %d = %v, %v, want 200", i, resp, err)
					return
				}
				reading := make(chan struct{})
				go func() {
					defer close(reading)
					_, _ = io.Copy(io.Discard, resp.Body)
				}()
				resp.Body.Close()
				<-reading
			}
		})
	}
	group.Wait()
	a.tap.CloseIdleConnections()
	if after := openFiles(); after > before+8*width {
		t.Errorf("%d file descriptors after %d reconnects, %d before: want no growth", after, cycles, before)
	}
	for _, info := range a.guard.Sessions() {
		if info.InFlight != 0 {
			t.Errorf("session %q has %d requests in flight, want 0", info.SessionID, info.InFlight)
		}
	}
}

// C73: fifty sessions die with calls in flight. All of them end, as of unknown
// outcome, and nothing is left.
func TestFiftySessionsDieWithCallsInFlight(t *testing.T) {
	leakFree(t)
	const sessions, calls = 50, 4
	var arrived sync.WaitGroup
	arrived.Add(sessions * calls)
	s := &stub{
		get: func(w http.ResponseWriter, r *http.Request, n int) {
			open(w, note("1", "dead"))
			<-r.Context().Done()
		},
		call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			if string(id)[0]%2 == 0 {
				open(w, note("call", "under way"))
			}
			arrived.Done()
			<-r.Context().Done()
		},
	}
	s.ping = func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		http.Error(w, "gone", http.StatusNotFound)
	}
	a := socketArm(t, s, middleware.Config{})
	var ended, unknown atomic.Int64
	var group sync.WaitGroup
	for i := range sessions {
		for id := range calls {
			group.Go(func() {
				resp, err := a.send(context.Background(), http.MethodPost, fmt.Sprint("session-", i),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, id))
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				ended.Add(1)
				var lost *middleware.SessionResumptionError
				if errors.As(err, &lost) && lost.OutcomeUnknown {
					unknown.Add(1)
				} else {
					t.Errorf("call %d of session %d = %v, want a *SessionResumptionError, outcome unknown", id, i, err)
				}
			})
		}
	}
	arrived.Wait()
	var reconnects sync.WaitGroup
	for i := range sessions {
		reconnects.Go(func() {
			resp, err := a.send(context.Background(), http.MethodGet, fmt.Sprint("session-", i), "")
			if err != nil || resp.StatusCode != http.StatusNotFound {
				t.Errorf("reconnect of session %d = %v, %v, want 404", i, resp, err)
				return
			}
			resp.Body.Close()
		})
	}
	reconnects.Wait()
	group.Wait()
	if unknown.Load() != sessions*calls {
		t.Errorf("%d of %d calls ended with an unknown outcome, want all %d", unknown.Load(), ended.Load(), sessions*calls)
	}
}

// C38: over HTTP/2 the GET and its probe are streams of one connection.
func TestHTTP2(t *testing.T) {
	servers := map[string]func(h http.Handler) (*httptest.Server, *http.Transport){
		"TLS": func(h http.Handler) (*httptest.Server, *http.Transport) {
			srv := httptest.NewUnstartedServer(h)
			srv.EnableHTTP2 = true
			srv.StartTLS()
			return srv, srv.Client().Transport.(*http.Transport)
		},
		"h2c": func(h http.Handler) (*httptest.Server, *http.Transport) {
			srv := httptest.NewUnstartedServer(h)
			srv.Config.Protocols = new(http.Protocols)
			srv.Config.Protocols.SetUnencryptedHTTP2(true)
			srv.Start()
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			return srv, &http.Transport{Protocols: protocols}
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			leakFree(t)
			var mu sync.Mutex
			conns := map[string]int{}
			s := &stub{get: func(w http.ResponseWriter, r *http.Request, n int) {
				open(w, note("2", "two"), note("3", "three"))
				if r.Header.Get(headerSession) == "ends" {
					return
				}
				<-r.Context().Done()
			}}
			s.kill("dead")
			leave := make(chan context.CancelFunc, 1)
			s.ping = func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
				if r.Header.Get(headerSession) == "left" {
					(<-leave)()
					<-r.Context().Done()
					return
				}
				result(w, id, `{}`)
			}
			srv, base := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("%s over %s, want HTTP/2", r.Method, r.Proto)
				}
				mu.Lock()
				conns[r.RemoteAddr]++
				mu.Unlock()
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			t.Cleanup(base.CloseIdleConnections)
			a := newArm(t, "protected", middleware.Config{}, base)
			a.url = srv.URL

			// Released: held events first, and the stream goes on.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := a.send(ctx, http.MethodGet, "lives", "")
			if err != nil {
				t.Fatal(err)
			}
			want := note("2", "two") + note("3", "three")
			got := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
				t.Errorf("the stream reads %q, %v, want %q", got, err, want)
			}
			// Dead.
			dead, err := a.send(ctx, http.MethodGet, "dead", "")
			if err != nil || dead.StatusCode != http.StatusNotFound || a.sessionErr("dead").QuarantinedEvents != 2 {
				t.Errorf("reconnect of a dead session = %v, %v, %v, want 404 and 2 events quarantined", dead, err, a.sessionErr("dead"))
			}
			// Cancelled while it is held.
			left, forget := context.WithCancel(ctx)
			leave <- forget
			if resp, err := a.send(left, http.MethodGet, "left", ""); !errors.Is(err, context.Canceled) {
				t.Errorf("reconnect that was cancelled = %v, %v, want context.Canceled", resp, err)
			}
			// A clean end of the upstream is a clean end.
			ends, err := a.send(ctx, http.MethodGet, "ends", "")
			if err != nil {
				t.Fatal(err)
			}
			if all, err := io.ReadAll(ends.Body); string(all) != want || err != nil {
				t.Errorf("the stream reads %q, %v, want %q and its end", all, err, want)
			}
			cancel()
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("reading after the cancellation = %v, want context.Canceled", err)
			}
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			requests := 0
			for _, n := range conns {
				requests += n
			}
			if len(conns) != 1 || requests != 8 {
				t.Errorf("%d requests over %d connections, want 4 GETs and 4 probes over one: %v", requests, len(conns), conns)
			}
		})
	}
}

// C38: a stream that is reset, as HTTP/2 does it, is a read error and not an
// end, and the reconnect after it works; a go-sdk client comes through.
func TestGoSDKOverHTTP2(t *testing.T) {
	leakFree(t)
	s := &stub{get: func(w http.ResponseWriter, r *http.Request, n int) {
		switch n {
		case 1:
			open(w, "retry: 10\n\n", note("1", "one"), "id: 2\ndata: {\"torn\":")
			panic(http.ErrAbortHandler) // RST_STREAM in the middle of an event
		case 2:
			open(w, "retry: 10\n\n", note("2", "two"))
			// END_STREAM
		default:
			open(w, note("3", "three"))
			<-r.Context().Done()
		}
	}}
	srv := httptest.NewUnstartedServer(s)
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = nil
	srv.StartTLS()
	t.Cleanup(srv.Close)
	base := srv.Client().Transport.(*http.Transport)
	t.Cleanup(base.CloseIdleConnections)
	a := newArm(t, "protected", middleware.Config{}, base)
	a.url = srv.URL
	c := a.connectOfficial()
	deadline := time.After(30 * time.Second)
	for len(c.all()) < 3 {
		select {
		case <-c.ended:
			t.Fatalf("session ended: %v", c.err)
		case <-deadline:
			t.Fatalf("the client has %q, want 3 events", c.all())
		case <-time.After(time.Millisecond):
		}
	}
	if got := strings.Join(c.all(), " "); got != "one two three" {
		t.Errorf("the client has %q, want one two three", got)
	}
	var cursors []string
	for _, w := range a.tap.of(c.ID(), 0) {
		if w.method == http.MethodGet {
			cursors = append(cursors, w.cursor)
		}
	}
	if got := fmt.Sprint(cursors); got != "[ 1 2]" {
		t.Errorf("cursors on the wire: %v, want none, 1, 2", got)
	}
}
