package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The settings of the router's connection tracking that a SilentDrop changes.
// The kernel has them for each namespace.
const (
	// idleSysctl is after how many seconds without a packet an established
	// connection is forgotten.
	idleSysctl = "net/netfilter/nf_conntrack_tcp_timeout_established"
	// looseSysctl is whether a packet in the middle of a connection that is not
	// known makes it known.
	looseSysctl = "net/netfilter/nf_conntrack_tcp_loose"
)

// Inject is for [Fault.Apply]. undo returns nil once the Network is closed.
func (n *Network) Inject(_ context.Context, f Fault) (undo func() error, err error) {
	if !f.Kind.OnNetwork() {
		return nil, errors.New("a Network cannot do it: it sees packets and no stream, want a Link")
	}
	if f.Conn > 0 || f.Limit > 0 {
		return nil, errors.New("a Network has no numbers for connections: conn and limit want a Link")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.New("the network is closed")
	}
	var undos []func() error
	undoLocked := func() error {
		var errs []error
		for _, undo := range slices.Backward(undos) {
			errs = append(errs, undo())
		}
		return errors.Join(errs...)
	}
	if f.Kind == SilentDrop || f.Kind == SilentDropThenReset {
		undos, err = n.forget(f.After)
	}
	if err == nil {
		var undo func() error
		if undo, err = n.addTable(ruleOf(f)); err == nil {
			undos = append(undos, undo)
		}
	}
	if err != nil {
		return nil, errors.Join(err, undoLocked())
	}
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.closed {
			return nil
		}
		return undoLocked()
	}, nil
}

// ruleOf is what the router does with a packet that it would forward. Each rule
// counts what it hits.
func ruleOf(f Fault) []expr.Any {
	switch f.Kind {
	case SilentDrop:
		return slices.Concat(isTCP(), isUnknown(), drop())
	case SilentDropThenReset:
		return slices.Concat(isTCP(), isUnknown(), rejectByReset())
	case PacketLoss:
		return slices.Concat(leadsTo(f.Direction), happens(f.Probability), drop())
	case Reset:
		return slices.Concat(leadsTo(f.Direction), isTCP(), rejectByReset())
	default: // Partition
		return slices.Concat(leadsTo(f.Direction), drop())
	}
}

// leadsTo matches packets that go that way.
func leadsTo(d Direction) []expr.Any {
	name := map[Direction]string{ToClient: toClientInterface, ToServer: toServerInterface}[d]
	if name == "" {
		return nil
	}
	const size = unix.IFNAMSIZ // the kernel compares all of it
	padded := make([]byte, size)
	copy(padded, name)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded},
	}
}

func isTCP() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
	}
}

// isUnknown matches packets of no known connection that do not begin one.
func isUnknown() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitINVALID),
			Xor:  binaryutil.NativeEndian.PutUint32(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

// happens matches packets at random.
func happens(probability float64) []expr.Any {
	return []expr.Any{
		&expr.Numgen{Register: 1, Modulus: 1_000_000, Type: unix.NFT_NG_RANDOM},
		// Less-than compares bytes, so the first has to be the highest.
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 4, Size: 4},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binaryutil.BigEndian.PutUint32(lossPerMillion(probability))},
	}
}

func drop() []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
}

func rejectByReset() []expr.Any {
	return []expr.Any{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}
}

// track makes the router track connections, which it does as long as a rule asks
// for their state.
func (n *Network) track() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := n.addTable(slices.Concat(isUnknown(), []expr.Any{&expr.Counter{}}))
	return err
}

