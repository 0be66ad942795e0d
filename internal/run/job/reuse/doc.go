// Package reuse takes results of the same experiment over from other jobs, so that those trials need not run. It does not know
// how a job runs.
package reuse
