// Package mine makes tasks of a repository's history: it says of each commit whether a task can be
// made of it, and writes the task. It runs nothing of the repository: that is the proof's part.
package mine
