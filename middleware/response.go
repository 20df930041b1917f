package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// terminal is how a client learns that its session is over. The body of the
// response is no JSON-RPC message on purpose: go-sdk takes a 404 with one for
// the failure of a single call and keeps the session.
func (t *Transport) terminal(req *http.Request, e *SessionResumptionError) (*http.Response, error) {
	if t.cfg.Terminal == TerminalError {
		return nil, e
	}
	kind := "session-dead"
	switch e.Err {
	case ErrLivenessUnknown:
		kind = "liveness-unknown"
	case ErrReplayTooLarge:
		kind = "replay-too-large"
	}
	problem, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"urn:revenant:" + kind, "The session cannot be resumed: initialize a new one", http.StatusNotFound, e.Error()})
	if err != nil {
		return nil, e
	}
	return ownResponse(req, http.StatusNotFound, "application/problem+json", problem, e), nil
}

// comeBackResponse is an event stream that ends at once and only repeats the
// cursor: a client that has none in the body it read would lose it.
func comeBackResponse(req *http.Request, e *SessionResumptionError, cursor string, retry time.Duration, extra []byte) *http.Response {
	body := append(bytes.Clone(extra), sse.Cursor(cursor, retry)...)
	resp := ownResponse(req, http.StatusOK, "text/event-stream", body, e)
	resp.Header.Set("Cache-Control", "no-cache")
	return resp
}

func ownResponse(req *http.Request, status int, contentType string, body []byte, e error) *http.Response {
	header := http.Header{"Content-Length": {strconv.Itoa(len(body))}}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &http.Response{
		Status:     strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req.WithContext(context.WithValue(req.Context(), errorKey{}, e)),
	}
}

// validHeaderValue reports whether a cursor can be sent in a header, RFC 9110
// section 5.5.
func validHeaderValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return v == strings.TrimSpace(v)
}

// contentType is what an answer says of itself, for an error.
func contentType(resp *http.Response) string { return clip(resp.Header.Get("Content-Type")) }

// clip keeps the beginning of a string that a server chose the length of.
func clip(s string) string {
	if len(s) <= maxRecordBytes {
		return strings.ToValidUTF8(s, "�")
	}
	s = s[:maxRecordBytes]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// countedBody tells at its Close how much of it was read.
type countedBody struct {
	io.ReadCloser
	read   atomic.Int64 // Close may come while a Read runs
	once   sync.Once
	closed func(read int64)
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func (b *countedBody) Close() error {
	b.once.Do(func() { b.closed(b.read.Load()) })
	return b.ReadCloser.Close()
}
