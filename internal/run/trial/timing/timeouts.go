package timing

import (
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
)

// Timeouts holds the timeouts of a trial, with multiplier, overrides and ceilings applied.
type Timeouts struct {
	Build   time.Duration // of the image's build or pull
	Install time.Duration
	Execute time.Duration
	Verify  time.Duration
	// Healthcheck limits each check of the task's healthcheck, if it has one. In StartPeriod checks
	// may fail.
	Healthcheck, StartPeriod time.Duration
	// VerifyKey is the key that Verify comes from, for messages.
	VerifyKey string
}

// Scaled returns a time of a task with the job's multiplier; it is not 0.
func Scaled(job config.Job, sec float64) time.Duration {
	const longest = 1 << 62 // for times far in the future to be added to
	return time.Duration(max(1, min(sec*job.TimeoutMultiplier*float64(time.Second), longest)))
}

// TimeoutsOf returns a trial's timeouts. The job's verifier override replaces the task's value, the
// ceiling then bounds it, and the multiplier stretches the outcome (so it applies to both of them
// too). None is 0, which would mean no limit. Source: specification, "timeout_multiplier".
func TimeoutsOf(job config.Job, t task.Config) Timeouts {
	verify, key := t.Verifier.TimeoutSec, "verifier.timeout_sec in task.toml"
	if job.Verifier.OverrideTimeoutSec > 0 {
		verify, key = job.Verifier.OverrideTimeoutSec, "verifier.override_timeout_sec in the job"
	}
	if ceiling := job.Verifier.MaxTimeoutSec; ceiling > 0 && ceiling < verify {
		verify, key = ceiling, "verifier.max_timeout_sec in the job"
	}
	scaled := func(sec float64) time.Duration { return Scaled(job, sec) }
	out := Timeouts{
		Build:     scaled(t.Environment.BuildTimeoutSec),
		Install:   scaled(t.Agent.InstallTimeoutSec),
		Execute:   scaled(t.Agent.TimeoutSec),
		Verify:    scaled(verify),
		VerifyKey: key,
	}
	if h := t.Environment.Healthcheck; h != nil {
		out.Healthcheck = scaled(h.TimeoutSec)
		if h.StartPeriodSec > 0 {
			out.StartPeriod = scaled(h.StartPeriodSec)
		}
	}
	return out
}
