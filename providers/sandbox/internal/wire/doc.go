// Package wire carries requests, answers and open files between the provider and a sandbox's init, over
// a socket that keeps messages apart. It does not know what they are about.
package wire
