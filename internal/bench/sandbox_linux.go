package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/sandbox"
)

const (
	sandboxWorkers = 8
	// sandboxTrials is how many trials run before the other side has its turn.
	sandboxTrials = 48
)

// The targets of a trial in a sandbox, in milliseconds.
const (
	rootTrial = 60.0
	userTrial = 120.0
)

// sandbox measures hello trials and their parts in sandboxes of this machine.
func (b *bench) sandbox(ctx context.Context) error {
	dir := filepath.Join(b.dir, "sandbox")
	provider, err := newSandboxes(ctx, dir, nil, sandbox.Options{})
	if err != nil {
		return err
	}
	defer provider.Close()
	ours, floor, err := sandboxSides(ctx, dir, b.image, provider)
	if err != nil {
		return err
	}
	b.logf("sandbox: trials on %s", ours.base)
	steps := []func(context.Context, *onSandbox, *unboxed) error{
		b.sandboxTrial, b.sandboxNetwork, b.sandboxDocker, b.sandboxParallel, b.sandboxExec, b.sandboxCreate,
	}
	for _, step := range steps {
		if err := step(ctx, ours, floor); err != nil {
			return err
		}
	}
	return nil
}

// newSandboxes returns a provider with a store in dir, so nothing remains of it.
func newSandboxes(ctx context.Context, dir string, config map[string]any, opts sandbox.Options) (environment.Provider, error) {
	config = maps.Clone(config)
	if config == nil {
		config = map[string]any{}
	}
	config["dir"] = filepath.Join(dir, "store")
	opts.Hide = []string{dir}
	provider, err := sandbox.New(ctx, config, opts)
	if environment.KindOf(err) == environment.KindUnavailable {
		return nil, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	return provider, err
}

// onSandbox is the hello job in sandboxes, with their base.
type onSandbox struct {
	*stage
	provider environment.Provider
	image    string
	base     string // for users
}

// sandboxSides returns the hello job and its floor. The one-time costs of an image or of this machine's root are paid here.
func sandboxSides(ctx context.Context, dir, image string, provider environment.Provider) (*onSandbox, *unboxed, error) {
	job, err := newStage(ctx, dir, image, 1, provider)
	if err != nil {
		return nil, nil, err
	}
	ours := &onSandbox{stage: job, provider: provider, image: image}
	if ours.base, err = ours.findBase(ctx); err != nil {
		return nil, nil, err
	}
	_, left, err := ours.run(ctx, 1, 1)
	if err != nil {
		return nil, nil, err
	}
	floor, err := newUnboxed(filepath.Join(dir, "floor"), left)
	return ours, floor, err
}

// findBase returns the base of the sandboxes.
func (o *onSandbox) findBase(ctx context.Context) (string, error) {
	if err := o.provider.PullImage(ctx, o.image, nil); err != nil {
		return "", err
	}
	env, err := o.create(ctx)
	if err != nil {
		return "", err
	}
	on := o.image
	if base := environment.BaseOf(env); base != nil {
		on = base.Actual
	}
	return on, env.Destroy(ctx)
}

// create creates a sandbox with the default limits of tasks.
func (o *onSandbox) create(ctx context.Context) (environment.Environment, error) {
	return o.provider.CreateEnvironment(ctx, environment.CreateOptions{
		Image:  o.image,
		Limits: environment.Limits{MilliCPUs: 1000, Memory: 2 << 30},
		Labels: environment.Labels{Job: "bench", Trial: "bench", Owner: environment.Self()},
	})
}

// trial measures a job of one trial.
func (o *onSandbox) trial(ctx context.Context) (float64, error) {
	took, err := o.once(ctx, 1, 1)
	return milliseconds(took), err
}

// sandboxTrial measures single trials: as root and, in a separate process, as an ordinary user if this process may start one;
// otherwise as the current user.
func (b *bench) sandboxTrial(ctx context.Context, ours *onSandbox, floor *unboxed) error {
	if os.Geteuid() != 0 {
		b.missing("sandbox.trial", "only root can run it")
		values, err := trialTurns(ctx, b.rounds, ours, floor)
		if err == nil {
			b.addTrials("sandbox.user", userTrial, sandboxValues{Base: ours.base, Ours: values[0], Floor: values[1]})
		}
		return err
	}
	b.logf("sandbox: %d single trials and scripts without a sandbox in turn, as root, then as another user", b.rounds)
	values, err := trialTurns(ctx, b.rounds, ours, floor)
	if err != nil {
		return err
	}
	b.addTrials("sandbox.trial", rootTrial, sandboxValues{Base: ours.base, Ours: values[0], Floor: values[1]})
	theirs, err := asOrdinaryUser(ctx, b.dir, b.image, b.rounds)
	if errors.Is(err, errUnmeasurable) {
		b.missing("sandbox.user", err.Error())
		return nil
	}
	if err == nil {
		b.addTrials("sandbox.user", userTrial, theirs)
	}
	return err
}

func trialTurns(ctx context.Context, rounds int, ours *onSandbox, floor *unboxed) ([][]float64, error) {
	return turns(ctx, 2, rounds, ours.trial, timed(floor.trial))
}

func (b *bench) addTrials(name string, most float64, v sandboxValues) {
	b.add(newResult(name, "ms",
		series{"a job of one hello trial on " + v.Base + ", everything written", v.Ours},
		series{"the same scripts run and the same files written without a sandbox", v.Floor},
		atMost("ours", most)))
}

func (b *bench) missing(name, reason string) {
	b.report.Missing = append(b.report.Missing, name+": "+reason)
}

// sandboxDocker compares trials in sandboxes with the same trials on a Docker engine.
func (b *bench) sandboxDocker(ctx context.Context, ours *onSandbox, _ *unboxed) error {
	engine, err := docker.New(ctx, nil)
	if err != nil {
		b.missing("sandbox.docker", err.Error())
		return nil
	}
	defer engine.Close()
	theirs, err := newStage(ctx, filepath.Join(b.dir, "sandbox", "docker"), b.image, 1, engine)
	if err != nil {
		return err
	}
	b.logf("sandbox: %d single trials in turn with the same on Docker", b.rounds)
	values, err := turns(ctx, 2, b.rounds, ours.trial, func(ctx context.Context) (float64, error) {
		took, err := theirs.once(ctx, 1, 1)
		return milliseconds(took), err
	})
	if err != nil {
		return err
	}
	b.add(newResult("sandbox.docker", "ms",
		series{"a job of one hello trial on " + ours.base + ", everything written", values[0]},
		series{"the same job on a Docker engine", values[1]},
		atMost("ratio", 1.0/8)))
	return nil
}

func (b *bench) sandboxParallel(ctx context.Context, ours *onSandbox, floor *unboxed) error {
	blocks := b.fewer(4, 3)
	b.logf("sandbox: %d blocks of %d trials by %d workers in turn with scripts without a sandbox", blocks, sandboxTrials, sandboxWorkers)
	values, err := turns(ctx, 1, blocks,
		func(ctx context.Context) (float64, error) {
			took, err := ours.once(ctx, sandboxTrials, sandboxWorkers)
			return sandboxTrials / took.Seconds(), err
		},
		func(ctx context.Context) (float64, error) {
			ms, err := timed(func(ctx context.Context) error {
				return each(ctx, sandboxTrials, func(ctx context.Context, _ int) error { return floor.trial(ctx) })
			})(ctx)
			return sandboxTrials / (ms / 1000), err
		})
	if err != nil {
		return err
	}
	b.add(newResult("sandbox.parallel", "trials/s",
		series{fmt.Sprintf("a job of %d hello trials by %d workers", sandboxTrials, sandboxWorkers), values[0]},
		series{fmt.Sprintf("as many without a sandbox by %d goroutines", sandboxWorkers), values[1]},
		atLeast("ours", 25)))
	return nil
}
