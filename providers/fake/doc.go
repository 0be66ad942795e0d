// Package fake is a provider that needs nothing: no daemon, no root, no network. Its environments are
// trees of files in memory, and bash scripts are interpreted in this process, with a small set of
// commands. Scripts reach nothing of the host but its clock, memory and processor.
//
// It is a true, if small, environment: files have owners and modes, processes can be listed and
// killed, and outlive the command that started them. What needs a kernel is missing: limits on
// memory and processors, other programs, /proc, process substitution and named pipes. A script that
// means to exhaust this process's memory can.
package fake
