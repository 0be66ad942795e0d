package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

const (
	// keepTimeout limits the time for keeping a trial's files.
	keepTimeout = 5 * time.Minute
	// diskInterval is the interval of checking the free space meanwhile.
	diskInterval = time.Second
)

var errSlowKeep = fmt.Errorf("it took longer than %s", keepTimeout)

// keepOutcome keeps the files of the environment as the agent left them. If they cannot be kept,
// the trial continues with a warning.
func (x *execution) keepOutcome(ctx context.Context) {
	if x.live == nil || !x.NoError() && !x.AgentFailed() || ctx.Err() != nil {
		return
	}
	x.Progress("keeping the agent's files")
	defer x.Progress("")
	kept, err := x.keepFiles(ctx)
	switch {
	case err == nil:
		x.Trial.Environment.Outcome = &result.KeptOutcome{ID: kept.ID, Bytes: kept.Size}
	case ctx.Err() != nil, environment.KindOf(err) == environment.KindLost: // the next step reports it
	default:
		x.Warn("the agent's files are not kept (environment.keep): %s", failure.Brief(err, x.Secrets))
	}
}

// keepFiles calls KeepOutcome until the time is over, or the disk is full.
func (x *execution) keepFiles(ctx context.Context) (environment.Outcome, error) {
	if err := x.lowDisk(); err != nil {
		return environment.Outcome{}, err
	}
	timed, cancel := awake.WithTimeoutCause(ctx, keepTimeout, errSlowKeep)
	defer cancel()
	watched, stop := context.WithCancelCause(timed)
	defer stop(nil)
	go func() {
		for tick := time.NewTicker(diskInterval); ; {
			select {
			case <-watched.Done():
				tick.Stop()
				return
			case <-tick.C:
				if err := x.lowDisk(); err != nil {
					stop(err)
				}
			}
		}
	}()
	kept, err := environment.KeepOutcome(watched, x.live.env)
	if cause := context.Cause(watched); err != nil && ctx.Err() == nil && cause != nil && errors.Is(err, watched.Err()) {
		err = cause
	}
	return kept, err
}

// lowDisk returns an error if a disk has too little space for the kept files.
func (x *execution) lowDisk() error {
	if x.opts.Disk == nil {
		return nil
	}
	return x.opts.Disk()
}

// dropOutcome removes the outcomes of a cancelled trial, whose agent will run again.
func (x *execution) dropOutcome(ctx context.Context) {
	if x.Trial.Error == nil || x.Trial.Error.Type != result.Cancelled {
		return
	}
	c, cancel := x.Cleanup(ctx, timing.TeardownTimeout, timing.TeardownGrace)
	defer cancel()
	for _, kept := range x.Trial.Outcomes() {
		if err := x.opts.Provider.Remove(c, kept.ID); err != nil {
			x.Warn("the agent's files could not be removed: %s (remove it with %s)", failure.Brief(err, x.Secrets), environment.CleanCommand(x.opts.Provider.Name(), "--kept"))
			return
		}
	}
	x.Trial.Environment.Outcome = nil
	for i := range x.Trial.Steps {
		x.Trial.Steps[i].Outcome = nil
	}
}
