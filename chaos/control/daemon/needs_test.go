package daemon_test

import (
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// needs skips a test where an engine's program is not installed.
func needs(t *testing.T, engine string) {
	t.Helper()
	if err := lb.Available(lb.Engine(engine)); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
}
