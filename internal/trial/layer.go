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

// caches reports whether the agent's install script is to run once for many trials.
func (a *attempt) caches() bool { return a.spec.Agent.CacheInstall && a.spec.Agent.Install != "" }

// findLayer is the image to begin with, given the task's: the agent's layer on it if there is one by now. If this trial is to make
// it, or has to do without, that is the task's image, on which the trial installs.
func (a *attempt) findLayer(ctx context.Context, ref string) (string, error) {
	id := a.trial.Environment.ImageID
	if id == "" {
		var err error
		id, err = environment.ImageID(ctx, a.opts.Provider, ref)
		if errors.Is(err, errors.ErrUnsupported) {
			a.installEverywhere(err)
			return ref, nil
		}
		if err != nil {
			if errors.Is(err, environment.ErrNoImage) {
				a.images.forget(a.spec.Task, ref)
			}
			return "", err
		}
	}
	key, err := a.layerKey(id)
	if err != nil {
		return "", err
	}
	l, mine, err := a.layers.claim(ctx, key, a.spec.Key, a.timeouts.Install, func(maker result.Key) {
		a.emit(event.Event{Kind: event.Progress, Message: fmt.Sprintf("waiting for %s, which installs the agent", maker)})
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		a.installEverywhere(err)
	case err != nil:
		return "", err
	case mine:
		a.making = l
	case l.failed != nil:
		return "", failf(l.failed.Type, "the trial waited for %s to install the agent, which failed: %s", l.maker, l.failed.Message)
	case l.plain != "":
		a.installEverywhere(errors.New(l.plain))
	default:
		a.layer = l
		a.trial.Environment.AgentLayer = &result.AgentLayer{Image: l.ref, Cached: true, From: hide(a.opts.Redactor, l.from)}
		return l.ref, a.sayCached(l)
	}
	return ref, nil
}

// installEverywhere warns that the agent's install script runs in this trial although cache_install is on.
func (a *attempt) installEverywhere(why error) {
	a.warn("the agent is installed in every trial: %v", why)
}

// sayCached leaves a word where people look for what the script has printed.
func (a *attempt) sayCached(l *layer) error {
	said, err := a.capture("setup/stdout.txt")
	if err != nil {
		return err
	}
	defer a.release(said)
	_, err = fmt.Fprintf(said, "[rollout: the install script did not run here, for cache_install is on: the environment began with %s (%s). "+
		"What the script printed is in that trial's setup/ folder.]\n", l.ref, l.from)
	return err
}

// about says for people which layer this trial makes.
func (a *attempt) about() string {
	return hide(a.opts.Redactor, fmt.Sprintf("agent %s, installed by %s of job %s", a.spec.Agent.Name, a.spec.Key, a.opts.Job.Name))
}

// installFiles are in place before a layer is made: what the script may look for, and nothing of the task's, for tasks share it.
func (a *attempt) installFiles() []environment.Copy {
	var files []environment.Copy
	for _, dir := range a.rules.LogDirs {
		files = append(files, environment.Copy{Src: fstest.MapFS{}, Dst: dir, Mode: 0o777})
	}
	script := fstest.MapFS{"install.sh": {Data: []byte(a.spec.Agent.Install), Mode: 0o755}}
	return append(files, environment.Copy{Src: script, Dst: environment.ScriptsDir})
}

// environmentEnv are the variables of a new environment: those that the task gives it, but where it is to become a layer, for images
// must not have them.
func (a *attempt) environmentEnv() map[string]string {
	if a.making != nil {
		return nil
	}
	return a.spec.Task.EnvironmentEnv()
}

// makersEnv is what each command gets instead, then.
func (a *attempt) makersEnv() map[string]string {
	env := map[string]string{}
	if a.making != nil {
		maps.Copy(env, a.spec.Task.EnvironmentEnv())
	}
	return env
}

// keepLayer makes a layer of the environment, in which the agent has just been installed, and goes on in a new one that stands on
// it: as all other trials do, so that none is different.
func (a *attempt) keepLayer(ctx context.Context) error {
	l := a.making
	ref, err := a.snapshot(ctx, l.key)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if kind := environment.KindOf(err); kind == environment.KindLost || kind == environment.KindUnavailable {
		return err
	}
	if err := a.leave(ctx); err != nil {
		return err
	}
	image := ref
	if err != nil {
		why := brief(err, a.opts.Redactor)
		a.warn("what the install script has left is not kept, so the agent is installed in every trial: %s", why)
		a.layers.settle(l, func() { l.plain = why })
		image = a.trial.Environment.Image
	} else {
		a.layers.settle(l, func() { l.ref, l.from = ref, a.about() })
		a.layer = l
		a.trial.Environment.AgentLayer = &result.AgentLayer{Image: ref}
	}
	a.making = nil
	if err := a.start(ctx, image); err != nil {
		if environment.KindOf(err) == environment.KindCopy { // which is not the agent's doing, although it is being set up
			return failf(result.EnvironmentStartFailed, "no environment could be made with the installed agent: %s", brief(err, a.opts.Redactor))
		}
		return err
	}
	if ref == "" {
		return a.runInstall(ctx)
	}
	return nil
}

// snapshot keeps the environment's files, without what the trials put there themselves.
func (a *attempt) snapshot(ctx context.Context, key string) (string, error) {
	if err := a.copyInstallLogs(ctx); err != nil {
		return "", err
	}
	if err := a.copyTo(ctx,
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.LogsDir, Clean: true, Mode: 0o755},
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.ScriptsDir, Clean: true},
	); err != nil {
		return "", err
	}
	ctx, cancel := awake.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	opts := environment.SnapshotOptions{Key: key, Description: a.about()}
	if !a.opts.Redactor.Empty() {
		opts.Inspect = (&layerScan{secrets: a.opts.Redactor}).look
	}
	return environment.Snapshot(ctx, a.env, opts)
}

