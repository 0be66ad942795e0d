// Package initwire carries requests, answers and open files between the provider and a sandbox's
// init, over a socket that preserves message boundaries. It does not interpret them.
package initwire
