package mcpserver_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

func restart(t *testing.T, s *mcpserver.Server) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Errorf("Restart() = %v, want nil", err)
	}
}

func TestRestartLosesTheSessionsAndKeepsTheLog(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		breaks := func(streams ...*stream) {
			t.Helper()
			for i, s := range streams {
				if got, ended := s.settled(); len(got) != 0 || !ended || s.err == nil {
					t.Errorf("stream %d: %+v, ended %v (%v), want that it breaks", i, got, ended, s.err)
				}
			}
		}
		t0 := time.Now()
		session, dead := b.initialize(), b.initialize()
		b.server.Reap(dead)
		stream := b.listen(session)
		b.emit(session, "one")
		b.emit(session, "two")
		cursor := stream.next().id
		stream.next()
		call, q := b.confirm(session, 1, `{"message":"?"}`)
		work := b.open("POST", session, "", toolCall(2, "work", `{"events":1000,"interval_ms":1000,"detached":true}`))
		worked := work.next().id
		unanswered := make(chan error, 1)
		go func() {
			resp, err := b.client.Do(b.request("POST", session, "", toolCall(3, "work", `{"events":1,"interval_ms":60000}`)))
			if err == nil {
				resp.Body.Close()
			}
			unanswered <- err
		}()
		elapse(time.Second / 2)
		stored := len(b.records(mcpserver.EventStored))

		began := time.Now()
		restart(t, b.server)
		if !time.Now().Equal(began) {
			t.Errorf("Restart took %v, want no time", time.Since(began))
		}
		breaks(stream, call, work)
		if err := <-unanswered; err == nil {
			t.Error("a call in flight was answered, want that it breaks")
		}
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions, want 0", n)
		}
		h := b.server.Oracle().History()
		if h.Sessions[0].Why != mcpserver.WhyRestarted || !h.Sessions[0].Died.Equal(began) || h.Sessions[1].Why != mcpserver.WhyReaped {
			t.Errorf("sessions %+v, want the first gone with the restart, the second before", h.Sessions)
		}
		if h.Asks[0].Why != mcpserver.WhySession {
			t.Errorf("asks %+v, want that it ended with its session", h.Asks)
		}
		for _, r := range h.Requests {
			if r.Ended.IsZero() {
				t.Errorf("request %+v has not ended, want all ended", r)
			}
		}
		if last := h.Requests[len(h.Requests)-1]; last.RPC != "tools/call" || last.Status != 0 {
			t.Errorf("the call that was not answered: %+v, want no status", last)
		}

		elapse(time.Minute)
		if n := len(b.records(mcpserver.EventStored)); n != stored {
			t.Errorf("%d events stored by what was, want 0", n-stored)
		}
		if resp, body := b.do("POST", session, "", pingBody); resp.StatusCode != 404 || body != "Invalid session ID\n" {
			t.Errorf("ping: %s %q, want 404 as of one that it never heard of", resp.Status, body)
		}
		if _, err := b.server.Emit(session, "x"); !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() = %v, want ErrSessionGone", err)
		}
		if status := b.reply(session, q.asked(t).ID, yes); status != 404 {
			t.Errorf("answer: %d, want 404", status)
		}
		got, ended := b.open("GET", session, cursor, "").settled()
		if !slices.Equal(texts(t, got), []string{"two"}) || !ended {
			t.Errorf("replay: %q, ended %v, want [two] and the end: no live stream is behind it", texts(t, got), ended)
		}
		if got, ended := b.open("GET", session, worked, "").settled(); len(got) != 0 || !ended {
			t.Errorf("replay of the call: %+v, ended %v, want none and the end", got, ended)
		}

		fresh := b.initialize()
		stream = b.listen(fresh)
		stamp := b.emit(fresh, "three")
		f := stream.next()
		if ids := []string{cursor, worked, q.id}; slices.Contains(ids, f.id) || stamp.Seq != len(h.Events)+1 {
			t.Errorf("first event afterwards: id %s, stamp %+v, want that the counts go on", f.id, stamp)
		}
		if _, again := b.confirm(fresh, 1, `{"message":"?"}`); again.asked(t).ID != q.asked(t).ID+1 {
			t.Errorf("question afterwards has the id %d, want %d", again.asked(t).ID, q.asked(t).ID+1)
		}
		if fresh := b.server.Oracle().History().Sessions[2]; fresh.Created.Sub(t0) < time.Minute {
			t.Errorf("session %+v, want a new one", fresh)
		}
	})
}

func TestRestartCutsIdleConnections(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		reused := func() (was bool) {
			trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { was = i.Reused }}
			r := b.request("POST", session, "", pingBody)
			resp, err := b.client.Do(r.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // or the connection is not used again
			resp.Body.Close()
			synctest.Wait()
			return was
		}
		reused()
		if !reused() {
			t.Error("before the restart, a ping came on a new connection, want the one that was there")
		}
		restart(t, b.server)
		synctest.Wait()
		if reused() {
			t.Error("after the restart, a ping came on the connection from before, want a new one")
		}
	})
}