// copyInstallLogs keeps what the script has left in /logs: it is this trial's, and no other's.
func (a *attempt) copyInstallLogs(ctx context.Context) error {
	dst := filepath.Join(a.dir, "setup", "logs")
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	ctx, cancel := awake.WithTimeout(ctx, copyTimeout)
	defer cancel()
	err := a.copyOut(ctx, environment.LogsDir, "setup/logs", nil, nil)
	for _, dir := range slices.Concat(a.rules.LogDirs, []string{environment.LogsDir}) { // if nothing was left there
		if below, relErr := filepath.Rel(environment.LogsDir, dir); relErr == nil && filepath.IsLocal(below) {
			_ = os.Remove(filepath.Join(dst, below))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// leave destroys the environment that has become a layer, or could not.
func (a *attempt) leave(ctx context.Context) error {
	ended, env := a.calm(), a.env
	a.env = nil
	if ended {
		return ctx.Err()
	}
	c, cancel := a.cleanup(ctx, teardownTimeout, teardownGrace)
	defer cancel()
	err := env.Destroy(c)
	a.trial.Costs.Environment += env.Cost()
	if err != nil {
		a.warn("the environment in which the agent was installed could not be removed: %s (remove it with rollout clean)", brief(err, a.opts.Redactor))
	}
	return ctx.Err()
}

// layerFailed tells those who wait what became of the install script.
func (a *attempt) layerFailed(ctx context.Context, err error) {
	if a.making == nil || ctx.Err() != nil {
		return // abandonLayer sees to it
	}
	f := *classify(event.AgentSetup, err, a.timeouts, a.opts.Redactor) // a copy: the trial's own goes on changing
	if f.Type == result.AgentInstallFailed || f.Type == result.AgentInstallTimeout {
		f.Message = hide(a.opts.Redactor, f.Message)
		a.layers.settle(a.making, func() { a.making.failed, a.making.limit = &f, a.timeouts.Install })
	}
}

// abandonLayer lets others make the layer that this trial was to make, if it did not come to that.
func (a *attempt) abandonLayer() {
	if l := a.making; l != nil {
		a.layers.settle(l, func() { l.givenUp = true })
	}
}
