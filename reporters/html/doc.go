// Package html reports a job as a page that opens from a disk: one file, which asks nothing of any
// server. It does not know where the page goes.
package html
