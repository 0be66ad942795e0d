// Package ui shows a running job to people and machines (a live terminal view, plain lines, JSON
// lines) and prints the final summary. It knows events and results, not how trials are run.
//
// # JSON lines
//
// With JSON every event is a line, an object with the keys of a structured logger in front. The names
// and types of the fields are stable: fields may be added, none is renamed or removed. log_level decides
// which messages are written; how trials and the job end always is.
//
//	every event      time (UTC), level (debug: what started; info: progress, and what ended well;
//	                 warn: retrying, notice, cancelling and trials with an error), msg (for people:
//	                 its words may change), event
//	job_started      total_trials, dir; kept_trials of a job that is resumed: those that are not run again
//	trial_started    task_name, dataset_name, agent_name, attempt, as in result.json
//	phase_started    the same, phase
//	progress         the same; msg is a line about the image. Left out while the reader is slow
//	retrying         the same, delay_sec; msg is what failed
//	trial_ended      the same, dir, reward (null without one), duration_sec, cost (US dollars),
//	                 error_type and error (the whole message), both only with an error
//	notice           msg. May come before job_started, while the provider prepares itself
//	cancelling       running_trials
//	job_ended        cancelled, duration_sec, and the counts, rates and metrics of the job's result.json
package ui
