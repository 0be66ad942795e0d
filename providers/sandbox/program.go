//go:build linux && !race

package sandbox

// guestProgram returns the file of the program that runs in sandboxes: this one.
func guestProgram() string { return self }
