package mcpserver

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// An inner session is what mcp-go takes for a session. One bears the session's
// own id: mcp-go has it from initialize, and its standalone stream is the
// session's. Every POST gets another, so that no other stream can take its
// messages. A NUL parts their names: no HTTP header can bring one in.
const innerMark = "\x00"

func postInner(session string, n int) string { return session + innerMark + strconv.Itoa(n) }

func sessionOf(inner string) string {
	session, _, _ := strings.Cut(inner, innerMark)
	return session
}

// inners knows the inner sessions for which mcp-go may hold state.
type inners struct {
	mu        sync.Mutex
	bySession map[string]map[string]*inner
}

// inner is one of them. Guarded by inners.mu.
type inner struct {
	open int           // requests and emits that need it
	busy chan struct{} // not nil: wait until it is closed, then look again
	// stream is whether mcp-go has made an SSE stream of it.
	stream bool
	// carrier is the number of the request whose answer carries the stream, or
	// 0 if it is broken. Not 0 => stream.
	carrier int
	// holder is the number of the request that has the stream to itself, as
	// long as its connection lasts, or 0. See [Config.Conflict].
	holder int
	// rpcID is the JSON-RPC id of the POST that it was made for, verbatim.
	rpcID string
	// notify takes what is to go on the standalone stream. nil until mcp-go
	// has registered the session.
	notify chan<- mcp.JSONRPCNotification
}

func newInners() *inners { return &inners{bySession: make(map[string]map[string]*inner)} }

func (x *inners) getLocked(id string) *inner { return x.bySession[sessionOf(id)][id] }

func (x *inners) makeLocked(id string) *inner {
	in := x.getLocked(id)
	if in == nil {
		in = &inner{}
		if x.bySession[sessionOf(id)] == nil {
			x.bySession[sessionOf(id)] = make(map[string]*inner)
		}
		x.bySession[sessionOf(id)][id] = in
	}
	return in
}

// begin is enter for the initialize request that has just made the session. A
// GET or DELETE waits until that has left: mcp-go registers a session after it
// has written the answer that makes it known, and takes a GET in between for
// another's.
func (x *inners) begin(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.makeLocked(id)
	in.open++
	in.busy = make(chan struct{})
}

// enter keeps an inner session until leave. rpcID is that of a POST, or "".
func (x *inners) enter(ctx context.Context, id, rpcID string) error {
	for {
		x.mu.Lock()
		in := x.makeLocked(id)
		busy := in.busy
		if busy == nil {
			in.open++
			if in.rpcID == "" {
				in.rpcID = rpcID
			}
			x.mu.Unlock()
			return nil
		}
		x.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// enterStandalone is enter for one who wants to send on the standalone stream.
// It returns nil if the session never had one.
func (x *inners) enterStandalone(session string) chan<- mcp.JSONRPCNotification {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(session)
	if in == nil || in.busy != nil || !in.stream || in.notify == nil {
		return nil
	}
	in.open++
	return in.notify
}

// streams is whether mcp-go has made a stream of an inner session.
func (x *inners) streams(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	return in != nil && in.stream
}

func (x *inners) leave(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	in.open--
	if in.busy != nil {
		close(in.busy)
		in.busy = nil
	}
}

// of lists the inner sessions of a session, but for its standalone stream's.
func (x *inners) of(session string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for id := range x.bySession[session] {
		if id != session {
			ids = append(ids, id)
		}
	}
	return ids
}

func (x *inners) all() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for _, members := range x.bySession {
		for id := range members {
			ids = append(ids, id)
		}
	}
	return ids
}

// ofCall is the inner session of the POST in flight with that JSON-RPC id, or "".
func (x *inners) ofCall(session, rpcID string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, in := range x.bySession[session] {
		if rpcID != "" && in.rpcID == rpcID && in.open > 0 {
			return id
		}
	}
	return ""
}

// attach notes that mcp-go has made a stream of an inner session, and which
// request carries it. It reports whether another one did until now.
func (x *inners) attach(id string, n int) (tookOver bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	if in == nil {
		return false
	}
	tookOver = in.carrier != 0 && in.carrier != n
	in.stream, in.carrier = true, n
	return tookOver
}

// detach notes that a request carries the stream no longer. It reports whether
// it did until now.
func (x *inners) detach(id string, n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	if in == nil || in.carrier != n {
		return false
	}
	in.carrier = 0
	return true
}

// carried is whether any request carries the stream.
func (x *inners) carried(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	return in != nil && in.carrier != 0
}

// registered is mcp-go's hook.
func (x *inners) registered(_ context.Context, session server.ClientSession) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.makeLocked(session.SessionID()).notify = session.NotificationChannel()
}

// drop lets mcp-go discard its state of an inner session once nothing can come
// of it any more: no request is open, no event of it can be replayed, and, for
// the one that bears the session's id, the record is gone and so are all others.
func (s *process) drop(id string) {
	x, session := s.inners, sessionOf(id)
	if s.sessions.buried(session) && !s.log.has(id) {
		s.asks.release(id) // What waits keeps its request open.
	}
	x.mu.Lock()
	in := x.getLocked(id)
	if in == nil || in.open > 0 || in.busy != nil || s.log.has(id) ||
		id == session && (len(x.bySession[session]) > 1 || !s.sessions.buried(session)) {
		x.mu.Unlock()
		return
	}
	in.busy = make(chan struct{})
	x.mu.Unlock()

	if id == session || in.stream {
		s.discard(id)
	}
	if id == session {
		s.sessions.forget(session)
		s.log.forget(session)
	}

	x.mu.Lock()
	close(in.busy)
	delete(x.bySession[session], id)
	if len(x.bySession[session]) == 0 {
		delete(x.bySession, session)
	}
	x.mu.Unlock()
	if id != session {
		s.drop(session)
	}
}

// dropAll is drop for all inner sessions of a session.
func (s *process) dropAll(session string) {
	for _, id := range s.inners.of(session) {
		s.drop(id)
	}
	s.drop(session)
}

// discard makes mcp-go tear down what it holds for an inner session: streams
// end, and its pump stops. The log keeps its events. DELETE is the only door that
// mcp-go has for this.
func (s *process) discard(id string) {
	s.mcp.Handle(discardWriter{}, &server.HTTPRequest{
		Method:  http.MethodDelete,
		Header:  http.Header{server.HeaderKeySessionID: {id}},
		Context: context.Background(),
	})
}

// discardWriter is the response of a request that nobody sent.
type discardWriter struct{}

func (discardWriter) Header() http.Header         { return http.Header{} }
func (discardWriter) WriteHeader(int)             {}
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (discardWriter) Flush()                      {}
func (discardWriter) CanStream() bool             { return false }
