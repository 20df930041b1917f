//go:build !unix

package main

import "os/exec"

// endTogether is for systems with process groups. Elsewhere the command alone is
// killed; the client under test has a deadline of its own.
func endTogether(*exec.Cmd) {}
