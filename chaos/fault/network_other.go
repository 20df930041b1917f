//go:build !linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
)

// Available returns an error that wraps [errors.ErrUnsupported]: a [Network]
// needs Linux.
func Available() error {
	return fmt.Errorf("fault: network faults need Linux, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Network needs Linux. Here there is none.
type Network struct{}

// Side is one end of a [Network].
type Side struct{}

// NewNetwork returns the error of [Available].
func NewNetwork() (*Network, error) { return nil, Available() }

// Client is the side of the clients.
func (n *Network) Client() *Side { return &Side{} }

// Server is the side of the servers.
func (n *Network) Server() *Side { return &Side{} }

// Close returns nil.
func (n *Network) Close() error { return nil }

// Tracked returns the error of [Available].
func (n *Network) Tracked() (int, error) { return 0, Available() }

// Inject returns the error of [Available].
func (n *Network) Inject(context.Context, Fault) (undo func() error, err error) {
	return nil, Available()
}

// Addr returns no address.
func (s *Side) Addr() netip.Addr { return netip.Addr{} }

// Listen returns the error of [Available].
func (s *Side) Listen(_ context.Context, _, _ string) (net.Listener, error) { return nil, Available() }

// DialContext returns the error of [Available].
func (s *Side) DialContext(_ context.Context, _, _ string) (net.Conn, error) {
	return nil, Available()
}

// Do returns the error of [Available].
func (s *Side) Do(func() error) error { return Available() }
