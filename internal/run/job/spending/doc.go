// Package spending counts the costs of trials against the budget of a job, which jobs that run at
// the same time may share, and predicts when the budget stops it.
package spending
