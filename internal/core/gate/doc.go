// Package gate decides whether a job passes: it checks thresholds, and drops against a baseline
// that chance does not explain. It only reads results: it does not know how they were made or how a
// verdict is shown.
package gate
