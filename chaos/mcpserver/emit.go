package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

var (
	// ErrSessionGone: there is no living session with that id.
	ErrSessionGone = errors.New("mcpserver: session is gone")
	// ErrNoStream: the client has not opened the session's standalone stream
	// yet. From then on there is one, whether a client reads it or not.
	ErrNoStream = errors.New("mcpserver: session has no standalone stream yet")
	// ErrBacklog: a message was not stored in time, because the client of its
	// stream does not read. It may be stored yet.
	ErrBacklog = errors.New("mcpserver: stream is held up by its client")
	// ErrClosed: the server is closed, or about to.
	ErrClosed = errors.New("mcpserver: server is closed")
)

// emitWait bounds how long Emit waits for a stream whose client does not read.
const emitWait = 5 * time.Second

// Emit sends a log message with the text on the session's standalone stream.
// When it returns without an error, the message is in the event log, and on its
// way if a client reads the stream. The level that a client may have set does
// not matter.
//
// The errors are [ErrSessionGone], [ErrNoStream], [ErrBacklog] and [ErrClosed].
func (s *Server) Emit(sessionID, text string) (Stamp, error) {
	stamp, err := Stamp{}, ErrClosed
	if p := s.enter(); p != nil {
		defer p.leave()
		p.settle()
		stamp, err = p.emit(sessionID, text)
	}
	if err != nil {
		return stamp, fmt.Errorf("%w: %q", err, sessionID)
	}
	return stamp, nil
}

func (s *process) emit(session, text string) (Stamp, error) {
	if !s.sessions.alive(session) {
		return Stamp{}, ErrSessionGone
	}
	ch := s.inners.enterStandalone(session)
	if ch == nil {
		return Stamp{}, ErrNoStream
	}
	defer s.drop(session)
	defer s.inners.leave(session)
	ctx, cancel := context.WithTimeoutCause(s.life, emitWait, ErrBacklog)
	defer cancel()
	return s.send(ctx, ch, session, logMessage(text))
}

// logMessage is a log message, not stamped yet.
func logMessage(text string) mcp.JSONRPCNotification {
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = "notifications/message"
	n.Params.AdditionalFields = map[string]any{"level": mcp.LoggingLevelInfo, "logger": "revenant", "data": text}
	return n
}

// send stamps a notification, puts it on a channel of mcp-go's and waits until
// it is in the log. mcp-go's own way of sending drops what finds the channel
// full, and drops _meta always.
func (s *process) send(ctx context.Context, ch chan<- mcp.JSONRPCNotification, session string, n mcp.JSONRPCNotification) (Stamp, error) {
	stamp := s.oracle.stamp(session)
	n.Params.Meta = map[string]any{StampKey: stamp}
	return stamp, s.sendStamped(ctx, ch, stamp, n)
}

// sendStamped is send for what carries the stamp already.
func (s *process) sendStamped(ctx context.Context, ch chan<- mcp.JSONRPCNotification, stamp Stamp, n mcp.JSONRPCNotification) error {
	stored := s.acks.expect(stamp)
	defer s.acks.forget(stamp)
	select {
	case ch <- n:
	case err := <-stored: // The session's events were purged.
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-stored:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acks tells senders that their message is in the log.
type acks struct {
	mu      sync.Mutex
	waiting map[int]ack // by the stamp's Seq
}

type ack struct {
	session string
	stored  chan error // has room for the one answer
}

func newAcks() *acks { return &acks{waiting: make(map[int]ack)} }

func (a *acks) expect(s Stamp) <-chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := ack{s.Session, make(chan error, 1)}
	a.waiting[s.Seq] = w
	return w.stored
}

func (a *acks) forget(s Stamp) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, s.Seq)
}

// answer is for one message; no stamp has the number 0.
func (a *acks) answer(seq int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.waiting[seq]; ok {
		w.stored <- err
		delete(a.waiting, seq)
	}
}

// abandon answers for all messages of a session that are not stored yet: they
// will not be.
func (a *acks) abandon(session string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for seq, w := range a.waiting {
		if w.session == session {
			w.stored <- ErrSessionGone
			delete(a.waiting, seq)
		}
	}
}
