package trial

import (
	"context"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// teardown destroys the environment, or stops and keeps it for inspection, unless it was ended
// before.
func (x *agentRun) teardown(ctx context.Context) {
	if x.live == nil {
		return
	}
	keepServiceLogs(ctx, x)
	x.end(ctx, func(c context.Context) error {
		err := x.endEnvironment(c)
		x.NoteEnvironmentCost(x.live.env)
		return err
	})
}

// end ends environments by a function, and records its failure.
func (x *agentRun) end(ctx context.Context, environments func(context.Context) error) {
	x.Emit(event.Event{Kind: event.PhaseStarted, Phase: event.Teardown})
	c, cancel := x.Cleanup(ctx, timing.TeardownTimeout, timing.TeardownGrace)
	defer cancel()
	if err := environments(c); err != nil {
		f := failure.Newf(result.EnvironmentTeardownFailed, "the environment could not be removed: %s (remove it with %s)", failure.Brief(err, x.Secrets), environment.CleanCommand(x.opts.Provider.Name()))
		f.Detail = err.Error()
		x.Fail(f)
	}
}

// endWatch ends the watch that ends the environment when the job is cancelled. From then on, only
// teardown ends it.
func (x *agentRun) endWatch(context.Context) {
	if x.live != nil {
		x.live.ended = x.live.stop()
	}
}

// endEnvironment stops or destroys the environment, as preserve_env says.
func (x *agentRun) endEnvironment(ctx context.Context) error {
	keep := x.preserve(x.job.Environment.PreserveEnv, x.startOver != nil)
	if x.live.ended {
		x.Trial.Environment.Preserved = keep
		return nil
	}
	if keep {
		err := x.live.env.Stop(ctx)
		x.Trial.Environment.Preserved = err == nil
		if err == nil || !x.LostEnvironment() {
			return err
		}
	}
	return x.live.env.Destroy(ctx)
}

// preserve reports whether preserve_env keeps the environment. A cancelled trial did not fail, and
// a lost environment is kept only with PreserveAlways.
func (x *agentRun) preserve(policy config.Preserve, startOver bool) bool {
	switch policy {
	case config.PreserveAlways:
		return !startOver
	case config.PreserveOnFailure:
		if e := x.Trial.Error; e != nil {
			return e.Type != result.Cancelled && !x.LostEnvironment()
		}
		return x.Trial.Reward != nil && *x.Trial.Reward < 1
	}
	return false
}
