// Package fly runs environments in machines of Fly.io. Each machine runs the guest of package
// podinit. The Machines API runs short commands only, and returns their output at their end: they
// carry letters of package mailbox. The package knows Fly's Machines API.
package fly
