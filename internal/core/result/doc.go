// Package result defines the results of a run: the identity, outcome and errors of trials, the
// summary of a job, and their files. It does not know how a trial is run or shown.
package result
