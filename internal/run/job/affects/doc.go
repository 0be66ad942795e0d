// Package affects says which trials of a job the files that changed can affect, by the rules of the
// job file.
package affects
