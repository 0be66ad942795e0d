// Package modal runs environments in sandboxes of Modal (modal.com). Each sandbox runs the guest of
// package podinit, which serves commands, files and connections. The package knows Modal's API
// through Modal's own client.
package modal
