// Package trial runs one trial, an agent on a task: its phases, timeouts, files and verdict. It
// does not know jobs, and knows providers only by their contract.
package trial
