// Package podinit runs environments in containers that another system starts: process 1 of the
// container is this program, and serves an encrypted connection over which files are copied,
// commands run and connections carried. It knows nothing of what starts the container or how bytes
// get there.
package podinit
