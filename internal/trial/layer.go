package trial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// snapshotTimeout bounds how long an installed agent may take to become a layer.
const snapshotTimeout = 10 * time.Minute

// cachesInstall reports whether the agent's install script is to run once for many trials.
func (x *execution) cachesInstall() bool {
	return x.spec.Agent.CacheInstall && x.spec.Agent.Install != ""
}

// findLayer is the image to begin with, given the task's: the agent's layer on it if there is one by now. If this trial is to make
// it, or has to do without, that is the task's image, on which the trial installs.
func (x *execution) findLayer(ctx context.Context, ref string) (string, error) {
	id := x.trial.Environment.ImageID
	if id == "" {
		var err error
		id, err = environment.ImageID(ctx, x.opts.Provider, ref)
		if errors.Is(err, errors.ErrUnsupported) {
			x.warnNoLayer(err)
			return ref, nil
		}
		if err != nil {
			if errors.Is(err, environment.ErrNoImage) {
				x.images.forget(x.spec.Task, ref)
			}
			return "", err
		}
	}
	key, err := x.layerKey(id)
	if err != nil {
		return "", err
	}
	l, mine, err := x.layers.claim(ctx, key, x.spec.Key, x.timeouts.Install, func(maker result.Key) {
		x.emit(event.Event{Kind: event.Progress, Message: fmt.Sprintf("waiting for %s to install the agent", maker)})
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		x.warnNoLayer(err)
	case err != nil:
		return "", err
	case mine:
		x.making = l
	case l.failed != nil:
		return "", failf(l.failed.Type, "the trial waited for %s to install the agent, which failed: %s", l.maker, l.failed.Message)
	case l.reason != "":
		x.warnNoLayer(errors.New(l.reason))
	default:
		x.layer = l
		x.trial.Environment.AgentLayer = &result.AgentLayer{Image: l.ref, Cached: true, From: hide(x.opts.Redactor, l.from)}
		return l.ref, x.noteCachedInstall(l)
	}
	return ref, nil
}

// warnNoLayer warns that the agent's install script runs in this trial, although cache_install is on.
func (x *execution) warnNoLayer(why error) {
	x.warn("the agent is installed in every trial: %v", why)
}

// noteCachedInstall writes a note where people look for the output of the install script.
func (x *execution) noteCachedInstall(l *layer) error {
	note, err := x.capture("setup/stdout.txt")
	if err != nil {
		return err
	}
	defer x.release(note)
	_, err = fmt.Fprintf(note, "[rollout: the install script did not run here, because cache_install is on: the environment began with the agent layer %s (%s). "+
		"The script's output is in that trial's setup/ directory.]\n", l.ref, l.from)
	return err
}

// layerDescription describes for people the layer that this trial makes.
func (x *execution) layerDescription() string {
	return hide(x.opts.Redactor, fmt.Sprintf("agent %s, installed by %s of job %s", x.spec.Agent.Name, x.spec.Key, x.opts.Job.Name))
}

// installFiles are in place before a layer is made: what the script may look for, and nothing of the task's, for tasks share it.
func (x *execution) installFiles() []environment.Copy {
	var files []environment.Copy
	for _, dir := range x.rules.LogDirs {
		files = append(files, environment.Copy{Src: fstest.MapFS{}, Dst: dir, Mode: 0o777})
	}
	script := fstest.MapFS{"install.sh": {Data: []byte(x.spec.Agent.Install), Mode: 0o755}}
	return append(files, environment.Copy{Src: script, Dst: environment.ScriptsDir})
}

// environmentEnv are the variables of a new environment: those that the task gives it, but where it is to become a layer, for images
// must not have them.
func (x *execution) environmentEnv() map[string]string {
	if x.making != nil {
		return nil
	}
	return x.spec.Task.EnvironmentEnv()
}

// commandEnv is what each command gets instead, then.
func (x *execution) commandEnv() map[string]string {
	env := map[string]string{}
	if x.making != nil {
		maps.Copy(env, x.spec.Task.EnvironmentEnv())
	}
	return env
}

// keepLayer makes a layer of the environment, in which the agent has just been installed, and continues in a new environment on
// that layer, so that this trial runs like all others.
func (x *execution) keepLayer(ctx context.Context) error {
	l := x.making
	ref, err := x.snapshot(ctx, l.key)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if kind := environment.KindOf(err); kind == environment.KindLost || kind == environment.KindUnavailable {
		return err
	}
	if err := x.leaveEnvironment(ctx); err != nil {
		return err
	}
	image := ref
	if err != nil {
		why := brief(err, x.opts.Redactor)
		x.warn("no agent layer was made, so the agent is installed in every trial: %s", why)
		x.layers.settle(l, func() { l.reason = why })
		image = x.trial.Environment.Image
	} else {
		x.layers.settle(l, func() { l.ref, l.from = ref, x.layerDescription() })
		x.layer = l
		x.trial.Environment.AgentLayer = &result.AgentLayer{Image: ref}
	}
	x.making = nil
	if err := x.start(ctx, image); err != nil {
		if environment.KindOf(err) == environment.KindCopy { // which is not the agent's doing, although it is being set up
			return failf(result.EnvironmentStartFailed, "no environment could be made with the installed agent: %s", brief(err, x.opts.Redactor))
		}
		return err
	}
	if ref == "" {
		return x.runInstallScript(ctx)
	}
	return nil
}

// snapshot keeps the environment's files, without what the trials put there themselves.
func (x *execution) snapshot(ctx context.Context, key string) (string, error) {
	if err := x.copyInstallLogs(ctx); err != nil {
		return "", err
	}
	if err := x.copyTo(ctx,
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.LogsDir, Clean: true, Mode: 0o755},
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.ScriptsDir, Clean: true},
	); err != nil {
		return "", err
	}
	ctx, cancel := awake.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	opts := environment.SnapshotOptions{Key: key, Description: x.layerDescription()}
	if !x.opts.Redactor.Empty() {
		opts.Inspect = (&layerScan{secrets: x.opts.Redactor}).inspect
	}
	return environment.Snapshot(ctx, x.env, opts)
}

