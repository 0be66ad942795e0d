// Package network checks which addresses an environment reaches in each mode, and listeners on its
// loopback.
package network
