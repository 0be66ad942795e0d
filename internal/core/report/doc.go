// Package report defines the Input of all reporters and their shared parts, such as the lines of a
// log that explain a failure. It does not know how a report looks or where it goes.
package report
