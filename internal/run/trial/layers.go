package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/memfs"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/layer"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// snapshotTimeout limits the time for making a layer.
const snapshotTimeout = 10 * time.Minute

// findLayer returns the image to begin with: the agent's layer on the task's image ref, or else
// ref, on which the trial installs the agent. It waits for another trial that is making the layer.
// If this trial has to make it, x.making is set.
func (x *agentRun) findLayer(ctx context.Context, ref string) (string, error) {
	id := x.Trial.Environment.ImageID
	if id == "" {
		var err error
		id, err = environment.ImageID(ctx, x.opts.Provider, ref)
		if errors.Is(err, errors.ErrUnsupported) {
			x.warnNoLayer(err)
			return ref, nil
		}
		if err != nil {
			if errors.Is(err, environment.ErrNoImage) {
				x.images.Forget(x.spec.Task, ref)
			}
			return "", err
		}
	}
	key, err := x.layerInputs(x.opts.Provider.Name(), id).Key()
	if err != nil {
		return "", err
	}
	l, mine, err := x.layers.Claim(ctx, layer.Claim{Key: key, Trial: x.spec.Key, Timeout: x.timeouts.Install, Waiting: func(maker result.Key) {
		x.Progress(fmt.Sprintf("waiting for %s to install the agent", maker))
	}})
	x.Progress("")
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		x.warnNoLayer(err)
	case err != nil:
		return "", err
	case mine:
		x.making = l
	case l.Failure != nil:
		return "", failure.Newf(l.Failure.Type, "the trial waited for %s to install the agent, which failed: %s", l.Maker, l.Failure.Message)
	case l.Unavailable != "":
		x.warnNoLayer(errors.New(l.Unavailable))
	default:
		x.layer = l
		x.Trial.Environment.AgentLayer = &result.AgentLayer{Image: l.Ref, Cached: true, From: failure.Hide(x.Secrets, l.From)}
		return l.Ref, x.noteCachedInstall(l)
	}
	return ref, nil
}

// warnNoLayer warns that the agent's install script runs in this trial, although cache_install is
// on.
func (x *agentRun) warnNoLayer(why error) {
	x.Warn("the agent is installed in every trial: %v", why)
}

// noteCachedInstall writes a note in place of the install script's output.
func (x *agentRun) noteCachedInstall(l *layer.Layer) error {
	note, err := x.Capture(result.SetupDir + "/" + result.StdoutFile)
	if err != nil {
		return err
	}
	defer x.Release(note)
	_, err = fmt.Fprintf(note, "[rollout: the install script did not run here, because cache_install is on: the environment began with the agent layer %s (%s). "+
		"The script's output is in that trial's %s/ directory.]\n", l.Ref, l.From, result.SetupDir)
	return err
}

// layerDescription describes the layer that this trial makes, for messages.
func (p *plan) layerDescription(secrets *redact.Redactor) string {
	return failure.Hide(secrets, fmt.Sprintf("agent %s, installed by %s of job %s", p.spec.Agent.Name, p.spec.Key, p.job.Name))
}

// keepLayer makes a layer of the environment, in which the agent has just been installed, and
// continues in a new environment on that layer, so that this trial runs like all others.
func (x *agentRun) keepLayer(ctx context.Context) error {
	l := x.making
	ref, err := x.snapshot(ctx, l.Key())
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
		why := failure.Brief(err, x.Secrets)
		x.Warn("no agent layer was made, so the agent is installed in every trial: %s", why)
		l.GiveUp(why)
		image = x.Trial.Environment.Image
	} else {
		l.Keep(ref, x.layerDescription(x.Secrets))
		x.layer = l
		x.Trial.Environment.AgentLayer = &result.AgentLayer{Image: ref}
	}
	x.making = nil
	if err := x.start(ctx, image); err != nil {
		if environment.KindOf(err) == environment.KindCopy { // although this is the agent's setup, the agent did not cause it
			return failure.Newf(result.EnvironmentStartFailed, "no environment could be made with the installed agent: %s", failure.Brief(err, x.Secrets))
		}
		return err
	}
	if ref == "" {
		return x.runInstallScript(ctx)
	}
	return nil
}

// snapshot makes an image of the environment, without the files that trials put there, and returns
// its reference.
func (x *agentRun) snapshot(ctx context.Context, key string) (string, error) {
	if err := x.CopyInstallLogs(ctx, x.live.env, x.rules.LogDirs); err != nil {
		return "", err
	}
	if err := x.live.copyTo(ctx,
		environment.Copy{Src: memfs.Dir{}, Dst: environment.LogsDir, Clean: true, Mode: 0o755},
		environment.Copy{Src: memfs.Dir{}, Dst: environment.ScriptsDir, Clean: true},
	); err != nil {
		return "", err
	}
	ctx, cancel := awake.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	opts := environment.SnapshotOptions{Key: key, Description: x.layerDescription(x.Secrets)}
	if !x.Secrets.Empty() {
		opts.Inspect = layer.NewScan(x.Secrets).Inspect
	}
	return environment.Snapshot(ctx, x.live.env, opts)
}

// leaveEnvironment destroys the environment in which the agent was installed.
func (x *agentRun) leaveEnvironment(ctx context.Context) error {
	live := x.live
	ended := live.stop()
	x.live = nil
	if ended {
		return ctx.Err()
	}
	c, cancel := x.Cleanup(ctx, timing.TeardownTimeout, timing.TeardownGrace)
	defer cancel()
	err := live.env.Destroy(c)
	x.NoteEnvironmentCost(live.env)
	if err != nil {
		x.Warn("the environment in which the agent was installed could not be removed: %s (remove it with %s)", failure.Brief(err, x.Secrets), environment.CleanCommand(x.opts.Provider.Name()))
	}
	return ctx.Err()
}

// failLayer passes a failure of the install script on to the trials that wait for the layer.
func (x *agentRun) failLayer(ctx context.Context, err error) {
	if x.making == nil || ctx.Err() != nil {
		return // abandonLayer lets another trial make it
	}
	f := failure.Classify(event.AgentSetup, err, x.timeouts, x.Secrets)
	if f.Type == result.AgentInstallFailed || f.Type == result.AgentInstallTimeout {
		x.making.Fail(layer.Failure{Type: f.Type, Message: failure.Hide(x.Secrets, f.Message)}, x.timeouts.Install)
	}
}

// abandonLayer lets another trial make the layer, if this trial did not make it.
func (x *agentRun) abandonLayer() {
	if l := x.making; l != nil {
		l.Abandon()
	}
}
