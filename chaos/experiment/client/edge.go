package client

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// edge is what a client knows of its own exchanges.
type edge struct {
	life context.Context // all exchanges end with it
	cut  context.CancelCauseFunc

	open gauge // of exchanges

	mu      sync.Mutex
	first   map[string]sign // by session
	refused map[string]bool // sessions of which a POST was refused for good
	lines   map[string]line // by session
}

// line is what the exchanges of one session end with at the latest.
type line struct {
	ctx context.Context
	cut context.CancelCauseFunc
}

// sign is the first answer that has said that a session is gone.
type sign struct {
	at  time.Time
	get bool // to a GET
}

func newEdge() *edge {
	e := &edge{first: make(map[string]sign), refused: make(map[string]bool), lines: make(map[string]line)}
	e.life, e.cut = context.WithCancelCause(context.Background())
	return e
}

// line is that of a session. The exchanges that begin one have their own.
func (e *edge) line(session string) line {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, ok := e.lines[session]
	if !ok {
		l.ctx, l.cut = context.WithCancelCause(e.life)
		if session != "" {
			e.lines[session] = l
		}
	}
	return l
}

// enter returns the context of a session's exchange, and what is called when it
// is over. It returns an error if none may set out any more.
func (e *edge) enter(ctx context.Context, session string) (context.Context, func(), error) {
	of := e.line(session).ctx
	if of.Err() != nil {
		return nil, nil, context.Cause(of)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(of, func() { cancel(context.Cause(of)) })
	e.open.enter()
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		e.open.leave()
	}), nil
}

func (e *edge) gone(session, method string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.first[session]; !known {
		e.first[session] = sign{time.Now(), method == http.MethodGet}
	}
}

// refuse notes a refusal of a POST that says nothing of the session, and with
// which go-sdk ends it all the same.
func (e *edge) refuse(session string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused[session] = true
}

// endedBy is where a session was found to be over that its client has ended by
// itself.
func (e *edge) endedBy(session string) By {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.first[session]; ok && !s.get || !ok && e.refused[session] {
		return ByCall
	}
	return ByReconnect
}

// sign is the first answer that has said that the session is gone.
func (e *edge) sign(session string) (sign, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.first[session]
	return s, ok
}
