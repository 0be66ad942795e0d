// Package nofollow opens, reads and renames files in directories that may be hostile: it never
// follows a symbolic link in the last element of a path, and never waits for a pipe or a device.
//
// os.Root does not do this: it follows links that stay below it, and it cannot link or rename from
// one root to another.
package nofollow
