package trial

import (
	"context"
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// Options are what every trial of a job shares.
type Options struct {
	Provider environment.Provider
	Job      config.Job
	Digests  Digests          // of Job
	Redactor *redact.Redactor // nil: nothing is hidden
	Emit     event.Sink       // safe for many goroutines; nil: nobody watches
	Now      func() time.Time // nil: time.Now
	// Hard, when it ends, cuts even clean-ups short (a second Ctrl-C). nil: never.
	Hard context.Context
}

// Runner runs trials. Run may be called by many goroutines.
type Runner struct {
	opts   Options
	images images
	layers layers
	bases  bases
	owner  environment.Owner
}

// NewRunner returns a Runner for one job.
func NewRunner(opts Options) *Runner {
	if opts.Emit == nil {
		opts.Emit = func(event.Event) {}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Hard == nil {
		opts.Hard = context.Background()
	}
	return &Runner{
		opts:   opts,
		images: images{provider: opts.Provider, forceBuild: opts.Job.Environment.ForceBuild},
		layers: layers{provider: opts.Provider},
		owner:  environment.Self(),
	}
}

// Outcome is a trial's result, and more about its error than fits a message (for error.txt; "" when
// there is no more). Both are redacted.
type Outcome struct {
	Trial  result.Trial
	Detail string
	// MachineFault is the failure of the machine that Rollout runs on which ended the trial, or nil.
	MachineFault error
}

// Run runs one trial in dir, which must exist, and leaves the trial's logs there. It returns no
// error: whatever goes wrong, a panic included, is in the outcome. When ctx ends, the environment is
// stopped and the outcome is cancelled.
//
// A trial whose environment is lost before the agent has begun starts over in a new one, as often as
// the job's retry policy allows: until then nothing that happened was the agent's doing.
func (r *Runner) Run(ctx context.Context, spec Spec, dir string) Outcome {
	policy := r.opts.Job.Retry
	delay := time.Duration(policy.InitialDelayMs) * time.Millisecond
	started := r.opts.Now()
	var before result.Trial // what the executions so far have left
	for n := 1; ; n++ {
		a := r.execution(spec, dir, started, before)
		a.run(ctx)
		if !a.startOver || n >= policy.MaxAttempts || ctx.Err() != nil {
			return Outcome{Trial: a.trial, Detail: a.detail, MachineFault: a.machineFault}
		}
		delay = min(delay, time.Duration(policy.MaxDelayMs)*time.Millisecond)
		a.recordRetry(environment.Failure{Operation: "trial", Attempt: n, Err: a.startOverCause, Delay: delay})
		before = a.trial
		sleep(ctx, delay)
		delay = time.Duration(float64(delay) * policy.Multiplier)
	}
}

// FormatOf is how results name a task's format: not at all, if it is the usual one.
func FormatOf(t *task.Task) string {
	if t.Format == task.FormatRollout {
		return ""
	}
	return string(t.Format)
}

func sleep(ctx context.Context, d time.Duration) { awake.Sleep(ctx, d) }

// execution returns an execution of a trial. It keeps the warnings, retries, costs and omissions of the executions before.
func (r *Runner) execution(spec Spec, dir string, started time.Time, before result.Trial) *execution {
	a := &execution{
		Runner:   r,
		spec:     spec,
		rules:    spec.Task.Rules(),
		dir:      dir,
		timeouts: TimeoutsOf(r.opts.Job, spec.Task.Config),
		networks: spec.networks(r.opts.Job),
		started:  started,
	}
	a.trial = result.Trial{
		Key:             spec.Key,
		TaskGitCommitID: spec.Task.GitCommitID,
		TaskDigest:      spec.Task.Digest(),
		TaskFormat:      FormatOf(spec.Task),
		AgentDigest:     r.opts.Digests.Agents[spec.Agent.Name],
		ConfigDigest:    r.opts.Digests.Config,
		Environment:     &result.Environment{Provider: r.opts.Provider.Name()},
		Costs:           before.Costs,
		Retries:         before.Retries,
		Omitted:         before.Omitted,
		Warnings:        before.Warnings,
	}
	a.trial.Timestamps.StartedAt = result.Stamp(started)
	return a
}
