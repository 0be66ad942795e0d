// Package sandbox implements the provider that needs only Linux: environments are copy-on-write
// views of an image, or of this machine's own root, in separate namespaces. It knows nothing of
// trials or tasks.
//
// Isolation is for cooperative agents: namespaces, Docker's default capabilities and a list of
// denied system calls keep them from disturbing the machine, its files and each other. It does not
// protect from attacks on the kernel.
package sandbox
