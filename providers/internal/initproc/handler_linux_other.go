//go:build linux && !amd64 && !arm64

package initproc

// doNothing returns the action that ignores a signal, also in commands: this architecture has no
// handler.
func doNothing() sigaction { return sigaction{handler: ignored} }
