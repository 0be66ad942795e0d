// Package egress is an HTTP proxy through which an environment without a network reaches the hosts
// on a list. It deals with hosts, addresses and connections only: the caller brings the
// environment's connections to it.
package egress
