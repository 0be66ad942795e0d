// Package task is one task directory: its files, its task.toml, what is wrong with it. It does not
// know datasets or agents.
package task
