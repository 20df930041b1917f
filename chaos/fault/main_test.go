package fault_test

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"go.uber.org/goleak"
)

// children are what the test binary does instead of its tests when childEnv
// names one of them.
var children = map[string]func(){}

const childEnv = "REVENANT_FAULT_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childEnv)]; child != nil {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// apply puts f in force. The returned undo fails the test if it fails, and is
// called at the end of the test if not before.
func apply(t *testing.T, f fault.Fault, target fault.Target) (undo func()) {
	t.Helper()
	u, err := f.Apply(context.Background(), target)
	if err != nil {
		t.Fatal(err)
	}
	undo = func() {
		t.Helper()
		if err := u(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(undo)
	return undo
}

// patience is how long a read may wait for what has to come: long enough for any
// machine, so that a test which fails says so before the whole run does.
const patience = 20 * time.Second

// expect reads exactly want.
func expect(t *testing.T, r net.Conn, want string) {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(patience))
	defer r.SetReadDeadline(time.Time{})
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

// write writes all of s.
func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatalf("write %q: %v", s, err)
	}
}
