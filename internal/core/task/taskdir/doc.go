// Package taskdir reads the directory of a task, which may be untrusted, and makes its digest. It
// knows nothing about the files in it.
package taskdir
