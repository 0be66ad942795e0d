// Package egress is the door through which an environment without a network reaches what a list allows: an HTTP
// proxy. It knows hosts, addresses and connections, and nothing of environments or of how connections get to it.
package egress
