package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"
)

// naiveRetries is how often a call is made again that is answered 404 or 410.
const naiveRetries = 3

// naiveSession is a session of the naive client.
type naiveSession struct {
	c       *Client
	alive   *life
	id      string       // for Mcp-Session-Id; set before anything else runs
	next    atomic.Int64 // the latest JSON-RPC id
	running gauge        // the standalone stream, and answers to the server
}

// message is any JSON-RPC message.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// received is what is read of one.
type received struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta map[string]any `json:"_meta"`
		Mode string         `json:"mode"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// statusError is an answer that is none of MCP's.
type statusError struct {
	status int
	what   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("client: %s is answered %d %s", e.what, e.status, http.StatusText(e.status))
}

// gone is whether the server says that it does not know the session.
func gone(err error) bool {
	e := (*statusError)(nil)
	return errors.As(err, &e) && (e.status == http.StatusNotFound || e.status == http.StatusGone)
}

var errUnanswered = errors.New("client: the stream of the call has ended without an answer and without a cursor")

func dialNaive(ctx context.Context, c *Client) (session, error) {
	s := &naiveSession{c: c, alive: newLife(c.life)}
	params := map[string]any{
		"protocolVersion": ProtocolVersion,
		"clientInfo":      map[string]any{"name": "revenant-naive", "version": "1"},
		"capabilities":    map[string]any{"elicitation": map[string]any{}, "sampling": map[string]any{}, "roots": map[string]any{}},
	}
	answer, err := s.request(ctx, "initialize", params)
	if err == nil && answer.Error != nil {
		err = fmt.Errorf("client: initialize is answered with error %d: %s", answer.Error.Code, answer.Error.Message)
	}
	if err == nil {
		err = s.post(ctx, message{Method: "notifications/initialized"})
	}
	if err != nil {
		s.alive.end(err)
		_ = s.running.wait(context.Background())
		return nil, err
	}
	c.connected(s.alive, s.id)
	if !c.cfg.CallsOnly {
		s.start(s.listen)
	}
	return s, nil
}

func (s *naiveSession) life() *life { return s.alive }

// start runs what ends with the session.
func (s *naiveSession) start(f func()) {
	s.running.enter()
	go func() {
		defer s.running.leave()
		f()
	}()
}

// close ends a session that is not known to be dead.
func (s *naiveSession) close() {
	_ = s.running.wait(context.Background())
	if _, dead := s.c.edge.sign(s.id); dead || s.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.c.cfg.CloseTimeout)
	defer cancel()
	if resp, err := s.send(ctx, http.MethodDelete, nil, ""); err == nil {
		resp.Body.Close()
	}
}

// call calls a tool, and again if the server does not know the session.
func (s *naiveSession) call(ctx context.Context, tool string, args map[string]any) CallResult {
	if args == nil {
		args = map[string]any{}
	}
	var answer *received
	var err error
	for range 1 + naiveRetries {
		answer, err = s.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
		if !gone(err) || ctx.Err() != nil {
			break
		}
	}
	switch {
	case gone(err):
		return CallResult{How: SessionError, Err: err}
	case err != nil:
		return CallResult{How: TransportError, Err: err}
	case answer.Error != nil:
		return CallResult{How: RPCError, Code: answer.Error.Code, Err: errors.New(answer.Error.Message)}
	}
	var result struct {
		Meta    map[string]any `json:"_meta"`
		IsError bool           `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(answer.Result, &result); err != nil {
		return CallResult{How: TransportError, Err: fmt.Errorf("client: result of %s: %w", tool, err)}
	}
	r := CallResult{How: Result, Stamp: stampOf(result.Meta)}
	if result.IsError {
		r.How = ToolError
	}
	if len(result.Content) > 0 {
		r.Text = result.Content[0].Text
	}
	return r
}

// request sends a request and waits for its answer, over as many resumptions of
// its stream as that takes.
func (s *naiveSession) request(ctx context.Context, method string, params any) (*received, error) {
	id, err := json.Marshal(s.next.Add(1))
	if err != nil {
		return nil, err
	}
	resp, err := s.postBody(ctx, message{ID: id, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if method == "initialize" {
		s.id = resp.Header.Get(headerSession)
		s.alive.named(s.id)
	}
	var answer *received
	take := func(m received) bool {
		if m.Method == "" && bytes.Equal(m.ID, id) {
			answer = &m
		}
		return answer != nil
	}
	if !isSSE(resp) {
		defer resp.Body.Close()
		var m received
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			return nil, fmt.Errorf("client: answer to %s: %w", method, err)
		}
		if take(m); answer == nil {
			return nil, fmt.Errorf("client: answer to %s has the id %s, want %s", method, m.ID, id)
		}
		return answer, nil
	}
	stream := eventStream{retry: s.c.cfg.Retry}
	err = s.read(&stream, resp.Body, take)
	for answer == nil {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case stream.cursor == "":
			return nil, errors.Join(errUnanswered, err)
		case !pause(ctx, stream.retry):
			return nil, context.Cause(ctx)
		}
		if err = s.resume(ctx, &stream, take); gone(err) {
			return nil, err
		}
	}
	return answer, nil
}

