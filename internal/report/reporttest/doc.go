// Package reporttest makes jobs to report on, for the tests of reporters: whole inputs, counted and compared as real ones
// are, without a trial being run. It does not know any reporter.
package reporttest
