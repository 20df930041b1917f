package mcpserver

import (
	"context"
	"net/http"
)

// Conflict says what a GET gets for a stream that is still attached: one whose
// earlier connection, as far as the server can see, is open.
type Conflict uint8

const (
	// ConflictTakesOver: the stream. The earlier connection's answer ends.
	ConflictTakesOver Conflict = iota
	// ConflictRefused: 409, as go-sdk's server does it. The stream stays where it
	// is.
	ConflictRefused
)

var conflicts = knob[Conflict]{"Conflict", "conflict", []string{ConflictTakesOver: "takes_over", ConflictRefused: "refused"}}

// ParseConflict is the inverse of [Conflict.String].
func ParseConflict(text string) (Conflict, error) { return conflicts.parse(text) }

// String is "takes_over" or "refused".
func (c Conflict) String() string { return conflicts.text(c) }

// MarshalText writes what [ParseConflict] reads. It fails for a value that is
// none of the constants.
func (c Conflict) MarshalText() ([]byte, error) { return conflicts.marshal(c) }

// UnmarshalText is [ParseConflict].
func (c *Conflict) UnmarshalText(text []byte) error { return conflicts.unmarshal(c, text) }

// hold takes a request's stream for its own connection, where that matters. It
// reports false after it has refused the request. ctx ends with the connection.
func (s *process) hold(ctx context.Context, a *answer, c *call) bool {
	if s.cfg.Conflict == ConflictTakesOver || !s.wantsStream(c) {
		return true
	}
	if !s.inners.hold(c.inner, c.n) {
		http.Error(a, "stream is attached to another connection", http.StatusConflict)
		return false
	}
	// A handler may outlive its connection.
	context.AfterFunc(ctx, func() { s.inners.release(c.inner, c.n) })
	return true
}

// wantsStream is whether a request may be answered with the stream of its inner
// session.
func (s *process) wantsStream(c *call) bool {
	switch {
	case c.inner == "":
		return false
	case c.method == http.MethodPost:
		return c.inner == postInner(c.session, c.n)
	case c.method == http.MethodGet && c.cursor != "":
		from, _ := s.log.from(c.session, c.cursor)
		return from != nil
	}
	return c.method == http.MethodGet
}

// hold reports whether the request has the stream to itself now.
func (x *inners) hold(id string, n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.getLocked(id)
	if in == nil || in.holder != 0 {
		return false
	}
	in.holder = n
	return true
}

// release undoes the hold of a request, if there is one.
func (x *inners) release(id string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if in := x.getLocked(id); in != nil && in.holder == n {
		in.holder = 0
	}
}
