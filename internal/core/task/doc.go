// Package task loads a task directory: its files, its task.toml and the problems with them. It does
// not know datasets or agents.
package task
