package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
)

// ready sees to it that what the task asks of a new environment is there, before anybody is to blame for it but the task.
func (a *attempt) ready(ctx context.Context) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	image := environment.ReadinessOf(a.env)
	if image.Busy {
		a.warn("the image's ENTRYPOINT did not run the command that it was given within %s, so nobody knows whether it had done its work when the agent began: "+
			"let it end with exec \"$@\", or give the image a HEALTHCHECK", environment.HandoverTime)
	}
	if image.Healthcheck != nil {
		if err := a.imageHealthy(ctx, *image.Healthcheck); err != nil {
			return err
		}
	}
	return a.healthy(ctx)
}

// quickInterval is how often an image's HEALTHCHECK is tried before Docker would do so for the first time.
const quickInterval = time.Second

// imageHealthy waits until the image's HEALTHCHECK succeeds. It is tried at once, and then often until the first interval
// is over, which is when Docker begins to; it is given up when Docker calls a container unhealthy.
func (a *attempt) imageHealthy(ctx context.Context, h environment.Healthcheck) error {
	limited, cancel := awake.WithTimeout(ctx, a.timeouts.Build)
	defer cancel()
	const called = "the image's HEALTHCHECK"
	c := healthcheck{
		name: called, command: h.Script(), env: a.makersEnv(), workDir: "", timeout: h.Timeout,
		startPeriod: h.StartPeriod + h.Interval, startInterval: min(quickInterval, h.StartInterval), interval: h.Interval, retries: h.Retries,
	}
	err := a.check(limited, c)
	if limited.Err() != nil && ctx.Err() == nil {
		return failf(result.EnvironmentStartFailed, "%s did not succeed within %v seconds: raise environment.build_timeout_sec in task.toml, or correct the check (HEALTHCHECK NONE in a Dockerfile takes it away)",
			called, a.timeouts.Build.Seconds())
	}
	return err
}

// usable checks the users and the working directory that task.toml names. For those that name neither, which is most,
// nothing is run.
func (a *attempt) usable(ctx context.Context) error {
	cfg := a.spec.Task.Config
	dir := cfg.Environment.WorkDir
	asked := []struct{ key, user string }{{"agent.user", cfg.Agent.User}, {"verifier.user", cfg.Verifier.User}}
	if dir != "" {
		asked = append(asked, struct{ key, user string }{"environment.workdir", ""})
	}
	var checked []string
	for _, who := range asked {
		if who.user == "" && dir == "" || slices.Contains(checked, who.user) {
			continue
		}
		checked = append(checked, who.user)
		err := a.tryOut(ctx, who.user, dir)
		if environment.KindOf(err) != environment.KindExec {
			if err != nil {
				return err
			}
			continue
		}
		if who.user != "" {
			if nobody := a.tryOut(ctx, who.user, "/"); nobody != nil {
				return failf(result.TaskInvalid, "nothing can be run as %s in task.toml, %s: %s (name a user who is in the image)",
					who.key, who.user, brief(nobody, a.opts.Redactor))
			}
		}
		return failf(result.TaskInvalid, "nothing can be run in environment.workdir in task.toml, %s: %s (name a directory that is in the image, and that %s may enter)",
			dir, brief(err, a.opts.Redactor), nameOf(who.user))
	}
	return nil
}

func nameOf(user string) string {
	if user == "" {
		return "its user"
	}
	return user
}

// tryOut runs nothing, as a user in a folder.
func (a *attempt) tryOut(ctx context.Context, user, dir string) error {
	_, err := a.env.Exec(ctx, ":", environment.ExecOptions{User: user, WorkDir: dir, Timeout: startTimeout})
	if errors.Is(err, environment.ErrTimeout) {
		return failf(result.EnvironmentStartFailed, "%v", errSlowStart)
	}
	return err
}

// healthy waits until the task's healthcheck succeeds, if it has one.
func (a *attempt) healthy(ctx context.Context) error {
	h := a.spec.Task.Config.Environment.Healthcheck
	if h == nil {
		return nil
	}
	return a.check(ctx, healthcheck{
		name: "environment.healthcheck in task.toml", command: h.Command, env: a.makersEnv(), workDir: a.spec.Task.Config.Environment.WorkDir,
		timeout: a.timeouts.Healthcheck, startPeriod: a.timeouts.StartPeriod,
		startInterval: seconds(h.StartIntervalSec), interval: seconds(h.IntervalSec), retries: h.Retries,
	})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// healthcheck is what is repeated until an environment is healthy.
type healthcheck struct {
	name    string // for people
	command string // for bash
	env     map[string]string
	workDir string
	timeout time.Duration // of a check

	startPeriod   time.Duration // in which failures do not count
	startInterval time.Duration // between checks meanwhile
	interval      time.Duration // between checks
	retries       int           // failures in a row after which it is given up
}

// check repeats a healthcheck until it succeeds or is given up, which is the task's failure.
func (a *attempt) check(ctx context.Context, h healthcheck) error {
	var last string // what became of the last check
	var output *environment.Ends
	n, healthy, err := untilHealthy(ctx, h, func() (bool, error) {
		output = &environment.Ends{Size: maxCheckOutput}
		hidden := a.opts.Redactor.Writer(output)
		code, err := a.env.Exec(ctx, h.command, environment.ExecOptions{
			Env: h.env, WorkDir: h.workDir, Stdout: hidden, Stderr: hidden, Timeout: h.timeout,
		})
		_ = hidden.Close() // which takes everything
		last = fmt.Sprintf("exit code %d", code)
		if errors.Is(err, environment.ErrTimeout) && ctx.Err() == nil {
			last = fmt.Sprintf("no end within %s", h.timeout)
			return false, nil
		}
		return err == nil && code == 0, err
	})
	if healthy || err != nil {
		return err
	}
	f := failf(result.EnvironmentStartFailed, "the environment is not healthy: check %d of %s came to %s, and no retry is left; what it printed is in error.txt",
		n, h.name, last)
	f.detail = f.Message + "\n" + h.command + "\n" + output.String()
	return f
}

// minCheckInterval keeps a check whose interval is 0 from being all that happens.
const minCheckInterval = 100 * time.Millisecond

// untilHealthy repeats a check until it succeeds, fails, or fails to be made, and says how often it was made. Failures of
// checks that begin in the start period do not count; of the others it takes h.retries in a row.
// Source: Docker's HEALTHCHECK; Harbor 0.22, src/harbor/environments/base.py.
func untilHealthy(ctx context.Context, h healthcheck, check func() (bool, error)) (checks int, healthy bool, err error) {
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
		sleep(ctx, max(minCheckInterval, interval))
		if ctx.Err() != nil {
			return checks, false, ctx.Err()
		}
	}
}

// maxCheckOutput is how much of a check's output is kept, in bytes.
const maxCheckOutput = 8 << 10
