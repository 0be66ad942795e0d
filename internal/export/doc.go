// Package export writes the results in a job's folder as one file for other programs: a line or row for each trial. It
// counts nothing that package result does not count, and does not know where the file goes.
package export
