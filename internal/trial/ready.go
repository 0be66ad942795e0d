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

// awaitReady waits until a new environment has what the task asks of it. If it does not, the failure is the task's, because no
// agent has run yet.
func (x *execution) awaitReady(ctx context.Context) error {
	if err := x.checkUsers(ctx); err != nil {
		return err
	}
	image := environment.ReadinessOf(x.env)
	if image.Busy {
		x.warn("the image's ENTRYPOINT did not run the command that it was given within %s, so nobody knows whether it had done its work when the agent began: "+
			"let it end with exec \"$@\", or give the image a HEALTHCHECK", environment.HandoverTime)
	}
	if image.Healthcheck != nil {
		if err := x.awaitImageHealth(ctx, *image.Healthcheck); err != nil {
			return err
		}
	}
	return x.awaitTaskHealth(ctx)
}

// quickInterval is how often an image's HEALTHCHECK is tried before Docker would do so for the first time.
const quickInterval = time.Second

// awaitImageHealth waits until the image's HEALTHCHECK succeeds. It is tried at once, and then often until the first interval
// is over, which is when Docker begins to; it is given up when Docker calls a container unhealthy.
func (x *execution) awaitImageHealth(ctx context.Context, h environment.Healthcheck) error {
	limited, cancel := awake.WithTimeout(ctx, x.timeouts.Build)
	defer cancel()
	const called = "the image's HEALTHCHECK"
	c := healthcheck{
		name: called, command: h.Script(), env: x.commandEnv(), workDir: "", timeout: h.Timeout,
		startPeriod: h.StartPeriod + h.Interval, startInterval: min(quickInterval, h.StartInterval), interval: h.Interval, retries: h.Retries,
	}
	err := x.awaitHealth(limited, c)
	if limited.Err() != nil && ctx.Err() == nil {
		return failf(result.EnvironmentStartFailed, "%s did not succeed within %v seconds: raise environment.build_timeout_sec in task.toml, or correct the check (HEALTHCHECK NONE in a Dockerfile takes it away)",
			called, x.timeouts.Build.Seconds())
	}
	return err
}

// checkUsers checks the users and the working directory that task.toml names. For those that name neither, which is most,
// nothing is run.
func (x *execution) checkUsers(ctx context.Context) error {
	cfg := x.spec.Task.Config
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
		err := x.tryExec(ctx, who.user, dir)
		if environment.KindOf(err) != environment.KindExec {
			if err != nil {
				return err
			}
			continue
		}
		if who.user != "" {
			if nobody := x.tryExec(ctx, who.user, "/"); nobody != nil {
				return failf(result.TaskInvalid, "nothing can be run as %s in task.toml, %s: %s (name a user who is in the image)",
					who.key, who.user, brief(nobody, x.opts.Redactor))
			}
		}
		return failf(result.TaskInvalid, "nothing can be run in environment.workdir in task.toml, %s: %s (name a directory that is in the image, and that %s may enter)",
			dir, brief(err, x.opts.Redactor), userName(who.user))
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
func (x *execution) tryExec(ctx context.Context, user, dir string) error {
	_, err := x.env.Exec(ctx, ":", environment.ExecOptions{User: user, WorkDir: dir, Timeout: startTimeout})
	if errors.Is(err, environment.ErrTimeout) {
		return failf(result.EnvironmentStartFailed, "%v", errSlowStart)
	}
	return err
}

// awaitTaskHealth waits until the task's healthcheck succeeds, if it has one.
func (x *execution) awaitTaskHealth(ctx context.Context) error {
	h := x.spec.Task.Config.Environment.Healthcheck
	if h == nil {
		return nil
	}
	return x.awaitHealth(ctx, healthcheck{
		name: "environment.healthcheck in task.toml", command: h.Command, env: x.commandEnv(), workDir: x.spec.Task.Config.Environment.WorkDir,
		timeout: x.timeouts.Healthcheck, startPeriod: x.timeouts.StartPeriod,
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

// awaitHealth repeats a healthcheck until it succeeds or is given up, which is the task's failure.
func (x *execution) awaitHealth(ctx context.Context, h healthcheck) error {
	var last string // what became of the last check
	var output *environment.Ends
	n, healthy, err := repeatCheck(ctx, h, func() (bool, error) {
		output = &environment.Ends{Size: maxCheckOutput}
		hidden := x.opts.Redactor.Writer(output)
		code, err := x.env.Exec(ctx, h.command, environment.ExecOptions{
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

// repeatCheck repeats a check until it succeeds, fails, or fails to be made, and says how often it was made. Failures of
// checks that begin in the start period do not count; of the others it takes h.retries in a row.
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
		sleep(ctx, max(minCheckInterval, interval))
		if ctx.Err() != nil {
			return checks, false, ctx.Err()
		}
	}
}

// maxCheckOutput is how much of a check's output is kept, in bytes.
const maxCheckOutput = 8 << 10
