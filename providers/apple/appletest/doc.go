// Package appletest has a program that takes the place of Apple's command container in tests. It
// runs commands for real, in environments of another provider.
package appletest
