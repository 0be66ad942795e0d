// Package confine takes rights from one thread, and so from every process that is forked from it:
// capabilities, system calls, keys and the abstract sockets of the machine. It knows nothing of
// sandboxes: not what is mounted, who is asked to run what, nor how its caller starts processes.
package confine
