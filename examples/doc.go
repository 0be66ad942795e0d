// Package examples runs what stands in its directories through the real binary and compares the outcome with
// what expected.json says.
package examples
