package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sessionHeader = "Mcp-Session-Id"

// bed is a running server with a raw HTTP client.
type bed struct {
	t      *testing.T
	server *mcpserver.Server
	client *http.Client
	dial   *memnettest.Listener
	stop   func() error // ends Run and waits; may be called again

	mu       sync.Mutex
	observed []mcpserver.Record
}

// virtual runs f in virtual time against a running server.
func virtual(t *testing.T, cfg mcpserver.Config, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := memnettest.New()
		cfg.Listener = l
		b := newBed(t, cfg, &http.Transport{DialContext: l.DialContext})
		b.dial = l
		f(t, b)
	})
}

func newBed(t *testing.T, cfg mcpserver.Config, transport *http.Transport) *bed {
	t.Helper()
	b := &bed{t: t, client: &http.Client{Transport: transport}}
	cfg.Observe = func(r mcpserver.Record) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.observed = append(b.observed, r)
	}
	s, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.server = s
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	b.stop = sync.OnceValue(func() error {
		cancel()
		defer transport.CloseIdleConnections()
		return <-ran
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	return b
}

// records is what Observe was told so far of a kind.
func (b *bed) records(kind mcpserver.Kind) []mcpserver.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []mcpserver.Record
	for _, r := range b.observed {
		if r.Kind == kind {
			found = append(found, r)
		}
	}
	return found
}

func (b *bed) request(method, session, cursor, body string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequest(method, b.server.URL(), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		r.Header.Set(sessionHeader, session)
	}
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	return r
}

// do sends a request and reads its whole answer.
func (b *bed) do(method, session, cursor, body string) (*http.Response, string) {
	b.t.Helper()
	resp, err := b.client.Do(b.request(method, session, cursor, body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp, string(all)
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// initialize begins a session and returns its id.
func (b *bed) initialize() string {
	b.t.Helper()
	resp, body := b.do("POST", "", "", initializeBody)
	session := resp.Header.Get(sessionHeader)
	if resp.StatusCode != 200 || session == "" {
		b.t.Fatalf("initialize: %s, session %q, %s", resp.Status, session, body)
	}
	if resp, _ := b.do("POST", session, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != 202 {
		b.t.Fatalf("initialized: %s, want 202", resp.Status)
	}
	return session
}

func (b *bed) ping(session string) int {
	b.t.Helper()
	resp, _ := b.do("POST", session, "", `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	return resp.StatusCode
}

func (b *bed) emit(session, text string) mcpserver.Stamp {
	b.t.Helper()
	stamp, err := b.server.Emit(session, text)
	if err != nil {
		b.t.Fatalf("Emit(%q) = %v, want nil", text, err)
	}
	return stamp
}

func toolCall(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args)
}

// stream is an answer that is read as it comes.
type stream struct {
	t    *testing.T
	resp *http.Response
	cut  context.CancelFunc // breaks the connection

	frames chan frame // closed at the end of the body
	err    error      // how the body ended; nil is a clean end; set before frames is closed
}

// frame is what stands between two blank lines.
type frame struct {
	id, retry, data string
}

// open sends a request and reads its answer in the background.
func (b *bed) open(method, session, cursor, body string) *stream {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := b.client.Do(b.request(method, session, cursor, body).WithContext(ctx))
	if err != nil {
		cancel()
		b.t.Fatal(err)
	}
	s := &stream{t: b.t, resp: resp, cut: cancel, frames: make(chan frame, 10_000)}
	go s.read()
	b.t.Cleanup(func() {
		cancel()
		for range s.frames {
		}
	})
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s: %s, %q, want 200 and a stream", method, resp.Status, resp.Header.Get("Content-Type"))
	}
	return s
}

func (b *bed) listen(session string) *stream { return b.open("GET", session, "", "") }

func (s *stream) read() {
	defer close(s.frames)
	defer s.resp.Body.Close()
	var f frame
	lines := bufio.NewScanner(s.resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			s.frames <- f
			f = frame{}
		case "id":
			f.id = value
		case "retry":
			f.retry = value
		case "data":
			f.data = value
		}
	}
	s.err = lines.Err()
}

// next waits for one frame.
func (s *stream) next() frame {
	s.t.Helper()
	f, ok := <-s.frames
	if !ok {
		s.t.Fatalf("stream ended (%v), want an event", s.err)
	}
	return f
}

// settled is every frame that has come when nothing moves any more, and whether
// the stream has ended. For bubbles only.
func (s *stream) settled() (got []frame, ended bool) {
	synctest.Wait()
	for {
		select {
		case f, ok := <-s.frames:
			if !ok {
				return got, true
			}
			got = append(got, f)
		default:
			return got, false
		}
	}
}

// message is what the tests look at in a frame's data.
type message struct {
	ID     *int
	Method string
	Params struct {
		Data any
		Meta map[string]any `json:"_meta"`
	}
	Result *struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]any `json:"_meta"`
	}
	Error *struct{ Message string }
}

func (f frame) message(t *testing.T) message {
	t.Helper()
	var m message
	if err := json.Unmarshal([]byte(f.data), &m); err != nil {
		t.Fatalf("frame %+v: %v", f, err)
	}
	return m
}

// stamp is that of a notification or of an answer.
func (f frame) stamp(t *testing.T) mcpserver.Stamp {
	t.Helper()
	m := f.message(t)
	meta := m.Params.Meta
	if m.Result != nil {
		meta = m.Result.Meta
	}
	s, ok := mcpserver.StampOf(meta)
	if !ok {
		t.Fatalf("frame %+v has no stamp", f)
	}
	return s
}

// texts are the notifications' data, in order; answers are left out.
func texts(t *testing.T, frames []frame) []string {
	t.Helper()
	var all []string
	for _, f := range frames {
		if m := f.message(t); m.Method != "" {
			all = append(all, fmt.Sprint(m.Params.Data))
		}
	}
	return all
}

// pumps counts the sessions for which mcp-go has a goroutine.
func pumps() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "startListeningPump.func1(")
}

// elapse lets that much of the bubble's time go by.
func elapse(d time.Duration) { time.Sleep(d) }
