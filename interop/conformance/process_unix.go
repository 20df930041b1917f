//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// endTogether makes the end of the command's context the end of its children
// too: they share a process group, which nothing else is in. They are killed,
// for none of them has anything to save.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if err == syscall.ESRCH {
			return os.ErrProcessDone
		}
		return err
	}
}
