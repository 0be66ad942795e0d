// Package viewer shows jobs in a browser: a server for this machine alone, which only reads, and
// the same pages as files. What jobs there are and what is in them a Library tells; how pages look,
// internal/output/page knows.
package viewer
