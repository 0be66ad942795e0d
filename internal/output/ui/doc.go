// Package ui shows a running job to users and programs (a live terminal view, plain lines, JSON
// lines). It knows events and results, not how trials run.
//
// # JSON lines
//
// With JSON, every event is a line: an object that begins with the keys of a structured logger. The
// names and types of the fields are stable: fields may be added, none is renamed or removed.
// log_level selects which messages are written; the ends of trials and of the job always are.
//
//	every event      time (UTC), level (debug: starts; info: progress, and what ended well;
//	                 warn: retrying, notice, cancelling and trials with an error), msg (for users:
//	                 the text may change), event
//	job_started      total_trials, dir; kept_trials of a resumed job: those that do not run again
//	trial_started    task_name, dataset_name, agent_name, attempt, as in result.json
//	phase_started    the same, phase; here and in the next two, step (name, number, of) in a step
//	                 of a task with several
//	progress         the same; msg is a line about the image. Dropped while the reader is slow
//	retrying         the same, delay_sec; msg is what failed
//	trial_ended      the same, dir, reward (null without one), duration_sec, cost (US dollars;
//	                 null if not reported), error_type and error (the whole message), both only
//	                 with an error
//	notice           msg. May come before job_started, while the provider starts
//	cancelling       running_trials
//	job_ended        cancelled, duration_sec, and the counts, rates and metrics of the job's
//	                 result.json
package ui
