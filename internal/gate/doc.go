// Package gate decides whether a job passes: thresholds, and drops against a baseline that are larger than luck. It
// looks at results alone, and does not know how they came about or how a verdict is shown.
package gate
