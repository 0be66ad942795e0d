package readiness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// Check checks whether a new environment fulfils the task's conditions. If it does not, the
// task has failed, because no agent has run yet.
type Check struct {
	Task      task.Config
	Timeouts  timing.Timeouts
	Env       environment.Environment
	Variables map[string]string // of each command
	Secrets   *redact.Redactor
	// exec runs a check, as Exec of env does.
	exec func(ctx context.Context, command string, opts environment.ExecOptions) (int, error)
}

// Await waits until the environment is ready. The warning is "" if there is none.
func (r Check) Await(ctx context.Context) (warning string, err error) {
	if err := r.checkUsers(ctx); err != nil {
		return "", err
	}
	image := environment.ReadinessOf(r.Env)
	if image.Busy {
		warning = fmt.Sprintf("the image's ENTRYPOINT did not run the command that it was given within %s, so it may still have been at work when the agent began: "+
			"let it end with exec \"$@\", or give the image a HEALTHCHECK", environment.HandoverTime)
	}
	if image.Healthcheck != nil {
		if err := r.awaitImageHealth(ctx, *image.Healthcheck); err != nil {
			return warning, err
		}
	}
	return warning, r.AwaitTask(ctx)
}

// quickInterval is the interval of an image's HEALTHCHECK until Docker would first run it.
const quickInterval = time.Second

// awaitImageHealth waits until the image's HEALTHCHECK succeeds. It is run at once, and then often
// until the first interval is over, which is when Docker begins. It fails when Docker would call a
// container unhealthy.
func (r Check) awaitImageHealth(ctx context.Context, h environment.Healthcheck) error {
	clock := timing.NewClock(ctx, r.Timeouts.Build)
	defer clock.End()
	r.exec = func(ctx context.Context, command string, opts environment.ExecOptions) (int, error) {
		return clock.Exec(ctx, r.Env, command, opts)
	}
	const called = "the image's HEALTHCHECK"
	c := healthcheck{
		name: called, command: h.Script(), env: r.Variables, workDir: "", timeout: h.Timeout,
		startPeriod: h.StartPeriod + h.Interval, startInterval: min(quickInterval, h.StartInterval), interval: h.Interval, retries: h.Retries,
	}
	err := r.awaitHealth(clock.Context(), c)
	if clock.Context().Err() != nil && ctx.Err() == nil {
		return failure.Newf(result.EnvironmentStartFailed, "%s did not succeed within %v seconds: raise environment.build_timeout_sec in task.toml, or correct the check (HEALTHCHECK NONE in a Dockerfile takes it away)",
			called, r.Timeouts.Build.Seconds())
	}
	return err
}

// checkUsers checks the users and the working directory that task.toml names. For most tasks, which
// name neither, it runs nothing.
func (r Check) checkUsers(ctx context.Context) error {
	cfg := r.Task
	dir := cfg.Environment.WorkDir
	asked := []struct{ key, user string }{{"agent.user", string(cfg.Agent.User)}, {"verifier.user", string(cfg.Verifier.User)}}
	if dir != "" {
		asked = append(asked, struct{ key, user string }{"environment.workdir", ""})
	}
	var checked []string
	for _, who := range asked {
		if who.user == "" && dir == "" || slices.Contains(checked, who.user) {
			continue
		}
		checked = append(checked, who.user)
		err := r.tryExec(ctx, who.user, dir)
		if environment.KindOf(err) != environment.KindExec {
			if err != nil {
				return err
			}
			continue
		}
		if who.user != "" {
			if userErr := r.tryExec(ctx, who.user, "/"); userErr != nil {
				return failure.Newf(result.TaskInvalid, "nothing can be run as %s in task.toml, %s: %s (name a user who is in the image)",
					who.key, who.user, failure.Brief(userErr, r.Secrets))
			}
		}
		return failure.Newf(result.TaskInvalid, "nothing can be run in environment.workdir in task.toml, %s: %s (name a directory that is in the image, and that %s may enter)",
			dir, failure.Brief(err, r.Secrets), userName(who.user))
	}
	return nil
}

