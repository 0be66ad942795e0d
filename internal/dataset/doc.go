// Package dataset is where tasks come from: a directory of tasks, or a list of them. It does not know
// agents, jobs or how a task is run.
package dataset
