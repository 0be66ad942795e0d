// Package examples runs the examples in its directories with the real binary and compares the
// outcome with expected.json.
package examples