func TestRestartKeepsTimeAndRules(t *testing.T) {
	cfg := mcpserver.Config{
		SessionTTL: time.Minute, LogRetention: time.Hour,
		Rules: []mcpserver.Rule{{On: mcpserver.OnPOST, RPC: "ping", Count: mcpserver.CountServer, From: 3, Status: 503}},
	}
	var extended atomic.Int32
	cfg.Extend = func(*mcpserver.Server, *server.MCPServer) { extended.Add(1) }
	virtual(t, cfg, func(t *testing.T, b *bed) {
		old := b.initialize()
		stream := b.listen(old)
		b.emit(old, "one")
		cursor := stream.next().id
		b.ping(old)
		restart(t, b.server)
		restart(t, b.server)
		if n := extended.Load(); n != 3 {
			t.Errorf("Extend was called %d times, want for each of 3 servers", n)
		}
		session := b.initialize()
		got := []int{b.ping(session), b.ping(session)}
		if want := []int{200, 503}; !slices.Equal(got, want) {
			t.Errorf("pings 2 and 3: %v, want %v", got, want)
		}
		elapse(time.Minute)
		synctest.Wait()
		if n := len(b.records(mcpserver.SessionDied)); n != 2 {
			t.Errorf("%d deaths observed, want 2, the second of age", n)
		}
		b.listen(old) // Unknown, but the log has something of it.
		synctest.Wait()
		elapse(time.Hour)
		synctest.Wait()
		if status := b.get(old, cursor); status != 400 {
			t.Errorf("GET when the log has forgotten: %d, want 400", status)
		}
	})
}

// Whoever serves the Handler has the connections; the answers on them break.
func TestRestartAbortsWhatAnotherServerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := mcpserver.New(mcpserver.Config{Listener: memnettest.New()})
		if err != nil {
			t.Fatal(err)
		}
		hs := &http.Server{Handler: s.Handler()}
		go hs.Serve(l)
		transport := &http.Transport{DialContext: l.DialContext}
		b := &bed{t: t, server: s, client: &http.Client{Transport: transport}}
		session := b.initialize()
		streams := []*stream{
			b.listen(session),
			b.open("POST", session, "", toolCall(1, "work", `{"events":100,"interval_ms":1}`)),
		}
		restart(t, s)
		for i, stream := range streams {
			got, ended := stream.settled()
			if !ended || stream.err == nil {
				t.Errorf("stream %d: ended %v (%v), want that it breaks", i, ended, stream.err)
			}
			for _, f := range got {
				if f.id == "" {
					t.Errorf("stream %d: %+v, want nothing of what the end of the tool brought about", i, f)
				}
			}
		}
		if status := b.ping(session); status != 404 {
			t.Errorf("ping: %d, want 404", status)
		}
		s.Close()
		if err := s.Restart(); !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("Restart() of a closed server = %v, want ErrClosed", err)
		}
		hs.Close()
		transport.CloseIdleConnections()
	})
}

// Without Run, nobody has noticed yet.
func TestRestartDoesNotChangeWhenASessionDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := mcpserver.New(mcpserver.Config{Listener: memnettest.New(), SessionTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		hs := &http.Server{Handler: s.Handler()}
		go hs.Serve(l)
		transport := &http.Transport{DialContext: l.DialContext}
		b := &bed{t: t, server: s, client: &http.Client{Transport: transport}}
		due := time.Now().Add(time.Minute)
		b.initialize()
		elapse(time.Hour)
		restart(t, s)
		if got := s.Oracle().History().Sessions[0]; got.Why != mcpserver.WhyExpired || !got.Died.Equal(due) {
			t.Errorf("session %+v, want that it died of age at %v", got, due)
		}
		s.Close()
		hs.Close()
		transport.CloseIdleConnections()
	})
}

func TestRestartAfterRunIsRefused(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		b.stop()
		if err := b.server.Restart(); !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("Restart() = %v, want ErrClosed", err)
		}
		if _, dead := b.server.Oracle().DiedAt(session); dead {
			t.Error("a session died of it, want that it did not")
		}
	})
}

// An emit that waits for a client meanwhile has nobody to send to any more.
func TestEmitThatWaitsEndsWithTheRestart(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		resp, err := b.client.Do(b.request("GET", session, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		failed := make(chan error, 1)
		go func() {
			for {
				if _, err := b.server.Emit(session, "x"); err != nil {
					failed <- err
					return
				}
			}
		}()
		synctest.Wait() // The client does not read, and everything between is full.
		restart(t, b.server)
		if err := <-failed; !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() = %v, want ErrSessionGone", err)
		}
	})
}

// The defect in its most common form: a deploy, and a log that outlives it.
func TestSDKClientAppliesWhatARestartHasLeftBehind(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: 5 * time.Second}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		b.emit(c.ID(), "alive")
		c.seen()
		c.cut()
		synctest.Wait()
		for range 3 {
			b.emit(c.ID(), "missed")
		}
		restart(t, b.server)
		elapse(5 * time.Second)
		if got := c.seen(); len(got) != 4 {
			t.Errorf("%d events handed on, want 4, 3 of them a dead session's", len(got))
		}
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
		if !errors.Is(err, mcp.ErrSessionMissing) {
			t.Errorf("CallTool() = %v, want ErrSessionMissing", err)
		}
	})
}

func TestRestartOnLoopback(t *testing.T) {
	transport := &http.Transport{}
	b := newBed(t, mcpserver.Config{}, transport)
	session := b.initialize()
	stream := b.listen(session)
	b.emit(session, "one")
	b.emit(session, "two")
	cursor := stream.next().id
	stream.next()
	addr := b.server.Addr().String()
	restart(t, b.server)
	if f, ok := <-stream.frames; ok || stream.err == nil {
		t.Errorf("stream: %+v (%v), want that it breaks", f, stream.err)
	}
	if b.server.Addr().String() != addr {
		t.Errorf("Addr() = %v, want %v", b.server.Addr(), addr)
	}
	if status := b.ping(session); status != 404 {
		t.Errorf("ping: %d, want 404", status)
	}
	again := b.open("GET", session, cursor, "")
	if f := again.next(); texts(t, []frame{f})[0] != "two" {
		t.Errorf("replay: %+v, want two", f)
	}
	if c, err := net.Dial("tcp", addr); err != nil {
		t.Errorf("Dial(%s) = %v, want that it listens", addr, err)
	} else {
		c.Close()
	}
}
