// Package timing limits the time of a trial's work: by the timeouts of the task and the job, by
// clocks that count while an environment measures its commands, and by graces after a cancel.
package timing
