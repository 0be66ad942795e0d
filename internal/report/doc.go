// Package report is what every reporter gets, and what reporters share: the Input, and the lines of a log that explain
// a failure. It does not know how a report looks or where it goes.
package report
