// Package paired holds the statistics of two jobs that ran the same tasks: permutation tests of the
// mean drop, its confidence intervals, and the power of the tests.
package paired
