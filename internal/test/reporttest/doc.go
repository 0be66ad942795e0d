// Package reporttest makes jobs for the tests of reporters: complete inputs, summarised and compared as real ones are,
// without running a trial. It does not know any reporter.
package reporttest
