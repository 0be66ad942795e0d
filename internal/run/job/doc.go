// Package job plans the trials of a job, runs them and writes their results into the job's
// directory. It also divides jobs into shards, and removes unused environments and images.
package job
