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

	mu    sync.Mutex
	first map[string]sign // by session
}

// sign is the first answer that has said that a session is gone.
type sign struct {
	at  time.Time
	get bool // to a GET
}

func newEdge() *edge {
	e := &edge{first: make(map[string]sign)}
	e.life, e.cut = context.WithCancelCause(context.Background())
	return e
}

// enter returns the context of an exchange, and what is called once when it is
// over.
func (e *edge) enter(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.life, func() { cancel(context.Cause(e.life)) })
	e.open.enter()
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		e.open.leave()
	})
}

func (e *edge) gone(session, method string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.first[session]; !known {
		e.first[session] = sign{time.Now(), method == http.MethodGet}
	}
}

// sign is the first answer that has said that the session is gone.
func (e *edge) sign(session string) (sign, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.first[session]
	return s, ok
}
