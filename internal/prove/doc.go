// Package prove says what a dataset's proof has shown: whether the solution of each task scores 1 every time and doing
// nothing never does, and what in a task's files will trouble those who run it. It reads tasks and results; it runs
// nothing, and does not know how its findings are shown.
package prove
