package mcpserver

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// What is over leaves nothing behind in the server's own books.
func TestRestartAndClosedConnectionsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		s, err := New(Config{Listener: l})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		transport := &http.Transport{DialContext: l.DialContext}
		for range 3 {
			resp, err := (&http.Client{Transport: transport}).Post(s.URL(), "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			transport.CloseIdleConnections()
			if err := s.Restart(); err != nil {
				t.Errorf("Restart() = %v, want nil", err)
			}
		}
		synctest.Wait()
		s.mu.Lock()
		if len(s.conns) != 0 {
			t.Errorf("the server knows of %d connections, want 0", len(s.conns))
		}
		s.mu.Unlock()
		if n := len(s.log.attached()); n != 1 {
			t.Errorf("the log knows of %d processes, want 1", n)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

func TestStoreForgetsWhatAForgottenSessionReplaced(t *testing.T) {
	s := newSessionStore(time.Hour, newOracle(nil, func() {}))
	by, created := s.replace("one", 0)
	if again, more := s.replace("one", 0); created == nil || more != nil || again != by {
		t.Errorf("replace() again = %q, %v, want %q, which is there", again, more, by)
	}
	s.end(by, WhyReaped)
	s.forget(by)
	if len(s.replaced) != 0 || len(s.records) != 0 {
		t.Errorf("the store has %v and %v, want nothing", s.replaced, s.records)
	}
}
