// Package ui shows a running job to people and machines (a live terminal view, plain lines, JSON
// lines) and prints the final summary. It knows events and results, not how trials are run.
package ui
