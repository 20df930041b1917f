package fault

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Hits returns, for each table of the router, how many packets its rule has hit.
func Hits(t *testing.T, n *Network) map[string]uint64 {
	t.Helper()
	conn, err := nftables.New(nftables.WithNetNSFd(int(n.router)))
	if err != nil {
		t.Fatal(err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		t.Fatal(err)
	}
	hits := make(map[string]uint64)
	for _, chain := range chains {
		rules, err := conn.GetRules(chain.Table, chain)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if counter, ok := e.(*expr.Counter); ok {
					hits[chain.Table.Name] += counter.Packets
				}
			}
		}
	}
	return hits
}

// LastTable is the table of the fault that was applied last.
func LastTable(n *Network) string { return fmt.Sprintf("revenant%d", n.tables) }

// RouterState is the tables and settings of the router.
func RouterState(t *testing.T, n *Network) string {
	t.Helper()
	var state strings.Builder
	for table := range Hits(t, n) {
		fmt.Fprintln(&state, table)
	}
	err := onThread(func() error {
		if err := n.enter(&n.router); err != nil {
			return err
		}
		for _, name := range []string{idleSysctl, looseSysctl} {
			value, err := os.ReadFile("/proc/sys/" + name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&state, "%s %s", name, value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state.String()
}
