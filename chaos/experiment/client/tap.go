package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/revenant-mcp/revenant/middleware"
)

// The headers of MCP that say what a request is about.
const (
	headerSession = "Mcp-Session-Id"
	headerCursor  = "Last-Event-Id"
)

// maxPeek bounds what is read of a request's body to find out its method. What
// is longer is sent all the same.
const maxPeek = 64 << 10

// tap is a transport that logs the exchanges that pass it.
type tap struct {
	// Immutable.
	base  http.RoundTripper
	log   *Log
	layer Layer
	edge  *edge // nil on the wire
}

// RoundTrip implements [http.RoundTripper].
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := Record{
		Layer: t.layer, HTTPMethod: req.Method,
		SessionID: req.Header.Get(headerSession), Cursor: req.Header.Get(headerCursor),
	}
	release := func() {}
	if t.edge != nil {
		ctx, leave, err := t.edge.enter(req.Context(), rec.SessionID)
		if err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
		req, release = req.WithContext(ctx), leave
	}
	if req.Body != nil && req.Method == http.MethodPost {
		// A transport may not change the request that it is given.
		req = req.WithContext(req.Context())
		req.Body, rec.Method = peek(req.Body)
	}
	n := t.log.begin(rec)
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		t.note(rec, 0, err)
		t.log.add(Record{Kind: Over, Layer: t.layer, Ref: n, Err: err})
		release()
		return nil, err
	}
	t.note(rec, resp.StatusCode, nil)
	t.log.add(Record{
		Kind: Headed, Layer: t.layer, Ref: n, Status: resp.StatusCode,
		ContentType: resp.Header.Get("Content-Type"), SessionID: resp.Header.Get(headerSession),
	})
	b := &watchedBody{ReadCloser: resp.Body, over: release}
	b.ended = func(bytes int64, err error) {
		t.log.add(Record{Kind: Over, Layer: t.layer, Ref: n, Bytes: bytes, Err: err})
	}
	if t.edge != nil {
		b.ids = &idScanner{found: func(id string) {
			t.log.add(Record{Kind: Delivered, Layer: t.layer, Ref: n, EventID: id})
		}}
	}
	resp.Body = b
	return resp, nil
}

// CloseIdleConnections is what [http.Client] asks for.
func (t *tap) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// note tells the edge of the answer that says that a session is gone.
func (t *tap) note(rec Record, status int, err error) {
	if t.edge == nil || rec.SessionID == "" {
		return
	}
	dead := (*middleware.SessionResumptionError)(nil)
	switch {
	case status == http.StatusNotFound, status == http.StatusGone, errors.As(err, &dead):
		t.edge.gone(rec.SessionID, rec.HTTPMethod)
	case rec.HTTPMethod == http.MethodPost && status/100 == 4 && status != http.StatusTooManyRequests:
		t.edge.refuse(rec.SessionID)
	}
}

// watchedBody is a response's body whose end is noted once.
type watchedBody struct {
	io.ReadCloser
	over func()     // may be called again
	ids  *idScanner // nil: not looked for

	mu    sync.Mutex
	bytes int64
	ended func(int64, error) // nil once it was called
}

var errClosedEarly = errors.New("client: body closed before its end")

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.ids != nil {
		b.ids.scan(p[:n])
	}
	b.mu.Lock()
	b.bytes += int64(n)
	b.mu.Unlock()
	if err == io.EOF {
		b.end(nil)
	} else if err != nil {
		b.end(err)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(errClosedEarly)
	b.over()
	return err
}

func (b *watchedBody) end(err error) {
	b.mu.Lock()
	ended, bytes := b.ended, b.bytes
	b.ended = nil
	b.mu.Unlock()
	if ended != nil {
		ended(bytes, err)
	}
}

// peek returns a body that reads as the one that it is given, and closes it, and
// the JSON-RPC method of the message in it: "response" for a response, "" for
// what is neither.
func peek(body io.ReadCloser) (io.ReadCloser, string) {
	head, err := io.ReadAll(io.LimitReader(body, maxPeek))
	rest := io.Reader(body)
	if err != nil {
		rest = failing{err}
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), body}, methodOf(head)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// methodOf reads the head of a JSON-RPC message.
func methodOf(head []byte) string {
	d := json.NewDecoder(bytes.NewReader(head))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	answers := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if key == "result" || key == "error" {
			answers = true
		}
		if d.Decode(&value) != nil {
			break
		}
		if key == "method" {
			var method string
			_ = json.Unmarshal(value, &method)
			return method
		}
	}
	if answers {
		return "response"
	}
	return ""
}
