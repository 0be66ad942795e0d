// Package confine removes rights from one thread, and so from every process that is forked from it:
// capabilities, system calls, keys and the abstract sockets of the machine. It knows nothing of
// sandboxes: neither mounts, nor commands, nor how its caller starts processes.
package confine
