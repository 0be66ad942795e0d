// Package reporttest creates jobs for the tests of reporters: complete inputs, summarised and
// compared as real ones are, without running a trial. It does not depend on any reporter.
package reporttest
