// Package apple runs environments in containers of Apple's command container
// (https://github.com/apple/container), each of which is a virtual machine. It knows the guest of
// package podinit, not what runs in environments.
package apple
