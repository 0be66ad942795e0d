// Package event defines the events of a running job, which user interfaces show while it runs: one
// stream, many readers. Results never depend on events. The package does not know who reads them.
package event

import (
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Kind is the kind of an event.
type Kind string

// The kinds of event, and the fields each sets besides Time and Kind.
const (
	JobStarted   Kind = "job_started"   // Total, Message (the job's directory), Kept
	TrialStarted Kind = "trial_started" // Key
	PhaseStarted Kind = "phase_started" // Key, Phase, Step
	Progress     Kind = "progress"      // Key, Message: a line about a wait of the trial, such as for its image; "" ends it
	Retrying     Kind = "retrying"      // Key, Message, Delay
	TrialEnded   Kind = "trial_ended"   // Key, Trial, Message (the trial's directory)
	Notice       Kind = "notice"        // Message: something to report once
	Cancelling   Kind = "cancelling"    // Message
	JobEnded     Kind = "job_ended"     // Job
)

// Phase is a part of a trial.
type Phase string

// The phases, in order.
const (
	EnvironmentSetup Phase = "environment_setup"
	AgentSetup       Phase = "agent_setup"
	AgentExecution   Phase = "agent_execution"
	Verifier         Phase = "verifier"
	Judging          Phase = "judging"
	Collect          Phase = "collect"
	Teardown         Phase = "teardown"
)

// Event is one thing that happened, and a line of events.jsonl. Its texts are already redacted.
type Event struct {
	Time    time.Time   `json:"time"`
	Kind    Kind        `json:"kind"`
	Key     *result.Key `json:"trial,omitempty"`
	Phase   Phase       `json:"phase,omitempty"`
	Step    *Step       `json:"step,omitempty"` // nil: not in a step of the task
	Message string      `json:"message,omitempty"`
	Total   int         `json:"total,omitempty"`
	AtMost  bool        `json:"at_most,omitempty"` // Total may turn out to be smaller
	// Kept are the results of trials that are not run, because the job is resumed or reuses them.
	// Total counts them, too.
	Kept  []result.Trial `json:"-"`
	Delay time.Duration  `json:"delay_ns,omitempty"`
	Trial *result.Trial  `json:"result,omitempty"`
	Job   *result.Job    `json:"-"`
}

// Step is the step of a task with several in which an event of its trial happened.
type Step struct {
	Name   string `json:"name"`
	Number int    `json:"number"` // from 1
	Of     int    `json:"of"`     // how many the task has
}

// Sink receives events, one at a time, in order. Sinks cannot fail, must not block for long and
// must not change their arguments.
type Sink func(Event)

// Tee returns a sink that passes every event to each sink in turn.
func Tee(sinks ...Sink) Sink {
	return func(e Event) {
		for _, sink := range sinks {
			sink(e)
		}
	}
}
