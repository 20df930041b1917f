package child_test

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb/internal/child"
)

// A program that accepts from a socket in blocking mode hangs when a client has
// left meanwhile; the mode is the owner's, too.
func TestInheritedSocketsDoNotBlock(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file, err := child.Inherit(listener.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	nest := newNest(t)
	cmd := nest.Command(t.Context(), "/bin/sh", "-c", "cat /proc/$$/fdinfo/3")
	cmd.ExtraFiles = []*os.File{file}
	var info strings.Builder
	cmd.Stdout = &info
	if err := nest.Run(cmd); err != nil {
		t.Fatal(err)
	}
	var flags int
	for line := range strings.Lines(info.String()) {
		if octal, ok := strings.CutPrefix(line, "flags:"); ok {
			for _, digit := range strings.TrimSpace(octal) {
				flags = flags*8 + int(digit-'0')
			}
		}
	}
	if flags&syscall.O_NONBLOCK == 0 {
		t.Errorf("the program's socket has %q, want O_NONBLOCK", info.String())
	}
}
