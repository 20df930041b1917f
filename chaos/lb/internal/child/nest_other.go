//go:build !unix

package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Nest cannot be made here.
type Nest struct{}

var errHere = fmt.Errorf("child: %s: %w", runtime.GOOS, errors.ErrUnsupported)

// New returns [errors.ErrUnsupported].
func New() (*Nest, error) { return nil, errHere }

// Dir returns "".
func (*Nest) Dir() string { return "" }

// Command returns a command that runs nothing.
func (*Nest) Command(context.Context, string, ...string) *exec.Cmd { return new(exec.Cmd) }

// Run returns [errors.ErrUnsupported].
func (*Nest) Run(*exec.Cmd) error { return errHere }

// Close does nothing.
func (*Nest) Close() error { return nil }

// Inherit returns [errors.ErrUnsupported].
func Inherit(syscall.Conn) (*os.File, error) { return nil, errHere }
