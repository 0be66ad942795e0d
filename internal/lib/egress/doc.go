// Package egress is an HTTP proxy through which an environment without a network reaches the hosts
// on a list. It knows hosts, addresses and connections. It does not know environments, or how
// connections get to it.
package egress
