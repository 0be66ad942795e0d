// Package reuse takes over results of the same experiment from other jobs, so that those trials
// need not run.
package reuse
