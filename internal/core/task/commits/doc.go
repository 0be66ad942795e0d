// Package commits finds the git working tree that contains a directory, and its commit, without
// running git.
package commits
