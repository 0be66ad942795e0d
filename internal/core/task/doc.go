// Package task loads a task directory: its files and its task.toml, with the problems in them. It
// does not know datasets or agents.
package task
