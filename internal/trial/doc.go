// Package trial is one attempt of one agent at one task: its phases, timeouts, files and verdict. It
// does not know jobs, and knows providers only by their contract.
package trial
