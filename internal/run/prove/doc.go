// Package prove judges tasks by the runs of rollout validate --run: whether the solution of each
// task scores 1 every time and doing nothing never does. It also finds problems in a task's files.
// It reads tasks and results, and runs nothing.
package prove
