package initproc

// nothing and restore are addresses of code in handler_linux_amd64.s.
var nothing, restore uintptr

// doNothing returns the action of a handler that does nothing.
func doNothing() sigaction {
	return sigaction{handler: nothing, flags: onSignalStack | restartCalls | hasRestorer, restorer: restore}
}
