package mcpserver_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

func TestEndOfRunEndsEverything(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Hour}, func(t *testing.T, b *bed) {
		session, dead := b.initialize(), b.initialize()
		streams := []*stream{
			b.listen(session),
			b.listen(dead),
			b.listen("nobody"),
			b.open("POST", session, "", toolCall(1, "work", `{"events":1000,"interval_ms":1000}`)),
			b.open("POST", session, "", toolCall(2, "work", `{"events":1000,"interval_ms":1000,"detached":true}`)),
		}
		left := b.open("POST", session, "", toolCall(3, "work", `{"events":1000,"interval_ms":1000,"detached":true}`))
		left.cut()
		b.emit(dead, "x")
		b.server.Reap(dead)
		time.Sleep(time.Minute)

		began := time.Now()
		if err := b.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Run took %v to end, want at most 1s", took)
		}
		for i, s := range streams {
			if _, ended := s.settled(); !ended || s.err != nil {
				t.Errorf("stream %d ended %v (%v), want a clean end", i, ended, s.err)
			}
		}
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions, want 0", n)
		}
		if _, err := b.client.Do(b.request("POST", session, "", "{}")); err == nil {
			t.Error("a request after the end succeeded, want no connection")
		}

		h := b.server.Oracle().History()
		time.Sleep(24 * time.Hour)
		if at, died := b.server.Oracle().DiedAt(session); died {
			t.Errorf("DiedAt() = %v after the end, want that the session outlived the server", at)
		}
		for _, r := range h.Requests {
			if r.Ended.IsZero() {
				t.Errorf("request %+v has not ended, want all ended", r)
			}
		}
		if err := b.server.Close(); err != nil {
			t.Errorf("Close() after Run = %v, want nil", err)
		}
	})
}

func TestClientThatDoesNotReadDoesNotHoldUpTheEnd(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		resp, err := b.client.Do(b.request("POST", session, "", toolCall(1, "emit", `{"count":1000}`)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		synctest.Wait()
		began := time.Now()
		if err := b.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Run took %v to end, want the grace of 1s", took)
		}
	})
}

func TestRunReportsABrokenListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := mcpserver.New(mcpserver.Config{Listener: l})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := s.Run(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "mcpserver: serve on 127.0.0.1:1: ") {
			t.Errorf("Run() = %v, want that it cannot serve on its address", err)
		}
	})
}

func TestRunWorksOnce(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		refused := func(when string, s *mcpserver.Server) {
			t.Helper()
			if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "called before") {
				t.Errorf("Run() %s = %v, want that it was called before", when, err)
			}
		}
		synctest.Wait()
		refused("of a running server", b.server)
		session := b.initialize()
		b.stop()
		refused("after Run", b.server)
		closed, err := mcpserver.New(mcpserver.Config{Listener: memnettest.New()})
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
		refused("after Close", closed)
		if _, dead := b.server.Oracle().DiedAt(session); dead {
			t.Error("a session died of the end of Run, want that it did not")
		}
	})
}

func TestCloseEndsARunningServer(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		stream := b.listen(b.initialize())
		if err := b.server.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		if _, ended := stream.settled(); !ended {
			t.Error("stream is open after Close, want its end")
		}
	})
}

