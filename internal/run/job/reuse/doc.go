// Package reuse takes over results of the same experiment from other jobs, so that those trials
// need not run. It does not know how a job runs.
package reuse
