//go:build unix && !linux

package child

import "syscall"

// ownGroup is how a child is started.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
