package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/server"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// start serves in a bubble until stop is called, which returns Serve's error.
func start(s *server.Server) (l *memnettest.Listener, client *http.Client, stop func() error) {
	l = memnettest.New()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: l.DialContext, DisableCompression: true}
	return l, &http.Client{Transport: transport}, func() error {
		transport.CloseIdleConnections()
		cancel()
		return <-served
	}
}

func authorized(ctx context.Context, method, path string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	return r
}

func TestSlowHeaderIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newServer(t)
		l, _, stop := start(s)
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
		began := time.Now()
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("the connection ends with %v, want its end", err)
		}
		if took := time.Since(began); took < server.HeaderTime || took > 2*server.HeaderTime {
			t.Errorf("given up after %v, want about %v", took, server.HeaderTime)
		}
		conn.Close()
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
}

func TestAnswerThatNobodyReadsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newServer(t)
		l, _, stop := start(s)
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(5 * time.Minute)
		if got, err := io.ReadAll(conn); err != nil || len(got) > 0 {
			t.Errorf("after five minutes the answer is %q, %v, want none", got, err)
		}
		conn.Close()
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
}

func TestLongHeaderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newServer(t)
		_, client, stop := start(s)
		r := authorized(t.Context(), "GET", "/healthz")
		r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
		// The refusal may come while the header is still being sent.
		if resp, err := client.Do(r); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("status %d, want 431", resp.StatusCode)
			}
		}
		stop()
	})
}

// The time to read a request is not the backend's to answer it.
func TestBackendHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, client, stop := start(s)
		for _, test := range []struct {
			takes  time.Duration
			status int
		}{{server.AnswerTime - time.Second, http.StatusOK}, {server.AnswerTime + time.Minute, http.StatusServiceUnavailable}} {
			backend.EXPECT().Halt(anything, "").RunAndReturn(func(ctx ctx, _ string) (control.Info, error) {
				select {
				case <-time.After(test.takes):
					return info, nil
				case <-ctx.Done():
					return control.Info{}, ctx.Err()
				}
			}).Once()
			resp, err := client.Do(authorized(t.Context(), "POST", "/v1/halt"))
			if err != nil {
				t.Fatalf("a backend that takes %v: %v", test.takes, err)
			}
			resp.Body.Close()
			if resp.StatusCode != test.status {
				t.Errorf("a backend that takes %v: status %d, want %d", test.takes, resp.StatusCode, test.status)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
}

func TestEndWaitsForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		l, client, stop := start(s)
		backend.EXPECT().Halt(anything, "").RunAndReturn(func(ctx ctx, _ string) (control.Info, error) {
			select {
			case <-time.After(server.Grace / 2):
				return info, nil
			case <-ctx.Done():
				return control.Info{}, ctx.Err()
			}
		})
		answered := make(chan int, 1)
		go func() {
			resp, err := client.Do(authorized(context.Background(), "POST", "/v1/halt"))
			if err != nil {
				t.Error(err)
				answered <- 0
				return
			}
			resp.Body.Close()
			answered <- resp.StatusCode
		}()
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
		if status := <-answered; status != http.StatusOK {
			t.Errorf("the request that was under way: status %d, want 200", status)
		}
		if _, err := l.DialContext(context.Background(), "", ""); err == nil {
			t.Error("the listener can be dialled after the end")
		}
	})
}

func TestEndBreaksOffWhatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, client, stop := start(s)
		var cause error
		backend.EXPECT().Halt(anything, "").RunAndReturn(func(ctx ctx, _ string) (control.Info, error) {
			<-ctx.Done()
			cause = ctx.Err()
			return control.Info{}, cause
		})
		failed := make(chan error, 1)
		go func() {
			resp, err := client.Do(authorized(context.Background(), "POST", "/v1/halt"))
			if err == nil {
				resp.Body.Close()
			}
			failed <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := stop(); err == nil || !strings.Contains(err.Error(), "broken off") {
			t.Errorf("Serve() = %v, want what was broken off", err)
		}
		if took := time.Since(began); took < server.Grace || took > server.Grace+time.Second {
			t.Errorf("the end took %v, want %v", took, server.Grace)
		}
		// The handler is over: what it has written can be read.
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the backend's context ended with %v, want context.Canceled", cause)
		}
		<-failed
	})
}

// It does with what has another request behind it, whose connection net/http does
// not watch.
func TestEndBreaksOffPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		l, _, stop := start(s)
		backend.EXPECT().Halt(anything, "").RunAndReturn(func(ctx ctx, _ string) (control.Info, error) {
			<-ctx.Done()
			return control.Info{}, ctx.Err()
		})
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "POST /v1/halt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nAuthorization: Bearer "+secret+"\r\n\r\n")
		synctest.Wait()
		io.WriteString(conn, "G")
		synctest.Wait()
		began := time.Now()
		if err := stop(); err == nil || strings.Contains(err.Error(), "still run") {
			t.Errorf("Serve() = %v, want what was broken off, and no handler left", err)
		}
		if took := time.Since(began); took > server.Grace+time.Second {
			t.Errorf("the end took %v, want %v", took, server.Grace)
		}
		conn.Close()
	})
}

func TestListenerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newServer(t)
		l := memnettest.New()
		l.Close()
		if err := s.Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve() = %v, want net.ErrClosed", err)
		}
	})
}

// What net/http itself says of a connection is in the log, and has nothing of a
// request in it.
func TestRequestThatIsNoHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, log := newServer(t)
		l, _, stop := start(s)
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(conn, secret+" / HTTP/1.1\r\nHost: localhost\r\n"+secret+"\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "400") {
			t.Errorf("answer %q, %v, want 400", line, err)
		}
		conn.Close()
		stop()
		if strings.Contains(log.String(), secret) {
			t.Errorf("log %s has the token", log)
		}
	})
}
