package interop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stub is an MCP server that answers as a test tells it to. What a test does
// not say, it does as the specification asks.
type stub struct {
	mu       sync.Mutex
	sessions int
	dead     map[string]bool
	gets     int

	// Set before the first request. n counts the GETs of all sessions from 1.
	// The handlers are for sessions that live and for dead ones alike, but for
	// ping and call, which only a living one reaches.
	get  func(w http.ResponseWriter, r *http.Request, n int)
	ping func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
	call func(w http.ResponseWriter, r *http.Request, id json.RawMessage)
}

// virtualStub runs f in a bubble against a stub behind a load balancer.
func virtualStub(t *testing.T, f func(t *testing.T, b *bed, s *stub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		f(t, newHandlerBed(t, s, nil), s)
	})
}

// kill ends a session: its requests are answered 404 from now on, but for GETs.
func (s *stub) kill(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		s.dead = map[string]bool{}
	}
	s.dead[session] = true
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var msg struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &msg) != nil {
			http.Error(w, "no JSON-RPC message", http.StatusBadRequest)
			return
		}
	}
	session := r.Header.Get(headerSession)
	s.mu.Lock()
	if r.Method == http.MethodGet {
		s.gets++
	}
	n, dead := s.gets, s.dead[session]
	if msg.Method == "initialize" {
		s.sessions++
		w.Header().Set(headerSession, fmt.Sprintf("stub-%d", s.sessions))
	}
	s.mu.Unlock()

	switch {
	case msg.Method == "initialize":
		result(w, msg.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"stub","version":"1"}}`)
	case r.Method == http.MethodGet && s.get != nil:
		s.get(w, r, n)
	case r.Method == http.MethodGet:
		quiet(w, r)
	case dead:
		http.Error(w, "Session not found", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case msg.ID == nil, msg.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case msg.Method == "ping" && s.ping != nil:
		s.ping(w, r, msg.ID)
	case msg.Method == "tools/call" && s.call != nil:
		s.call(w, r, msg.ID)
	case msg.Method == "tools/call":
		result(w, msg.ID, `{"content":[{"type":"text","text":"ok"}]}`)
	default:
		result(w, msg.ID, `{}`)
	}
}

// result is a JSON answer.
func result(w http.ResponseWriter, id json.RawMessage, value string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, value)
}

// open starts an SSE answer.
func open(w http.ResponseWriter, raw ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	say(w, raw...)
}

// say writes to one.
func say(w http.ResponseWriter, raw ...string) {
	for _, part := range raw {
		_, _ = io.WriteString(w, part)
	}
	_ = http.NewResponseController(w).Flush()
}

// quiet is a stream on which nothing happens until it is closed.
func quiet(w http.ResponseWriter, r *http.Request) {
	open(w, ": quiet\n\n")
	<-r.Context().Done()
}

// note is an event with a log message. An empty id is none.
func note(id, text string) string {
	event := fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":%q}}\n\n", text)
	if id != "" {
		event = "id: " + id + "\n" + event
	}
	return event
}

// answerTo is an event with the answer to a call.
func answerTo(id json.RawMessage, text string) string {
	return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%q}]}}\n\n", id, text)
}

// pause lets time go by in a handler. It reports false if the client left.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
