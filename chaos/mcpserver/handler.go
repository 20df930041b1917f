package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	path = "/mcp"
	// maxBody bounds a POST; mcp-go reads it whole.
	maxBody = 4 << 20
)

// call is one request to the endpoint.
type call struct {
	server  *Server
	process *process
	n       int // the oracle's number
	method  string
	sent    string // the session id that the client sent, or ""
	session string // that in whose name it is answered
	cursor  string
	rpc     rpcHead
	inner   string // the inner session that mcp-go sees, or ""
	// admitted is whether mcp-go has asked the session store, and been told that
	// the session lives.
	admitted bool
	// checked is whether the session's life has been looked into, and mcp-go is
	// not to ask again.
	checked bool
	// resumes is whether mcp-go is to replay something.
	resumes bool
	// reaps is whether a rule says so, after the replay.
	reaps bool
	// streaming is whether the header of an SSE answer has been written.
	streaming bool
	// ctx ends with the connection or with the server. mcp-go's handlers have
	// a context that outlives the connection: see [process.outlive].
	ctx context.Context
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// outlive is mcp-go's context func: it applies to POSTs. mcp-go would stop
// passing on what a handler sends when the connection breaks, so that nothing
// could reach a client that resumes the stream. So mcp-go does not hear of the
// break, and every tool decides for itself whether it ends with it.
func (s *process) outlive(ctx context.Context, _ *http.Request) context.Context {
	return context.WithoutCancel(ctx)
}

// serve records a request that came to one of the process's servers, decides
// which inner session mcp-go is to see, and lets mcp-go answer.
func (s *process) serve(at *Server, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	defer context.AfterFunc(at.life, cancel)()

	c := s.arrive(at, r)
	a := &answer{ResponseWriter: w, process: s, call: c}
	defer a.abort()
	defer s.ended(c, a)
	if s.cfg.Cookie != "" {
		http.SetCookie(a, &http.Cookie{Name: s.cfg.Cookie, Value: strconv.Itoa(at.replica), Path: "/"})
	}
	body, status := s.readBody(w, r, c)
	if !s.interpose(ctx, a, c) {
		return
	}
	if status != 0 {
		http.Error(a, http.StatusText(status), status)
		return
	}
	if r.Method == http.MethodGet && c.session == "" && !mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) {
		// MCP 2025-11-25 basic/transports#session-management, 2. mcp-go would
		// open a stream for a new session whose id it tells nobody.
		http.Error(a, server.HeaderKeySessionID+" is missing", http.StatusBadRequest)
		return
	}

	r = r.Clone(ctx) // Its header is not ours to change.
	if !s.admit(a, r, c) {
		return
	}
	if c.inner = s.innerFor(c); c.inner != "" {
		if s.inners.enter(ctx, c.inner, c.rpc.callID()) != nil {
			c.inner = "" // The client is gone.
			return
		}
	}
	if !s.hold(ctx, a, c) {
		return
	}
	c.ctx = context.WithValue(ctx, callKey{}, c)
	r = r.WithContext(c.ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if c.inner != "" {
		r.Header.Set(server.HeaderKeySessionID, c.inner)
	}
	if first := s.fullReplayFrom(c); first != "" {
		r.Header.Set(mcp.HeaderLastEventID, first)
	}
	c.resumes = r.Header.Get(mcp.HeaderLastEventID) != ""
	if c.method == http.MethodPost && c.rpc.isResponse() {
		s.takeAnswer(a, r, c, body)
	} else {
		s.mcp.ServeHTTP(a, r)
	}
	if c.ctx.Err() != nil || a.failed {
		s.detached(c)
	}

	if r.Method == http.MethodDelete && a.status < 300 && c.session != "" {
		for _, id := range s.inners.of(c.session) {
			s.discard(id)
			s.drop(id)
		}
	}
}

// arrive records the request, and what the session's state was before it.
func (s *process) arrive(at *Server, r *http.Request) *call {
	s.settle()
	c := &call{
		server:  at,
		process: s,
		method:  r.Method,
		sent:    r.Header.Get(server.HeaderKeySessionID),
		cursor:  r.Header.Get(mcp.HeaderLastEventID),
	}
	c.session = c.sent
	var cookie string
	if s.cfg.Cookie != "" {
		if sent, err := r.Cookie(s.cfg.Cookie); err == nil {
			cookie = sent.Value
		}
	}
	alive := s.sessions.alive
	if s.cfg.Refresh == RefreshAny {
		alive = s.sessions.refresh
	}
	c.n = s.oracle.requestArrived(Request{
		At: time.Now(), Method: c.method, SessionID: c.session, LastEventID: c.cursor,
		SessionAlive: alive(c.session), Replica: at.replica, Cookie: cookie,
	})
	return c
}

// readBody reads a POST whole and notes what it is. A status other than 0 is
// how to refuse it.
func (s *process) readBody(w http.ResponseWriter, r *http.Request, c *call) (body []byte, status int) {
	if r.Method == http.MethodPost {
		var err error
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		} else if err != nil {
			status = http.StatusBadRequest
		}
		c.rpc = parseHead(body)
	}
	s.oracle.tell(s.oracle.updateRequest(c.n, RequestArrived, time.Now(), func(r *Request) { r.RPC = c.rpc.name() }))
	return body, status
}

