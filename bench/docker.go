package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/docker"
)

// docker measures hello trials on a Docker engine.
func (b *bench) docker(ctx context.Context) error {
	ours, err := b.onDocker(ctx, filepath.Join(b.dir, "docker"))
	if err != nil {
		return err
	}
	defer ours.provider.Close()
	floor, err := newBare(b.image)
	if err != nil {
		return err
	}
	defer floor.api.Close()
	if _, err := floor.api.ImageInspect(ctx, b.image); err != nil {
		return fmt.Errorf("%w: %w: pull it first, or choose another --image", errUnmeasurable, err)
	}
	parallel := timed(func(ctx context.Context) error {
		return each(ctx, workers, dockerTrials, func(ctx context.Context, _ int) error { return floor.trial(ctx) })
	})
	return b.measure(ctx,
		measuring{"docker.sequential", ours.trials(1, 1), timed(floor.trial)},
		measuring{"docker.run", ours.trials(1, 1), process("docker", "run", "--rm", b.image, "true")},
		measuring{"docker.fresh", ours.withFreshTests().trials(1, 1), ours.trials(1, 1)},
		measuring{"docker.services", timed(withServices(ours.provider, b.image)), timed(floor.services)},
		measuring{"docker.parallel", perSecond(dockerTrials, ours.trials(dockerTrials, workers)), perSecond(dockerTrials, parallel)})
}

// onDocker returns the hello job on a Docker engine.
func (b *bench) onDocker(ctx context.Context, dir string) (*stage, error) {
	provider, err := docker.New(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	return newStage(ctx, dir, b.image, 1, provider)
}

// bare makes only the engine calls of a hello trial: its archives are packed in advance, and the
// output is discarded.
type bare struct {
	api           *client.Client
	image         string
	before, tests []byte // archives
	labels        map[string]string
}

func newBare(image string) (b *bare, err error) {
	b = &bare{image: image, labels: environment.Labels{Job: "bench", Trial: "bare", Owner: environment.Self()}.Map()}
	var before, tests bytes.Buffer
	if err := errors.Join(environment.Pack(&before, beforeStart...), environment.Pack(&tests, beforeTest...)); err != nil {
		return nil, err
	}
	b.before, b.tests = before.Bytes(), tests.Bytes()
	// Keep idle connections open, as many as there may be workers.
	transport := &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64}
	b.api, err = client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithHost(client.DefaultDockerHost), client.FromEnv, client.WithAPIVersionNegotiation())
	return b, err
}

// trial runs one hello trial. The container has the default limits of tasks.
func (b *bare) trial(ctx context.Context) (err error) {
	created, err := b.api.ContainerCreate(ctx,
		&container.Config{Image: b.image, Cmd: []string{"sleep", "infinity"}, Labels: b.labels},
		&container.HostConfig{Resources: container.Resources{NanoCPUs: 1e9, Memory: 2 << 30, MemorySwap: 2 << 30, PidsLimit: new(int64(4096))}},
		nil, nil, "")
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, b.api.ContainerRemove(ctx, created.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}()
	env := []string{"ROLLOUT_TASK_INSTRUCTION=" + instructionPath}
	for _, step := range []func() error{
		func() error { return b.copyTo(ctx, created.ID, b.before, false) },
		func() error { return b.api.ContainerStart(ctx, created.ID, container.StartOptions{}) },
		func() error { return b.exec(ctx, created.ID, "/rollout/install.sh", env) },
		func() error { return b.exec(ctx, created.ID, "/rollout/execute.sh", env) },
		func() error { return b.copyTo(ctx, created.ID, b.tests, true) },
		func() error { return b.exec(ctx, created.ID, "/tests/test.sh", nil) },
		func() error { return b.logs(ctx, created.ID) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) copyTo(ctx context.Context, id string, archive []byte, overwrite bool) error {
	return b.api.CopyToContainer(ctx, id, "/", bytes.NewReader(archive), container.CopyToContainerOptions{AllowOverwriteDirWithFile: overwrite})
}

func (b *bare) exec(ctx context.Context, id, script string, env []string) error {
	options := container.ExecOptions{Cmd: []string{"bash", script}, Env: env, AttachStdout: true, AttachStderr: true}
	created, err := b.api.ContainerExecCreate(ctx, id, options)
	if err != nil {
		return err
	}
	conn, err := b.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	_, copyErr := stdcopy.StdCopy(io.Discard, io.Discard, conn.Reader)
	conn.Close()
	state, err := b.api.ContainerExecInspect(ctx, created.ID)
	if err = errors.Join(copyErr, err); err == nil && (state.Running || state.ExitCode != 0) {
		err = fmt.Errorf("%s did not end with 0: %+v", script, state)
	}
	return err
}

// logs reads all of /logs and checks that it contains the reward.
func (b *bare) logs(ctx context.Context, id string) error {
	stream, _, err := b.api.CopyFromContainer(ctx, id, "/logs")
	if err != nil {
		return err
	}
	defer stream.Close()
	archive, err := io.ReadAll(stream)
	if err == nil && !bytes.Contains(archive, []byte("logs/verifier/reward.txt")) {
		err = errors.New("the bare trial left no reward")
	}
	return err
}
