// Package report has the Input of every reporter and what reporters share, such as the lines of a
// log that explain a failure. It does not know how a report looks or where it goes.
package report
