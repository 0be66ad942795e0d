//go:build linux && !amd64 && !arm64

package inside

// doNothing ignores a signal, also in commands: there is no handler for this architecture.
func doNothing() sigaction { return sigaction{handler: ignored} }