// innerFor chooses the inner session that answers a request, or "" to leave the
// header as it is.
func (s *process) innerFor(c *call) string {
	switch {
	case c.session == "" || c.rpc.Method == string(mcp.MethodInitialize):
		return ""
	case c.method == http.MethodPost && c.rpc.isResponse():
		return c.session
	case c.method == http.MethodPost:
		// mcp-go finds the call to cancel by the inner session and the id.
		if id := s.inners.ofCall(c.session, c.rpc.cancels()); id != "" {
			return id
		}
		return postInner(c.session, c.n)
	case c.method == http.MethodGet && c.cursor != "":
		if from, _ := s.log.from(c.session, c.cursor); from != nil {
			return from.inner
		}
	}
	return c.session
}

// ended completes the record of a request and lets go of its inner session.
func (s *process) ended(c *call, a *answer) {
	if a.status == 0 && !a.aborted && !s.killed.Load() {
		a.note(http.StatusOK) // What net/http makes of an answer without one.
	}
	now := time.Now()
	s.oracle.tell(s.oracle.updateRequest(c.n, RequestEnded, now, func(r *Request) { r.Ended = now }))
	if c.inner != "" {
		s.inners.release(c.inner, c.n)
		s.inners.leave(c.inner)
		s.drop(c.inner)
	}
}

// answer is a response that the oracle watches, with the retry hint in front of
// an SSE body.
type answer struct {
	http.ResponseWriter
	process *process
	call    *call
	status  int  // 0 until it is known
	failed  bool // a write did not succeed
	aborted bool // there is to be no answer
}

// abort breaks the connection of a request that is to have no answer, or no more
// of one than it has.
func (a *answer) abort() {
	if a.aborted || a.process.killed.Load() {
		panic(http.ErrAbortHandler)
	}
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements [http.Flusher], which mcp-go asks for.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

func (a *answer) WriteHeader(status int) {
	if a.process.killed.Load() {
		return // It is going to be aborted.
	}
	if a.status != 0 || status < 200 {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	mediaType, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type"))
	sse := mediaType == "text/event-stream"
	if sse {
		a.call.streaming = true
		a.process.attached(a.call)
	}
	a.note(status)
	a.ResponseWriter.WriteHeader(status)
	if retry := a.process.cfg.Retry; sse && retry > 0 {
		fmt.Fprintf(a.ResponseWriter, "retry: %d\n\n", retry.Milliseconds())
	}
	if sse {
		a.process.opened(a.call)
	}
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.process.killed.Load() {
		a.failed = true
		return 0, errRestarted
	}
	out := p
	if a.call.streaming {
		out = unwrapFrame(p)
	}
	if _, err := a.ResponseWriter.Write(out); err != nil {
		a.failed = true
		return 0, err
	}
	return len(p), nil
}

// note records the status before the client can see it.
func (a *answer) note(status int) {
	a.status = status
	now, c := time.Now(), a.call
	a.process.oracle.tell(a.process.oracle.updateRequest(c.n, RequestAnswered, now, func(r *Request) {
		r.Status = status
		if r.SessionID == "" {
			r.SessionID = sessionOf(c.inner)
		}
	}))
}

// rpcHead is what is known of a JSON-RPC message without reading it all.
type rpcHead struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// parseHead returns the zero rpcHead for what is not one JSON-RPC message.
func parseHead(body []byte) rpcHead {
	var h rpcHead
	if json.Unmarshal(body, &h) != nil {
		return rpcHead{}
	}
	return h
}

func (h rpcHead) isResponse() bool { return h.Method == "" && h.ID != nil }

func (h rpcHead) name() string {
	if h.isResponse() {
		return "response"
	}
	return h.Method
}

// callID is the id of a request, or "".
func (h rpcHead) callID() string {
	if h.Method == "" {
		return ""
	}
	return string(h.ID)
}

// cancels is the id of the request that the message cancels, or "".
func (h rpcHead) cancels() string {
	if h.Method != string(mcp.MethodNotificationCancelled) {
		return ""
	}
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(h.Params, &params)
	return string(params.RequestID)
}
