// Package sandbox is the provider that needs nothing but Linux: environments are copy-on-write views of an
// image, or of this machine's own root, in namespaces of their own. It knows nothing of trials or tasks.
//
// Isolation is for agents that cooperate: namespaces, Docker's default capabilities and a list of denied system
// calls keep them from disturbing the machine, its files and each other. It does not protect from attacks on the kernel.
package sandbox
