// Package git fetches directories of repositories with the git binary, from servers and out of repositories that are not
// trusted. Nothing is ever checked out: files are written by this package from what git says is in a commit, so
// that no hook, filter, attribute, link or odd name of the repository's does anything. It does not know tasks.
package git