// copyInstallLogs keeps what the script has left in /logs: it is this trial's, and no other's.
func (x *execution) copyInstallLogs(ctx context.Context) error {
	dst := filepath.Join(x.dir, "setup", "logs")
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	ctx, cancel := awake.WithTimeout(ctx, copyTimeout)
	defer cancel()
	err := x.copyOut(ctx, environment.LogsDir, "setup/logs", nil, nil)
	for _, dir := range slices.Concat(x.rules.LogDirs, []string{environment.LogsDir}) { // if nothing was left there
		if below, relErr := filepath.Rel(environment.LogsDir, dir); relErr == nil && filepath.IsLocal(below) {
			_ = os.Remove(filepath.Join(dst, below))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// leaveEnvironment destroys the environment that has become a layer, or could not.
func (x *execution) leaveEnvironment(ctx context.Context) error {
	ended, env := x.stop(), x.env
	x.env = nil
	if ended {
		return ctx.Err()
	}
	c, cancel := x.cleanupContext(ctx, teardownTimeout, teardownGrace)
	defer cancel()
	err := env.Destroy(c)
	x.trial.Costs.Environment += env.Cost()
	if err != nil {
		x.warn("the environment in which the agent was installed could not be removed: %s (remove it with rollout clean)", brief(err, x.opts.Redactor))
	}
	return ctx.Err()
}

// layerFailed tells those who wait what became of the install script.
func (x *execution) layerFailed(ctx context.Context, err error) {
	if x.making == nil || ctx.Err() != nil {
		return // abandonLayer sees to it
	}
	f := *classify(event.AgentSetup, err, x.timeouts, x.opts.Redactor) // a copy: the trial's own goes on changing
	if f.Type == result.AgentInstallFailed || f.Type == result.AgentInstallTimeout {
		f.Message = hide(x.opts.Redactor, f.Message)
		x.layers.settle(x.making, func() { x.making.failed, x.making.installTimeout = &f, x.timeouts.Install })
	}
}

// abandonLayer lets others make the layer that this trial was to make, if it did not come to that.
func (x *execution) abandonLayer() {
	if l := x.making; l != nil {
		x.layers.settle(l, func() { l.abandoned = true })
	}
}
