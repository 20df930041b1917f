//go:build unix

package local

import (
	"os/exec"
	"syscall"
)

// detach gives a process a session of its own: an interrupt at the terminal is for
// Terraform alone.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
