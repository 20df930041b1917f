package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The router's interfaces, after whom they lead to. The sides have one each,
// sideInterface, and beside it their loopback.
const (
	toClientInterface = "client"
	toServerInterface = "server"
	sideInterface     = "eth0"
)

// The addresses are the same in every Network, and nobody else's: no packet
// leaves the namespaces.
var (
	clientAddr       = netip.MustParsePrefix("10.203.1.2/24")
	clientRouterAddr = netip.MustParsePrefix("10.203.1.1/24")
	serverAddr       = netip.MustParsePrefix("10.203.2.2/24")
	serverRouterAddr = netip.MustParsePrefix("10.203.2.1/24")
)

// Network is a network of the process's own, in three network namespaces of the
// Linux kernel: a client's side, a server's side, and between them a router that
// tracks connections as a NAT or a layer 4 load balancer does (though it
// translates no addresses). It is a [Target] for faults, which act on the packets
// that cross the router.
//
// The namespaces have no name and hold no process; file descriptors of this
// process keep them. They end with its last socket in them, at the latest with
// the process itself, however that ends, and their interfaces and rules with
// them. Nothing is changed in the namespace that the process runs in.
//
// Its methods may be called from any goroutine.
type Network struct {
	client, server *Side // immutable

	// mu is held over calls of the kernel that do not wait for anybody.
	mu         sync.RWMutex
	closed     bool           // the handles are not valid any more
	router     netns.NsHandle // valid while !closed
	netlink    *netlink.Handle
	forgetting bool // a SilentDrop or SilentDropThenReset is in force
	tables     int  // of nftables so far
}

// Side is one end of a [Network]. Its methods may be called from any goroutine.
type Side struct {
	network *Network
	addr    netip.Addr

	ns netns.NsHandle // guarded by network.mu; valid while !network.closed
}

// NewNetwork makes a network with no fault in it. Its error says what is
// missing, and then it wraps [errors.ErrUnsupported]; see [Available]. The caller
// closes the Network.
func NewNetwork() (*Network, error) {
	if err := missingCapabilities(); err != nil {
		return nil, err
	}
	n := &Network{router: netns.None()}
	n.client = &Side{network: n, addr: clientAddr.Addr(), ns: netns.None()}
	n.server = &Side{network: n, addr: serverAddr.Addr(), ns: netns.None()}
	if err := n.build(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Client is the side of the clients.
func (n *Network) Client() *Side { return n.client }

// Server is the side of the servers.
func (n *Network) Server() *Side { return n.server }

// Close gives the namespaces up. It is idempotent. Sockets that were made in them
// are their owners' to close: until then they keep their side alive, and can
// still talk to each other if they are on the same one. The undo of a fault may
// still be called, and does nothing.
func (n *Network) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	if n.netlink != nil {
		n.netlink.Close()
	}
	var errs []error
	for _, ns := range []*netns.NsHandle{&n.client.ns, &n.router, &n.server.ns} {
		if ns.IsOpen() {
			errs = append(errs, ns.Close())
		}
	}
	return errors.Join(errs...)
}

// build makes the namespaces and joins them. What it has made when it fails,
// Close takes away.
func (n *Network) build() error {
	for _, ns := range []*netns.NsHandle{&n.client.ns, &n.router, &n.server.ns} {
		err := onThread(func() (err error) {
			*ns, err = netns.New()
			return err
		})
		if err != nil {
			return missing("network namespaces", err)
		}
	}
	var err error
	if n.netlink, err = netlink.NewHandleAt(n.router, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		return missing("netlink", err)
	}
	if err := up(n.netlink, "lo"); err != nil {
		return err
	}
	for _, leg := range []struct {
		name         string
		side         *Side
		router, peer netip.Prefix
	}{
		{toClientInterface, n.client, clientRouterAddr, clientAddr},
		{toServerInterface, n.server, serverRouterAddr, serverAddr},
	} {
		if err := n.join(leg.name, leg.side, leg.router, leg.peer); err != nil {
			return err
		}
	}
	if _, err := n.setSysctl("net/ipv4/ip_forward", "1"); err != nil {
		return missing("a writable /proc/sys/net", err)
	}
	return n.track()
}

// join lays a cable from the router to a side.
func (n *Network) join(name string, side *Side, router, peer netip.Prefix) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	cable := &netlink.Veth{LinkAttrs: attrs, PeerName: sideInterface, PeerNamespace: netlink.NsFd(int(side.ns))}
	if err := n.netlink.LinkAdd(cable); err != nil {
		return missing("virtual Ethernet (kernel module veth)", err)
	}
	if err := up(n.netlink, name, router); err != nil {
		return err
	}
	handle, err := netlink.NewHandleAt(side.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return missing("netlink", err)
	}
	defer handle.Close()
	if err := up(handle, "lo"); err != nil {
		return err
	}
	if err := up(handle, sideInterface, peer); err != nil {
		return err
	}
	if err := handle.RouteAdd(&netlink.Route{Gw: router.Addr().AsSlice()}); err != nil {
		return fmt.Errorf("fault: network: default route by %v: %w", router.Addr(), err)
	}
	return nil
}

