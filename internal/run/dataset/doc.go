// Package dataset loads tasks: from a directory, a list of paths or a registry. It does not know
// agents, jobs or how a task runs.
package dataset