func userName(user string) string {
	if user == "" {
		return "its user"
	}
	return user
}

// tryExec runs an empty command as a user in a directory.
func (r Check) tryExec(ctx context.Context, user, dir string) error {
	_, err := r.Env.Exec(ctx, ":", environment.ExecOptions{User: user, WorkDir: dir, Timeout: timing.StartTimeout})
	if errors.Is(err, environment.ErrTimeout) {
		return failure.Newf(result.EnvironmentStartFailed, "%v", timing.ErrSlowStart)
	}
	return err
}

// AwaitTask waits until the task's healthcheck succeeds, if it has one.
func (r Check) AwaitTask(ctx context.Context) error {
	h := r.Task.Environment.Healthcheck
	if h == nil {
		return nil
	}
	r.exec = r.Env.Exec
	return r.awaitHealth(ctx, healthcheck{
		name: "environment.healthcheck in task.toml", command: h.Command, env: r.Variables, workDir: r.Task.Environment.WorkDir,
		timeout: r.Timeouts.Healthcheck, startPeriod: r.Timeouts.StartPeriod,
		startInterval: seconds(h.StartIntervalSec), interval: seconds(h.IntervalSec), retries: h.Retries,
	})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// healthcheck is a command that is repeated until it succeeds.
type healthcheck struct {
	name    string // for messages
	command string // for bash
	env     map[string]string
	workDir string
	timeout time.Duration // of a check

	startPeriod   time.Duration // in which failures do not count
	startInterval time.Duration // between checks meanwhile
	interval      time.Duration // between checks
	retries       int           // failures in a row after which the environment is unhealthy
}

// awaitHealth repeats a healthcheck until it succeeds. If it fails too often, it returns a failure
// of the task.
func (r Check) awaitHealth(ctx context.Context, h healthcheck) error {
	var last string // the outcome of the last check
	var output *excerpt.Ends
	n, healthy, err := repeatCheck(ctx, h, func() (bool, error) {
		output = &excerpt.Ends{Size: maxCheckOutput}
		hidden := r.Secrets.Writer(output)
		code, err := r.exec(ctx, h.command, environment.ExecOptions{
			Env: h.env, WorkDir: h.workDir, Stdout: hidden, Stderr: hidden, Timeout: h.timeout,
		})
		_ = hidden.Close() // it never fails
		last = fmt.Sprintf("exit code %d", code)
		if errors.Is(err, environment.ErrTimeout) && ctx.Err() == nil {
			last = fmt.Sprintf("a timeout of %s", h.timeout)
			return false, nil
		}
		return err == nil && code == 0, err
	})
	if healthy || err != nil {
		return err
	}
	f := failure.Newf(result.EnvironmentStartFailed, "the environment is not healthy: check %d of %s ended with %s, and no retry is left; its output is in %s",
		n, h.name, last, result.ErrorFile)
	f.Detail = f.Message + "\n" + h.command + "\n" + output.String()
	return f
}

// minCheckInterval is the shortest wait between two checks, whose interval may be 0.
const minCheckInterval = 100 * time.Millisecond

// repeatCheck repeats a check until it succeeds, cannot be run, or has failed h.retries times in a
// row, and returns how often it ran. Failures of checks that begin in the start period do not
// count.
// Source: Docker's HEALTHCHECK; Harbor 0.22, src/harbor/environments/base.py.
func repeatCheck(ctx context.Context, h healthcheck, check func() (bool, error)) (checks int, healthy bool, err error) {
	begun := time.Now()
	for failures := 0; ; {
		starting := time.Since(begun) < h.startPeriod
		healthy, err = check()
		checks++
		if healthy || err != nil {
			return checks, healthy, err
		}
		interval := h.startInterval
		if !starting {
			interval = h.interval
			if failures++; failures >= h.retries {
				return checks, false, nil
			}
		}
		awake.Sleep(ctx, max(minCheckInterval, interval))
		if ctx.Err() != nil {
			return checks, false, ctx.Err()
		}
	}
}

// maxCheckOutput is the maximum number of bytes of a check's output that are kept.
const maxCheckOutput = 8 << 10
