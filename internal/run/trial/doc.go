// Package trial runs one trial, an agent on a task: its phases, timeouts, files and verdict. It is
// independent of jobs, and uses providers only by their contract.
package trial