// addTable adds a table with one rule, all at once, and returns what takes it
// away. The caller of both holds mu.
func (n *Network) addTable(rule []expr.Any) (undo func() error, err error) {
	conn, err := nftables.New(nftables.WithNetNSFd(int(n.router)))
	if err != nil {
		return nil, missing("nftables (kernel module nf_tables)", err)
	}
	n.tables++
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "revenant" + strconv.Itoa(n.tables)})
	chain := conn.AddChain(&nftables.Chain{
		Name:     "forward",
		Table:    table,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookForward,
		Priority: nftables.ChainPriorityFilter,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule})
	if err := conn.Flush(); err != nil {
		return nil, missing("nftables with ct, numgen and reject (kernel modules nf_tables, nft_ct, nft_numgen, nft_reject_ipv4)", err)
	}
	return func() error {
		conn, err := nftables.New(nftables.WithNetNSFd(int(n.router)))
		if err != nil {
			return err
		}
		conn.DelTable(table)
		return conn.Flush()
	}, nil
}

// forget makes the router forget connections that are idle for that long, or,
// for 0, those that there are. What it has done when it fails, the undos undo.
// The caller holds mu, also for the undos.
func (n *Network) forget(after time.Duration) (undos []func() error, err error) {
	if n.forgetting {
		return nil, fmt.Errorf("a %s or %s is in force, and a router forgets in one way at a time: want its undo first",
			SilentDrop, SilentDropThenReset)
	}
	n.forgetting = true
	undos = append(undos, func() error {
		n.forgetting = false
		return nil
	})
	set := func(name, value string) error {
		before, err := n.setSysctlLocked(name, value)
		if err != nil {
			return missing("connection tracking (kernel module nf_conntrack) and a writable /proc/sys/net", err)
		}
		undos = append(undos, func() error {
			_, err := n.setSysctlLocked(name, before)
			return err
		})
		return nil
	}
	if err := set(looseSysctl, "0"); err != nil {
		return undos, err
	}
	if after == 0 {
		if err := n.netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
			return undos, missing("ctnetlink (kernel module nf_conntrack_netlink)", err)
		}
		return undos, nil
	}
	seconds := uint32(after / time.Second)
	if err := set(idleSysctl, strconv.Itoa(int(seconds))); err != nil {
		return undos, err
	}
	// The new limit holds for a connection from its next packet on. For those
	// that have none coming it starts now.
	flows, err := n.tracked()
	if err != nil {
		return undos, err
	}
	for _, flow := range flows {
		// One that had a packet since the limit was set has it, with less than whole
		// seconds left: to round that down would forget a busy connection at once.
		if flow.TimeOut <= seconds {
			continue
		}
		flow.TimeOut = seconds
		err := n.netlink.ConntrackUpdate(netlink.ConntrackTable, unix.AF_INET, flow)
		if err != nil && !errors.Is(err, unix.ENOENT) { // it may be over by now
			return undos, fmt.Errorf("idle limit of %v: %w", flow, err)
		}
	}
	return undos, nil
}

// Tracked returns how many TCP connections the router knows: those that are open
// and not forgotten, and some that have just been closed.
func (n *Network) Tracked() (int, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return 0, errors.New("fault: network: closed")
	}
	flows, err := n.tracked()
	if err != nil {
		return 0, fmt.Errorf("fault: network: %w", err)
	}
	return len(flows), nil
}

// tracked is called with mu held.
func (n *Network) tracked() ([]*netlink.ConntrackFlow, error) {
	flows, err := n.netlink.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		return nil, missing("ctnetlink (kernel module nf_conntrack_netlink)", err)
	}
	return slices.DeleteFunc(flows, func(f *netlink.ConntrackFlow) bool {
		return f.Forward.Protocol != unix.IPPROTO_TCP
	}), nil
}

func (n *Network) setSysctl(name, value string) (before string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.setSysctlLocked(name, value)
}

// setSysctlLocked changes a setting of the router's namespace: /proc/sys/net is
// that of the thread that opens it.
func (n *Network) setSysctlLocked(name, value string) (before string, err error) {
	path := filepath.Join("/proc/sys", name)
	err = onThread(func() error {
		if err := n.enterLocked(&n.router); err != nil {
			return err
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		before = strings.TrimSpace(string(old))
		return os.WriteFile(path, []byte(value), 0)
	})
	return before, err
}
