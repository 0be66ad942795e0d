// Package hostedtest has what tests of providers of hosted sandboxes share: sandboxes of this
// machine, in which a stand-in for a service runs commands, and the program that runs in the
// sandboxes of the service.
package hostedtest