// listen reads the standalone stream, and comes back whatever happens, until the
// server says that the session is gone.
func (s *naiveSession) listen() {
	stream := eventStream{retry: s.c.cfg.Retry}
	for {
		err := s.resume(s.alive.ctx, &stream, func(received) bool { return false })
		if gone(err) {
			// Who ends the session waits for this stream.
			s.c.over(s, err, ByReconnect)
			return
		}
		if !pause(s.alive.ctx, stream.retry) {
			return
		}
	}
}

// resume opens a stream, with the cursor if there is one, and reads it to its
// end.
func (s *naiveSession) resume(ctx context.Context, stream *eventStream, take func(received) bool) error {
	resp, err := s.send(ctx, http.MethodGet, nil, stream.cursor)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return &statusError{resp.StatusCode, "a GET"}
	}
	return s.read(stream, resp.Body, take)
}

// read handles the messages of a stream until it ends, or until take has what it
// wants. It closes the body.
func (s *naiveSession) read(stream *eventStream, body io.ReadCloser, take func(received) bool) error {
	defer body.Close()
	return stream.read(body, func(data []byte) (more bool) {
		var m received
		if json.Unmarshal(data, &m) != nil {
			return true
		}
		switch {
		case m.Method != "" && m.ID != nil:
			s.start(func() { s.answer(m) })
		case m.Method != "":
			s.c.applied(s.alive, m.Method, stampOf(m.Params.Meta))
		}
		return !take(m)
	})
}

// answer answers a request of the server's.
func (s *naiveSession) answer(r received) {
	reply := message{ID: r.ID}
	if r.Method == "ping" {
		reply.Result = struct{}{}
	} else {
		action, err := s.c.prompt(s.alive.ctx, s.alive, r.Method, stampOf(r.Params.Meta))
		if err != nil {
			return // Whoever leaves says nothing.
		}
		reply.Result, reply.Error = answerTo(r, action)
	}
	_ = s.post(s.alive.ctx, reply) // It has nobody to tell.
}

// answerTo is what the person's action comes to.
func answerTo(r received, action Action) (result, failure any) {
	refused := map[string]any{"code": -1, "message": errRefused.Error()}
	switch {
	case r.Method == "elicitation/create" && action == Accept && r.Params.Mode != "url":
		return map[string]any{"action": action, "content": map[string]any{"confirm": true}}, nil
	case r.Method == "elicitation/create":
		return map[string]any{"action": action}, nil
	case r.Method == "sampling/createMessage" && action == Accept:
		return map[string]any{"role": "assistant", "model": "none", "content": map[string]any{"type": "text", "text": sampled}}, nil
	case r.Method == "roots/list":
		return map[string]any{"roots": []any{map[string]any{"uri": root}}}, nil
	case r.Method == "sampling/createMessage":
		return nil, refused
	}
	return nil, map[string]any{"code": -32601, "message": "method not found"}
}

// post sends what has no answer.
func (s *naiveSession) post(ctx context.Context, m message) error {
	resp, err := s.postBody(ctx, m)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// postBody sends a message. The caller closes the body of the response, whose
// status is a good one.
func (s *naiveSession) postBody(ctx context.Context, m message) (*http.Response, error) {
	m.JSONRPC = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("client: %s: %w", m.Method, err)
	}
	resp, err := s.send(ctx, http.MethodPost, body, "")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		resp.Body.Close()
		return nil, &statusError{resp.StatusCode, m.Method}
	}
	return resp, nil
}

// send sends one HTTP request of the session.
func (s *naiveSession) send(ctx context.Context, method string, body []byte, cursor string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.c.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", ProtocolVersion)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.id != "" {
		req.Header.Set(headerSession, s.id)
	}
	if cursor != "" {
		req.Header.Set(headerCursor, cursor)
	}
	return s.c.http.Do(req)
}

func isSSE(resp *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return mediaType == "text/event-stream"
}

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
