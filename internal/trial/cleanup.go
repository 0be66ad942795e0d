package trial

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// How long collecting and tearing down may take, usually and once the job is cancelled. The graces
// add up to less than the 5 s in which a cancelled job has to be over (GitHub gives 7.5 s).
const (
	collectTimeout  = 5 * time.Minute
	teardownTimeout = 2 * time.Minute
	stuckGrace      = 1500 * time.Millisecond // for the running command to be killed
	collectGrace    = 2500 * time.Millisecond // all three count from the cancel
	teardownGrace   = 4 * time.Second
)

// cleanup is a context for what must happen also after a cancel: it ends after normal, or grace after
// the cancel, or when the job is told to stop at once.
func (a *attempt) cleanup(ctx context.Context, normal, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := context.WithTimeout(a.opts.Hard, normal)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-c.Done():
		case <-time.After(grace):
			cancel()
		}
	})
	return environment.WithRetryNotify(c, a.noteRetry), func() { stop(); cancel() }
}

// hurry sees to it that an environment which does not answer a cancel is ended all the same, however
// deep a step is stuck in it. The caller stops it once the environment is torn down.
func (a *attempt) hurry(ctx context.Context, env environment.Environment) (stop func()) {
	over, stop := context.WithCancel(a.opts.Hard)
	context.AfterFunc(ctx, func() {
		sleep(over, stuckGrace)
		if over.Err() != nil {
			return
		}
		c, cancel := context.WithTimeout(a.opts.Hard, teardownGrace)
		defer cancel()
		end := env.Destroy
		if a.opts.Job.Environment.PreserveEnv == config.PreserveAlways {
			end = env.Stop
		}
		_ = end(c) // teardown tries again, and reports
	})
	return stop
}

// collect copies /logs out of the environment, whatever happened in it, and reads the reward if one
// is due.
func (a *attempt) collect(ctx context.Context) {
	if a.env == nil || a.startOver {
		return
	}
	a.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Collect})
	c, cancel := a.cleanup(ctx, collectTimeout, collectGrace)
	defer cancel()
	reward := &rewardFile{}
	err := a.copyLogs(c, "", reward)
	if err != nil && a.verified && !reward.found {
		// Too much else in /logs, or a copy that broke off: what the verifier left must not be lost to it.
		err = errors.Join(err, a.copyLogs(c, "verifier", reward))
	}
	if err != nil {
		a.warn("/logs could not be copied whole: %v", err)
	}
	if !a.verified {
		return
	}
	value, failed := reward.read()
	switch {
	case failed == nil:
		a.trial.Reward = &value
	case reward.found || err == nil:
		a.fail(failed)
	case ctx.Err() != nil:
		a.fail(cancelled(event.Collect))
	default:
		a.fail(classify(event.Collect, err, a.timeouts))
	}
}

// copyLogs copies a folder below /logs out of the environment, notes what was left behind, and
// catches the reward on its way.
func (a *attempt) copyLogs(ctx context.Context, folder string, reward *rewardFile) error {
	dst := filepath.Join(a.dir, "logs", folder)
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	options := environment.ExtractOptions{
		SafeName: result.Slug,
		Tap: func(name string) io.Writer {
			if path.Join(folder, name) == rewardPath {
				return reward
			}
			return nil
		},
	}
	if !a.opts.Redactor.Empty() {
		options.Filter = func(w io.Writer) io.WriteCloser { return a.opts.Redactor.Writer(w) }
	}
	got, err := a.env.CopyFrom(ctx, path.Join(logsDir, folder), dst, options)
	for _, o := range got.Omitted {
		a.omit(path.Join("logs", folder, o.Path), o.Reason)
	}
	for _, r := range got.Renamed {
		a.trial.Renamed = append(a.trial.Renamed, result.Rename{
			From: a.opts.Redactor.String(path.Join("logs", folder, r.From)),
			To:   a.opts.Redactor.String(path.Join("logs", folder, r.To)),
		})
	}
	return err
}

// teardown destroys the environment, or stops and keeps it for inspection.
func (a *attempt) teardown(ctx context.Context) {
	if a.env == nil {
		return
	}
	defer a.calm()
	a.emit(event.Event{Kind: event.PhaseStarted, Phase: event.Teardown})
	c, cancel := a.cleanup(ctx, teardownTimeout, teardownGrace)
	defer cancel()
	var err error
	if a.preserves() {
		err = a.env.Stop(c)
		a.trial.Environment.Preserved = err == nil
	} else {
		err = a.env.Destroy(c)
	}
	a.trial.Costs.Environment = a.env.Cost()
	if err != nil {
		f := classify(event.Teardown, err, a.timeouts)
		f.Type = result.EnvironmentTeardownFailed
		f.Message += ": remove what is left with rollout clean"
		a.fail(f)
	}
}

// preserves applies preserve_env. A cancelled trial did not fail, and a lost environment is not
// worth keeping.
func (a *attempt) preserves() bool {
	switch a.opts.Job.Environment.PreserveEnv {
	case config.PreserveAlways:
		return !a.startOver
	case config.PreserveOnFailure:
		if e := a.trial.Error; e != nil {
			return e.Type != result.Cancelled && e.Type != result.EnvironmentLost
		}
		return a.trial.Reward != nil && *a.trial.Reward < 1
	}
	return false
}
