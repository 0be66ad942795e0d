// Package agentfiles reads the files that agents bring into their environments: the key files of an
// agent. It finds, limits and identifies them.
package agentfiles
