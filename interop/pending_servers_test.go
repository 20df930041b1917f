package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// asker is a server whose tool confirm asks on the stream of its call, and
// which can ask on a session's standalone stream. It no longer waits for who
// does not answer before the stream breaks.
type asker interface {
	ask(t *testing.T, session string)
	emit(t *testing.T, session, text string)
}

// askers are the servers of the second seed's record: chaos/mcpserver, which
// is mcp-go's, and go-sdk's own. refuses is what they answer to an answer that
// nobody waits for, 202 or 400.
var askers = map[string]func(t *testing.T, refuses int, balancer lb.Config, f func(t *testing.T, b *bed, s asker)){
	"mcpserver": func(t *testing.T, refuses int, balancer lb.Config, f func(t *testing.T, b *bed, s asker)) {
		cfg := mcpserver.Config{
			Replay: mcpserver.ReplayInclusive, OnBreak: mcpserver.BreakCancels, StaleAnswer: refuses, Retry: time.Second,
		}
		virtual(t, cfg, balancer, func(t *testing.T, b *bed) { f(t, b, chaosAsker{b}) })
	},
	"go-sdk": func(t *testing.T, refuses int, balancer lb.Config, f func(t *testing.T, b *bed, s asker)) {
		synctest.Test(t, func(t *testing.T) {
			s := newOfficialAsker(refuses)
			f(t, askerBed(t, s, s.close, balancer), s)
		})
	},
}

// askerBed is [newHandlerBed] with a load balancer of one's own.
func askerBed(t *testing.T, h http.Handler, close func(), balancer lb.Config) *bed {
	t.Helper()
	back := memnettest.New()
	srv := &http.Server{Handler: h}
	background(t, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			close()
			srv.Close()
		})()
		_ = srv.Serve(back)
		return nil
	})
	return newBed(t, back, balancer)
}

type chaosAsker struct{ b *bed }

func (s chaosAsker) ask(t *testing.T, session string) {
	go func() { _, _ = s.b.server.Ask(context.Background(), session, "Really delete it?") }()
	synctest.Wait()
}

func (s chaosAsker) emit(_ *testing.T, session, text string) { s.b.emit(session, text) }

// officialAsker is go-sdk's server. That gives a tool no sign that the stream
// of its call is broken; this one sees its own requests end, and lets the tool
// know by a header. Its replays are inclusive: a cursor counts as the one before
// it. A [gosdk.EventStore] cannot do that without renumbering the events.
type officialAsker struct {
	server  *gosdk.Server
	next    http.Handler
	refuses int
	closed  chan struct{}
	life    context.Context // of the questions on standalone streams
	forget  context.CancelFunc
	calls   atomic.Int64
	waiting atomic.Int64 // calls that wait for an answer
	asking  atomic.Bool  // as does the standalone stream

	mu     sync.Mutex
	broken map[string]chan struct{} // by call
}

const headerCall = "X-Call"

var confirmSchema = map[string]any{
	"type": "object", "properties": map[string]any{"confirm": map[string]any{"type": "boolean"}},
}

func newOfficialAsker(refuses int) *officialAsker {
	s := &officialAsker{refuses: refuses, closed: make(chan struct{}), broken: make(map[string]chan struct{})}
	s.life, s.forget = context.WithCancel(context.Background())
	s.server = gosdk.NewServer(&gosdk.Implementation{Name: "official", Version: "1"}, nil)
	type message struct {
		Message string `json:"message"`
	}
	gosdk.AddTool(s.server, &gosdk.Tool{Name: "confirm"}, func(ctx context.Context, r *gosdk.CallToolRequest, args message) (*gosdk.CallToolResult, any, error) {
		s.mu.Lock()
		broken := s.broken[r.Extra.Header.Get(headerCall)]
		s.mu.Unlock()
		answered := make(chan string, 1)
		s.waiting.Add(1)
		go func() {
			result, err := r.Session.Elicit(ctx, &gosdk.ElicitParams{Message: args.Message, RequestedSchema: confirmSchema})
			if err == nil {
				answered <- result.Action
			}
		}()
		select {
		case action := <-answered:
			s.waiting.Add(-1)
			return officialText("confirm: " + action), nil, nil
		case <-broken:
			s.waiting.Add(-1)
		case <-s.closed:
		}
		<-s.closed // The call is forgotten.
		return nil, nil, io.ErrClosedPipe
	})
	type text struct {
		Text string `json:"text"`
	}
	gosdk.AddTool(s.server, &gosdk.Tool{Name: "echo"}, func(_ context.Context, _ *gosdk.CallToolRequest, args text) (*gosdk.CallToolResult, any, error) {
		return officialText(args.Text), nil, nil
	})
	s.next = gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return s.server }, &gosdk.StreamableHTTPOptions{
		EventStore: gosdk.NewMemoryEventStore(nil),
	})
	return s
}

func officialText(text string) *gosdk.CallToolResult {
	return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: text}}}
}

func (s *officialAsker) ask(t *testing.T, session string) {
	t.Helper()
	for ss := range s.server.Sessions() {
		if ss.ID() != session {
			continue
		}
		s.asking.Store(true)
		go func() {
			_, _ = ss.Elicit(s.life, &gosdk.ElicitParams{Message: "Really delete it?", RequestedSchema: confirmSchema})
		}()
		synctest.Wait()
		return
	}
	t.Fatalf("ask: no session %q", session)
}

// emit needs a client that has called SetLoggingLevel.
func (s *officialAsker) emit(t *testing.T, session, text string) {
	t.Helper()
	for ss := range s.server.Sessions() {
		if ss.ID() != session {
			continue
		}
		//lint:ignore SA1019 deprecated in the version that has no sessions
		if err := ss.Log(context.Background(), &gosdk.LoggingMessageParams{Level: "info", Data: text}); err != nil {
			t.Errorf("Log(%q) = %v, want nil", text, err)
		}
		synctest.Wait()
	}
}

func (s *officialAsker) close() {
	close(s.closed)
	s.forget()
	for ss := range s.server.Sessions() {
		ss.Close()
	}
}

func (s *officialAsker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		before(r.Header)
		s.next.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			s.asking.Store(false)
		}
		return
	}
	if r.Method == http.MethodDelete {
		s.forget() // go-sdk's server ends a session only when it has no question left
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	switch {
	case m.Method == "" && m.ID != nil && s.refuses >= 300 && s.waiting.Load() == 0 && !s.asking.Load():
		http.Error(w, "no request with that id is pending", s.refuses)
	case m.Method == "tools/call":
		call, broken := fmt.Sprint(s.calls.Add(1)), make(chan struct{})
		s.mu.Lock()
		s.broken[call] = broken
		s.mu.Unlock()
		r.Header.Set(headerCall, call)
		s.next.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			close(broken)
		}
	default:
		s.next.ServeHTTP(w, r)
	}
}

// before makes a cursor of go-sdk's server name the event before it.
func before(h http.Header) {
	stream, index, ok := strings.Cut(h.Get(headerCursor), "_")
	n, err := strconv.Atoi(index)
	switch {
	case !ok || err != nil:
	case n > 0:
		h.Set(headerCursor, fmt.Sprintf("%s_%d", stream, n-1))
	case stream == "":
		h.Del(headerCursor) // the whole standalone stream
	}
}
