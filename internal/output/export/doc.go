// Package export writes the results in a job's directory as one file for other programs, with a
// line or row for each trial. It computes nothing that package result does not compute, and does
// not know where the file goes.
package export
