package trial

import (
	"context"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/run/trial/experiment"
	"github.com/org/rollout-action/internal/run/trial/images"
	"github.com/org/rollout-action/internal/run/trial/layer"
	"github.com/org/rollout-action/internal/run/trial/record"
)

// Options configure all trials of a job.
type Options struct {
	Provider environment.Provider
	Job      config.Job
	Digests  experiment.Digests // of Job
	// Run identifies the job's directory; see environment.Labels.
	Run string
	// Models holds the models of Job that agents use, by name.
	Models   map[string]*gateway.Model
	Budget   Budget           // nil: the job has none
	Redactor *redact.Redactor // nil: nothing is hidden
	Emit     event.Sink       // safe for many goroutines; nil: discarded
	Now      func() time.Time // nil: time.Now
	// Disk returns an error if a disk has too little space for more files
	// (environment.min_free_disk). nil: no check.
	Disk func() error
	// Hard, when it ends, cuts even cleanups short (a second Ctrl-C). nil: never.
	Hard context.Context //nolint:containedctx // outlives that of calls
	// Patience multiplies the times that a trial may take to end after a cancel. 0 is 1.
	Patience int
}

// Budget is the money that the job may spend. Its methods are safe for concurrent use.
type Budget interface {
	// Spend adds the model cost of a trial since the last call, in US dollars.
	Spend(trial result.Key, usd float64)
	gateway.Purse
}

// Runner runs trials. Run may be called by many goroutines.
type Runner struct {
	opts   Options
	images *images.Store
	layers *layer.Store
	bases  bases
	owner  environment.Owner
	judges chan struct{} // has an element for each judge that runs outside its trial's environment
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
		images: images.NewStore(opts.Provider, opts.Job.Environment.ForceBuild),
		layers: layer.NewStore(opts.Provider),
		owner:  environment.Self(),
		judges: make(chan struct{}, max(1, opts.Job.NConcurrentTrials)),
	}
}

// Outcome is the result of a trial, with details that are not in the result file.
type Outcome struct {
	Trial result.Trial // redacted
	// Detail holds more about the trial's error than fits a message, for error.txt. It is redacted;
	// "" if there is no more.
	Detail string
	// MachineFault is the failure of this machine that ended the trial, or nil.
	MachineFault error
}

// Run runs one trial in dir, which must exist, and leaves the trial's logs there. It returns no
// error: all errors, and panics, are in the outcome. When ctx ends, the environment is stopped and
// the outcome is cancelled.
//
// If the environment is lost before the agent has begun, the trial starts over in a new one, as
// often as the job's retry policy allows, because the agent cannot have caused it.
func (r *Runner) Run(ctx context.Context, spec Spec, dir string) Outcome {
	return r.run(ctx, spec, dir, nil)
}

// run runs a trial as Run does, with a visit if it is not nil.
func (r *Runner) run(ctx context.Context, spec Spec, dir string, visit *visiting) Outcome {
	policy := r.opts.Job.Retry
	delay := time.Duration(policy.InitialDelayMs) * time.Millisecond
	started := r.opts.Now()
	var before result.Trial // sums of earlier executions
	for n := 1; ; n++ {
		x := r.execution(spec, dir, started, before)
		if visit != nil {
			x.stay = visitLifetime
		}
		x.run(ctx, x.steps(visit))
		if x.startOver == nil || n >= policy.MaxAttempts || ctx.Err() != nil {
			return Outcome{Trial: x.Trial, Detail: x.Detail, MachineFault: x.MachineFault}
		}
		delay = min(delay, time.Duration(policy.MaxDelayMs)*time.Millisecond)
		x.RecordRetry(environment.Failure{Operation: "trial", Attempt: n, Err: x.startOver, Delay: delay})
		before = x.Trial
		awake.Sleep(ctx, delay)
		delay = time.Duration(float64(delay) * policy.Multiplier)
	}
}

// FormatOf returns a task's format by its name in results: "" for the usual one.
func FormatOf(t *task.Task) string {
	if t.Format == task.FormatRollout {
		return ""
	}
	return string(t.Format)
}

// execution returns an execution of a trial. It keeps the warnings, retries, costs and omissions of
// the executions before.
func (r *Runner) execution(spec Spec, dir string, started time.Time, before result.Trial) *execution {
	x := &execution{agentRun: agentRun{
		Runner: r,
		plan:   newPlan(spec, r.opts.Job),
		Record: record.Record{
			Began: started, Dir: dir, MaxStream: int64(r.opts.Job.MaxStreamSize), Secrets: r.opts.Redactor, Sink: r.opts.Emit, Now: r.opts.Now,
		},
	}}
	x.Trial = result.Trial{
		Key:             spec.Key,
		TaskGitCommitID: spec.Task.GitCommitID,
		TaskDigest:      spec.Task.Digest(),
		TaskFormat:      FormatOf(spec.Task),
		AgentDigest:     r.opts.Digests.Agents[spec.Agent.Name],
		Trainable:       spec.Agent.Trainable,
		ConfigDigest:    r.opts.Digests.ConfigOf(spec.Task),
		Environment:     &result.Environment{Provider: r.opts.Provider.Name()},
		Costs:           before.Costs,
		Retries:         before.Retries,
		Omitted:         before.Omitted,
		Warnings:        before.Warnings,
	}
	x.tests = newApart(x.plan)
	x.Trial.Timestamps.StartedAt = result.Stamp(started)
	if spec.Judging != nil {
		x.continueJudging(spec.Judging)
	}
	if spec.Again != nil {
		x.continueFrom(spec.Again, before.Reverified == nil)
	}
	return x
}
