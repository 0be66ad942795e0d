// Package gate decides whether a job passes: thresholds, and drops against a baseline that chance
// does not explain. It reads results only: it does not know how they came about or how a verdict is
// shown.
package gate
