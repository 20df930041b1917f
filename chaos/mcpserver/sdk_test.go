package mcpserver_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// sdk is an unmodified go-sdk client, and the stamps that it handed on.
type sdk struct {
	*mcp.ClientSession

	mu     sync.Mutex
	stamps []mcpserver.Stamp
	conns  []net.Conn
}

// connect connects a go-sdk client of a protocol version; "" is its newest.
func connect(b *bed, version string) *sdk { return connectWith(b, version, &mcp.ClientOptions{}) }

// connectWith is connect with handlers.
func connectWith(b *bed, version string, options *mcp.ClientOptions) *sdk {
	b.t.Helper()
	s := &sdk{}
	//lint:ignore SA1019 In the versions that have sessions, log messages are not deprecated.
	options.LoggingMessageHandler = func(_ context.Context, r *mcp.LoggingMessageRequest) {
		stamp, ok := mcpserver.StampOf(r.Params.Meta)
		if !ok {
			b.t.Errorf("log message %+v has no stamp", r.Params)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stamps = append(s.stamps, stamp)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := b.dial.DialContext(ctx, network, addr)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, c)
		return c, err
	}}
	session, err := client.Connect(b.t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   b.server.URL(),
		HTTPClient: &http.Client{Transport: transport},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		b.t.Fatal(err)
	}
	s.ClientSession = session
	b.t.Cleanup(func() {
		session.Close()
		transport.CloseIdleConnections()
	})
	return s
}

// cut breaks all of the client's connections.
func (s *sdk) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c != nil {
			c.Close()
		}
	}
	s.conns = nil
}

// seen is every stamp handed on when nothing moves any more.
func (s *sdk) seen() []mcpserver.Stamp {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stamps)
}

func TestSDKClientSeesEveryStamp(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: time.Second}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		var want []mcpserver.Stamp
		for range 3 {
			want = append(want, b.emit(c.ID(), "x"))
		}
		if got := c.seen(); !slices.Equal(got, want) {
			t.Errorf("stamps of the standalone stream: %v, want %v", got, want)
		}
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "emit", Arguments: map[string]any{"count": 2}})
		if err != nil {
			t.Fatal(err)
		}
		answer, ok := mcpserver.StampOf(result.Meta)
		if !ok {
			t.Errorf("answer %+v has no stamp", result)
		}
		got := append(c.seen(), answer)
		for i, s := range got {
			if s != (mcpserver.Stamp{Session: c.ID(), Seq: i + 1}) {
				t.Errorf("stamp %d is %+v, want %s's and that number", i+1, s, c.ID())
			}
		}
		if len(got) != 6 {
			t.Errorf("%d stamps, want 6", len(got))
		}
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 8 {
			t.Errorf("ListTools() = %+v, %v, want 8 tools", tools, err)
		}
	})
}

// The control group of every experiment: a client without protection applies
// what a dead session left behind.
func TestSDKClientAppliesADeadSessionsReplay(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: 5 * time.Second}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		b.emit(c.ID(), "alive")
		c.seen()
		c.cut()
		synctest.Wait()
		for range 10 {
			b.emit(c.ID(), "missed")
		}
		b.server.Reap(c.ID())
		time.Sleep(5 * time.Second)
		if got := c.seen(); len(got) != 11 {
			t.Errorf("%d events handed on, want 11, 10 of them a dead session's", len(got))
		}
		died, _ := b.server.Oracle().DiedAt(c.ID())
		requests := b.server.Oracle().History().Requests
		last := requests[len(requests)-1]
		if last.Method != "GET" || last.LastEventID == "" || last.Status != 200 || last.SessionAlive || !last.At.Equal(died.Add(5*time.Second)) {
			t.Errorf("last request %+v, want the resume 5s after the cut, answered 200, of a dead session", last)
		}
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}})
		if !errors.Is(err, mcp.ErrSessionMissing) {
			t.Errorf("CallTool() = %v, want ErrSessionMissing", err)
		}
	})
}

func TestSDKClientResumesACallsStream(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: time.Second}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		time.AfterFunc(3500*time.Millisecond, c.cut)
		began := time.Now()
		result, err := c.CallTool(t.Context(), &mcp.CallToolParams{
			Name:      "work",
			Arguments: map[string]any{"events": 10, "interval_ms": 1000, "detached": true},
		})
		if err != nil || result.IsError || time.Since(began) != 10*time.Second {
			t.Errorf("CallTool() = %+v, %v after %v, want an answer after 10s", result, err, time.Since(began))
		}
		var want []int
		for i := range 10 {
			want = append(want, i+1)
		}
		var got []int
		for _, s := range c.seen() {
			got = append(got, s.Seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("stamps %v, want %v", got, want)
		}
	})
}

func TestSDKClientCancelsACall(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, err := c.CallTool(ctx, &mcp.CallToolParams{
			Name:      "work",
			Arguments: map[string]any{"events": 100, "interval_ms": 1000, "detached": true},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("CallTool() = %v, want that it was cancelled", err)
		}
		time.Sleep(time.Minute)
		if n := len(c.seen()); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
		if n := len(b.server.Oracle().History().Events); n != 3 {
			t.Errorf("%d events stored, want 2 and the error", n)
		}
	})
}

// A client that knows of newer versions ends up with a session all the same.
func TestSDKClientOfTheNewestVersionGetsASession(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		c := connect(b, "")
		if version := c.InitializeResult().ProtocolVersion; c.ID() == "" || version != "2025-11-25" {
			t.Errorf("session %q of version %s, want one of 2025-11-25", c.ID(), version)
		}
		b.emit(c.ID(), "x")
		if n := len(c.seen()); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

func TestSDKClientDeletesItsSession(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		b.emit(c.ID(), "x")
		id := c.ID()
		if err := c.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
		synctest.Wait()
		died := b.records(mcpserver.SessionDied)
		if len(died) != 1 || died[0].Session.ID != id || died[0].Session.Why != mcpserver.WhyDeleted {
			t.Errorf("deaths: %+v, want that of %s, deleted", died, id)
		}
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions, want 0", n)
		}
	})
}
