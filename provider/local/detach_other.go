//go:build !unix

package local

import "os/exec"

// detach does nothing: there are no sessions of processes.
func detach(*exec.Cmd) {}
