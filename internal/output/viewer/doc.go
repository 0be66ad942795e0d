// Package viewer shows jobs in a browser: a server for this machine alone, which only reads, and
// the same pages as files. A Library tells what jobs there are and what they contain; how pages look,
// internal/output/page knows.
package viewer
