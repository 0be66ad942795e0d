// Package summary prints the outcome of a job, the verdict about it, and the outcome of a proof on
// a terminal, as text of a given width. It reads results; a running job is shown by package ui.
package summary
