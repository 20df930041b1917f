// Package memnettest is a network inside one process, for tests in virtual
// time: a [testing/synctest] bubble cannot advance its clock while a goroutine
// waits on a real socket, and it can while one waits on this.
//
// It has no buffers: a write returns when the other side has read. It is for
// HTTP/1.1 between an [net/http.Server] and an [net/http.Transport] of the same
// test, and not for measuring.
package memnettest

import (
	"context"
	"net"
	"sync"
)

// Listener is both ends of the network: a server accepts from it, a client
// dials it. Create it inside the bubble that uses it.
type Listener struct {
	conns chan net.Conn
	done  chan struct{} // closed by Close
	once  sync.Once
}

// New returns a Listener that nobody has dialled yet.
func New() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept waits for the next dial. After Close it returns [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses further dials. Connections stay open: they are
// their owners' to close.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr is a name; nothing else listens on it.
func (l *Listener) Addr() net.Addr { return addr{} }

// DialContext connects to the Listener whatever the address says. It fits
// [net/http.Transport].DialContext.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- conn{server}:
		return conn{client}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// conn has addresses that parse as host and port, which servers check.
type conn struct{ net.Conn }

func (conn) LocalAddr() net.Addr  { return addr{} }
func (conn) RemoteAddr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "127.0.0.1:1" }
