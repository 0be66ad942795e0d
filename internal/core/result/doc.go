// Package result defines what a run leaves behind: the identity, outcome and errors of trials, the
// summary of a job, and their files. It does not know how a trial is run or shown.
package result
