package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Available returns nil if this process can make a [Network] and apply all its
// faults. Otherwise its error says on one line what is missing, and wraps
// [errors.ErrUnsupported]. It finds out by making one and taking it away again,
// which takes some milliseconds.
func Available() (err error) {
	n, err := NewNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for _, f := range []Fault{
		{Kind: SilentDrop},
		{Kind: SilentDropThenReset, After: time.Second},
		{Kind: PacketLoss, Probability: 0.5},
		{Kind: Reset},
		{Kind: Partition, Direction: ToClient},
	} {
		undo, err := f.Apply(context.Background(), n)
		if err != nil {
			return err
		}
		if err := undo(); err != nil {
			return err
		}
	}
	return nil
}

// missing says that err means that this machine has not what a Network needs.
func missing(what string, err error) error {
	return fmt.Errorf("fault: network faults need %s: %w: %w", what, err, errors.ErrUnsupported)
}

// missingCapabilities returns nil if the process has those that it needs.
func missingCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return missing("capget", err)
	}
	var lacking []string
	for _, c := range []struct {
		name string
		bit  int
	}{{"CAP_NET_ADMIN", unix.CAP_NET_ADMIN}, {"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			lacking = append(lacking, c.name)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("fault: network faults need %s, run as root: %w", strings.Join(lacking, " and "), errors.ErrUnsupported)
	}
	return nil
}
