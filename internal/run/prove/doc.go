// Package prove judges tasks by the runs of rollout validate --run: whether the solution of each
// task scores 1 every time and doing nothing never does. It also finds what in a task's files will
// cause problems. It reads tasks and results; it runs nothing, and does not know how its findings
// are shown.
package prove