// Without Run, what is due happens when somebody asks.
func TestHandlerWorksInAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := memnettest.New()
		var deaths int
		s, err := mcpserver.New(mcpserver.Config{
			Listener: memnettest.New(), SessionTTL: time.Minute, LogRetention: time.Hour,
			Observe: func(r mcpserver.Record) {
				if r.Kind == mcpserver.SessionDied {
					deaths++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		hs := &http.Server{Handler: s.Handler()}
		go hs.Serve(outer)
		transport := &http.Transport{DialContext: outer.DialContext}
		b := &bed{t: t, server: s, client: &http.Client{Transport: transport}}

		began := time.Now()
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		b.emit(session, "two")
		cursor := stream.next().id
		time.Sleep(30 * time.Minute)
		if status := b.ping(session); status != 404 || deaths != 1 {
			t.Errorf("ping: %d, %d deaths told, want 404 and 1", status, deaths)
		}
		if at, _ := s.Oracle().DiedAt(session); !at.Equal(began.Add(time.Minute)) {
			t.Errorf("DiedAt() = %v, want a minute after %v, whenever it was found out", at, began)
		}
		replay := b.open("GET", session, cursor, "")
		if got, _ := replay.settled(); len(got) != 1 {
			t.Errorf("replay: %d events, want 1", len(got))
		}
		second := b.initialize()
		time.Sleep(30 * time.Minute)
		if at, dead := s.Oracle().DiedAt(second); !dead || deaths != 2 {
			t.Errorf("DiedAt() = %v, %v, and %d deaths told, want the second one's", at, dead, deaths)
		}
		if resp, _ := b.do("GET", session, cursor, ""); resp.StatusCode != 400 {
			t.Errorf("GET when the log has forgotten: %s, want 400", resp.Status)
		}

		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		if _, ended := replay.settled(); !ended {
			t.Error("stream is open after Close, want its end")
		}
		if resp, _ := b.do("POST", session, "", "{}"); resp.StatusCode != 503 {
			t.Errorf("POST after Close: %s, want 503", resp.Status)
		}
		hs.Close()
		transport.CloseIdleConnections()
	})
}

// eager sends every byte at once, and dawdles before it returns.
type eager struct{ http.ResponseWriter }

func (w eager) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.ResponseWriter.(http.Flusher).Flush()
	time.Sleep(time.Second)
	return n, err
}

// mcp-go registers a session after it has written the answer to initialize, and
// loses it if a GET comes in between.
func TestStreamOfASessionWaitsUntilMCPGoKnowsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := mcpserver.New(mcpserver.Config{Listener: memnettest.New()})
		if err != nil {
			t.Fatal(err)
		}
		hs := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w = eager{w}
			}
			s.Handler().ServeHTTP(w, r)
		})}
		go hs.Serve(l)
		transport := &http.Transport{DialContext: l.DialContext}
		b := &bed{t: t, server: s, client: &http.Client{Transport: transport}}

		resp, err := b.client.Do(b.request("POST", "", "", initializeBody))
		if err != nil {
			t.Fatal(err)
		}
		session, began := resp.Header.Get(sessionHeader), time.Now()
		stream := b.listen(session)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("GET was answered after %v, want with the end of initialize, after 1s", waited)
		}
		b.emit(session, "one")
		if got, _ := stream.settled(); len(got) != 1 {
			t.Errorf("%d events, want 1", len(got))
		}
		resp.Body.Close()
		s.Close()
		hs.Close()
		transport.CloseIdleConnections()
	})
}

func TestOnlyTheEndpointAnswers(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		resp, err := b.client.Get(strings.TrimSuffix(b.server.URL(), "/mcp") + "/other")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 404 || len(b.server.Oracle().History().Requests) != 0 {
			t.Errorf("GET /other: %s, want 404 and no record", resp.Status)
		}
	})
}

// The defect over real sockets, the waits on events only.
func TestDefectOverLoopback(t *testing.T) {
	transport := &http.Transport{}
	b := newBed(t, mcpserver.Config{Retry: time.Second}, transport)
	session := b.initialize()
	stream := b.listen(session)
	if f := stream.next(); f.retry != "1000" {
		t.Errorf("first on the stream: %+v, want the retry hint", f)
	}
	b.emit(session, "one")
	cursor := stream.next().id
	stream.cut()
	b.emit(session, "two")
	if !b.server.Reap(session) {
		t.Error("Reap() = false, want true")
	}
	resumed := b.open("GET", session, cursor, "")
	resumed.next()
	if f := resumed.next(); f.stamp(t) != (mcpserver.Stamp{Session: session, Seq: 2}) {
		t.Errorf("replay: %+v, want the second event", f)
	}
	if status := b.ping(session); status != 404 {
		t.Errorf("ping: %d, want 404", status)
	}

	call := b.open("POST", b.initialize(), "", toolCall(1, "work", `{"events":10000,"interval_ms":1}`))
	call.next()
	call = b.open("POST", b.initialize(), "", toolCall(1, "work", `{"events":10000,"interval_ms":1,"detached":true}`))
	call.next()
	if err := b.stop(); err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	for range resumed.frames {
	}
	if resumed.err != nil {
		t.Errorf("open stream at the end of Run: %v, want a clean end", resumed.err)
	}
	if _, err := net.Dial("tcp", b.server.Addr().String()); err == nil {
		t.Error("the port answers after the end of Run, want it free")
	}
}
