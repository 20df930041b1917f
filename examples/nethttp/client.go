package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// version is the latest of MCP that has sessions.
const version = "2025-11-25"

// session is one session of an MCP client.
type session struct {
	client *http.Client
	url    string
	id     string        // for Mcp-Session-Id
	cursor string        // the id of the last complete event, for Last-Event-ID
	retry  time.Duration // how long a reconnect waits, unless the server says otherwise
}

// initialize starts a session, without the id of any session before it.
func initialize(ctx context.Context, client *http.Client, url string) (*session, error) {
	s := &session{client: client, url: url, retry: 500 * time.Millisecond}
	for _, message := range []string{
		`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "` + version + `",
			"capabilities": {}, "clientInfo": {"name": "nethttp", "version": "1"}}}`,
		`{"jsonrpc": "2.0", "method": "notifications/initialized"}`,
	} {
		resp, err := s.send(ctx, http.MethodPost, message)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return nil, fmt.Errorf("initialize: %s", resp.Status)
		}
		if s.id == "" {
			s.id = resp.Header.Get("Mcp-Session-Id")
		}
	}
	return s, nil
}

// listen hands on the log messages of the standalone stream, and resumes the
// stream when it breaks. It returns when the session is over, with the reason, a
// *middleware.SessionResumptionError, or when ctx ends.
func (s *session) listen(ctx context.Context, handle func(text string)) error {
	for {
		resp, err := s.send(ctx, http.MethodGet, "")
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// The network is at fault, which says nothing of the session.
		case resp.StatusCode == http.StatusNotFound && middleware.ErrorFrom(resp) != nil:
			// The session is over, and the specification asks for a new one.
			// The middleware wrote this 404, with the reason in it.
			resp.Body.Close()
			return middleware.ErrorFrom(resp)
		case resp.StatusCode != http.StatusOK:
			resp.Body.Close()
			return fmt.Errorf("listen: %s", resp.Status)
		default:
			s.read(resp.Body, handle)
			resp.Body.Close()
		}
		wait := time.NewTimer(s.retry)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
}

// read reads events until the stream ends, and keeps what the reconnect needs.
// An event that the end leaves unfinished is dropped: its id is not kept, so the
// server sends it again. Of the three ends of a line that SSE allows, a CR alone
// is left out.
func (s *session) read(stream io.Reader, handle func(text string)) {
	lines := bufio.NewReader(stream)
	id, data := s.cursor, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "": // the event is complete
			s.cursor = id
			var message struct {
				Method string
				Params struct{ Data string }
			}
			if json.Unmarshal([]byte(data), &message) == nil && message.Method == "notifications/message" {
				handle(message.Params.Data)
			}
			data = ""
		case field == "id":
			id = value
		case field == "data":
			data += value + "\n"
		case field == "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// end tells the server that the client has no more use for the session.
func (s *session) end(ctx context.Context) error {
	resp, err := s.send(ctx, http.MethodDelete, "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// send sends one request of the session. The caller closes the response's body.
func (s *session) send(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Mcp-Protocol-Version", version)
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
	}
	if s.cursor != "" && method == http.MethodGet {
		req.Header.Set("Last-Event-ID", s.cursor)
	}
	return s.client.Do(req)
}