// up gives an interface its addresses and switches it on.
func up(h *netlink.Handle, name string, addrs ...netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("fault: network: interface %s: %w", name, err)
	}
	for _, a := range addrs {
		ipNet := &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet}); err != nil {
			return fmt.Errorf("fault: network: address %v of %s: %w", a, name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("fault: network: interface %s: %w", name, err)
	}
	return nil
}

// Addr is the address of the side. Its loopback has 127.0.0.1, as ever.
func (s *Side) Addr() netip.Addr { return s.addr }

// Listen opens a TCP port on the side; addr is host:port with an IP address of
// the side or none, and port 0 is any free one. Accepted connections send no
// keep-alive probes: these would keep the router from forgetting them. The caller
// closes the listener; it may outlive the Network.
func (s *Side) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1}
	// A multipath listener's connections end in other ways than TCP's.
	lc.SetMultipathTCP(false)
	var listener net.Listener
	err := s.Do(func() (err error) {
		listener, err = lc.Listen(ctx, network, addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	return listener, nil
}

// DialContext connects from the side to addr, an IP address and a port: there is
// nobody in the network to ask for names. It fits [net/http.Transport].DialContext
// and [LinkConfig].Dial. The connection sends no keep-alive probes: these would
// keep the router from forgetting it. It is a [*net.TCPConn] where network is
// "tcp", whose owner may turn them on.
func (s *Side) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("fault: dial %q, want an IP address and a port", addr)
	}
	d := net.Dialer{KeepAlive: -1}
	var conn net.Conn
	err := s.Do(func() (err error) {
		// With one address the Dialer stays on this goroutine, and so on this
		// thread.
		conn, err = d.DialContext(ctx, network, addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	return conn, nil
}

// Do calls f on an operating system thread that is on the side, and returns what
// f returns. Sockets that f makes itself are on the side for good, and a process
// that it starts is too; goroutines that it starts are not. It returns an error
// that wraps [net.ErrClosed] after [Network.Close].
func (s *Side) Do(f func() error) error {
	return onThread(func() error {
		if err := s.network.enter(&s.ns); err != nil {
			return err
		}
		return f()
	})
}

// enter moves the calling thread into a namespace of n.
func (n *Network) enter(ns *netns.NsHandle) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.enterLocked(ns)
}

func (n *Network) enterLocked(ns *netns.NsHandle) error {
	if n.closed {
		return fmt.Errorf("fault: network: %w", net.ErrClosed)
	}
	if err := netns.Set(*ns); err != nil {
		return fmt.Errorf("fault: network: %w", err)
	}
	return nil
}
