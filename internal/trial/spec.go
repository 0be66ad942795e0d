package trial

import (
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// Spec is one planned trial.
type Spec struct {
	Key   result.Key
	Task  *task.Task
	Agent agent.Agent
	Env   map[string]string // the agent's variables, expanded; never written anywhere
}

// Timeouts are a trial's limits in time, multiplier, overrides and ceilings applied.
type Timeouts struct {
	Build   time.Duration // of the image's build or pull
	Install time.Duration
	Execute time.Duration
	Verify  time.Duration
}

// TimeoutsOf works out a trial's timeouts. The job's verifier override replaces the task's value, the
// ceiling then bounds it, and the multiplier stretches the outcome (so it applies to both of them
// too). Source: specification, "timeout_multiplier".
func TimeoutsOf(job config.Job, t task.Config) Timeouts {
	verify := t.Verifier.TimeoutSec
	if job.Verifier.OverrideTimeoutSec > 0 {
		verify = job.Verifier.OverrideTimeoutSec
	}
	if job.Verifier.MaxTimeoutSec > 0 {
		verify = min(verify, job.Verifier.MaxTimeoutSec)
	}
	scaled := func(sec float64) time.Duration {
		const longest = float64(1<<63-1) / float64(time.Second)
		return time.Duration(min(sec*job.TimeoutMultiplier, longest/2) * float64(time.Second))
	}
	return Timeouts{
		Build:   scaled(t.Environment.BuildTimeoutSec),
		Install: scaled(t.Agent.InstallTimeoutSec),
		Execute: scaled(t.Agent.TimeoutSec),
		Verify:  scaled(verify),
	}
}
