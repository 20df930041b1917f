// Package child runs a program that does not outlive its owner, this process,
// and leaves no file behind, however the owner ends: by itself, by a panic, or by
// a SIGKILL.
//
// A [Nest] is a private directory with a watchdog: a shell that waits at the end
// of a pipe for the owner's death, and then kills what was started in the nest
// and removes the directory. On Linux the kernel kills it, too.
//
// It is for programs whose processes keep to their process group. It
// is for Unix; elsewhere [New] returns [errors.ErrUnsupported].
package child
