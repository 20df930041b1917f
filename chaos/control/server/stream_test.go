package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/mocks"
	"github.com/revenant-mcp/revenant/chaos/control/server"
)

// news is a run with events, to be followed: those so far, then those that come,
// until the channel is closed.
type news struct {
	so  []control.RunEvent
	far chan control.RunEvent
	// ended is how following ended.
	ended chan error
}

func expectNews(backend *mocks.Backend, so ...control.RunEvent) *news {
	n := &news{so: so, far: make(chan control.RunEvent), ended: make(chan error, 1)}
	backend.EXPECT().Run(anything, "r-01").Return(run, nil)
	backend.EXPECT().Events(anything, "r-01", anything, anything).RunAndReturn(func(ctx ctx, _ string, after int, f func(control.RunEvent) error) (err error) {
		defer func() { n.ended <- err }()
		for _, e := range n.so[min(after, len(n.so)):] {
			if err := f(e); err != nil {
				return err
			}
		}
		for {
			select {
			case e, ok := <-n.far:
				if !ok {
					return nil
				}
				if err := f(e); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return n
}

func event(n int, step string) control.RunEvent {
	return control.RunEvent{N: n, At: noon, State: control.Active, Step: step}
}

// follow opens the stream and returns its lines.
func follow(t *testing.T, client *http.Client, ctx context.Context, last string) (*http.Response, *bufio.Reader) {
	t.Helper()
	r := authorized(ctx, "GET", "/v1/runs/r-01/events")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("status %d, Content-Type %q, want an event stream", resp.StatusCode, got)
	}
	return resp, bufio.NewReader(resp.Body)
}

// want reads what a stream has next.
func want(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
		t.Fatalf("the stream has %q (%v), want %q", got, err, text)
	}
}

const (
	opening = ": the events of a run\n\n"
	alive   = ": alive\n\n"
	first   = "id: 1\nevent: run\ndata: {\"n\":1,\"at\":\"2026-11-30T12:00:00Z\",\"state\":\"active\",\"step\":\"a\"}\n\n"
	second  = "id: 2\nevent: run\ndata: {\"n\":2,\"at\":\"2026-11-30T12:00:00Z\",\"state\":\"active\",\"step\":\"line\\nbreak\"}\n\n"
	end     = "event: end\ndata: {}\n\n"
)

func TestStreamHasTheEventsAndEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, client, stop := start(s)
		n := expectNews(backend, event(1, "a"))
		resp, lines := follow(t, client, t.Context(), "")
		want(t, lines, opening+first)
		n.far <- event(2, "line\nbreak")
		want(t, lines, second)
		close(n.far)
		want(t, lines, end)
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("after the end: %q, %v", rest, err)
		}
		resp.Body.Close()
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	})
}

func TestStreamGoesOnAfterTheLastEventThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for last, rest := range map[string]string{"0": first + second, "1": second, "2": ""} {
			s, backend, _ := newServer(t)
			_, client, stop := start(s)
			n := expectNews(backend, event(1, "a"), event(2, "line\nbreak"))
			close(n.far)
			resp, lines := follow(t, client, t.Context(), last)
			want(t, lines, opening+rest+end)
			resp.Body.Close()
			stop()
		}
	})
}

// A run may say nothing for longer than any time that the server sets.
func TestSilentStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, client, stop := start(s)
		n := expectNews(backend)
		resp, lines := follow(t, client, t.Context(), "")
		want(t, lines, opening)
		began := time.Now()
		const comments = 40
		want(t, lines, strings.Repeat(alive, comments))
		if took := time.Since(began); took != comments*control.KeepAlive*time.Second {
			t.Errorf("%d comments took %v, want one each %d s", comments, took, control.KeepAlive)
		}
		n.far <- event(1, "a")
		want(t, lines, first)
		close(n.far)
		want(t, lines, end)
		resp.Body.Close()
		stop()
	})
}

func TestReaderThatLeavesEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, log := newServer(t)
		_, client, stop := start(s)
		n := expectNews(backend, event(1, "a"))
		ctx, leave := context.WithCancel(t.Context())
		resp, lines := follow(t, client, ctx, "")
		want(t, lines, opening+first)
		leave()
		began := time.Now()
		if err := <-n.ended; err == nil || time.Since(began) > time.Second {
			t.Errorf("following ended with %v after %v, want an error at once", err, time.Since(began))
		}
		resp.Body.Close()
		stop()
		if strings.Contains(log.String(), "internal error") {
			t.Errorf("log %s, want no error for who leaves", log)
		}
	})
}

func TestReaderThatIsTooSlowIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, log := newServer(t)
		l, _, stop := start(s)
		n := expectNews(backend, event(1, "a"))
		conn, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /v1/runs/r-01/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+secret+"\r\n\r\n")
		// Nothing is read: the first write never ends.
		began := time.Now()
		if err := <-n.ended; err == nil {
			t.Error("following ended without an error")
		}
		if took := time.Since(began); took != server.WriteTime {
			t.Errorf("given up after %v, want %v", took, server.WriteTime)
		}
		conn.Close()
		stop()
		if strings.Contains(log.String(), "internal error") {
			t.Errorf("log %s, want no error for who does not read", log)
		}
	})
}

func TestStreamEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, client, stop := start(s)
		n := expectNews(backend, event(1, "a"))
		resp, lines := follow(t, client, t.Context(), "")
		want(t, lines, opening+first)
		stopped, began := make(chan error, 1), time.Now()
		go func() { stopped <- stop() }()
		rest, err := io.ReadAll(lines)
		if err != nil || !strings.HasPrefix(string(rest), "event: problem\ndata: {\"type\":\"urn:revenant:unavailable\"") {
			t.Errorf("the rest is %q, %v, want a problem", rest, err)
		}
		resp.Body.Close()
		if err := <-stopped; err != nil || time.Since(began) > time.Second {
			t.Errorf("Serve() = %v after %v, want nil at once", err, time.Since(began))
		}
		<-n.ended
	})
}

func TestProblemOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			err  error
			want string
		}{
			{control.NewProblem(control.Unavailable, "soon"), `event: problem` + "\n" + `data: {"type":"urn:revenant:unavailable","title":"not available","status":503,"detail":"soon"}` + "\n\n"},
			{errors.New("disk I/O error"), `event: problem` + "\n" + `data: {"type":"urn:revenant:internal","title":"internal error","status":500,"detail":"the daemon's log says more"}` + "\n\n"},
		} {
			s, backend, _ := newServer(t)
			_, client, stop := start(s)
			backend.EXPECT().Run(anything, "r-01").Return(run, nil)
			backend.EXPECT().Events(anything, "r-01", 0, anything).Return(test.err)
			resp, lines := follow(t, client, t.Context(), "")
			want(t, lines, opening+test.want)
			resp.Body.Close()
			stop()
		}
	})
}

func TestStreamOfNoRunIsAProblem(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Run(anything, "r-09").Return(control.Run{}, control.NewProblem(control.NotFound, "there is no run r-09"))
	ask{path: "/v1/runs/r-09/events"}.problem(t, s, control.NotFound)
}

// Who asks for the head alone does not wait for the run.
func TestHeadOfAStream(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Run(anything, "r-01").Return(run, nil)
	w := serve(s, ask{method: "HEAD", path: "/v1/runs/r-01/events"}.request())
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() > 0 {
		t.Errorf("%d %q %q, want the head of a stream", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
}
