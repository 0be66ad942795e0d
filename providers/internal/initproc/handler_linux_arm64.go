package initproc

// nothing is the address of code in handler_linux_arm64.s.
var nothing uintptr

// doNothing returns the action of a handler that does nothing.
func doNothing() sigaction {
	return sigaction{handler: nothing, flags: onSignalStack | restartCalls}
}
