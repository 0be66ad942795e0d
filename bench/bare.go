package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/org/rollout-action/internal/environment"
)

// bare makes the engine calls of a hello trial and nothing else: its archives are packed in advance, and the output is discarded.
type bare struct {
	api           *client.Client
	image         string
	before, tests []byte // archives
	labels        map[string]string
}

func newBare(image string) (*bare, error) {
	b := &bare{
		image:  image,
		labels: environment.Labels{Job: "bench", Trial: "bare", Owner: environment.Self()}.Map(),
	}
	var err error
	if b.before, err = packed(beforeStart); err != nil {
		return nil, err
	}
	if b.tests, err = packed(beforeTest); err != nil {
		return nil, err
	}
	// Keep idle connections open, as many as there may be workers.
	transport := &http.Transport{MaxIdleConns: 64, MaxIdleConnsPerHost: 64}
	b.api, err = client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport}),
		client.WithHost(client.DefaultDockerHost),
		client.FromEnv,
		client.WithAPIVersionNegotiation(),
	)
	return b, err
}

func packed(files []environment.Copy) ([]byte, error) {
	var archive bytes.Buffer
	err := environment.Pack(&archive, files...)
	return archive.Bytes(), err
}

// trial runs one hello trial. The container has the default limits of tasks.
func (b *bare) trial(ctx context.Context) (err error) {
	pids := int64(4096)
	created, err := b.api.ContainerCreate(ctx,
		&container.Config{
			Image:  b.image,
			Cmd:    []string{"sleep", "infinity"},
			Labels: b.labels,
		},
		&container.HostConfig{Resources: container.Resources{
			NanoCPUs: 1e9, Memory: 2 << 30, MemorySwap: 2 << 30, PidsLimit: &pids,
		}}, nil, nil, "")
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, b.api.ContainerRemove(ctx, created.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}()
	return b.inside(ctx, created.ID)
}

func (b *bare) inside(ctx context.Context, id string) error {
	options := container.CopyToContainerOptions{}
	if err := b.api.CopyToContainer(ctx, id, "/", bytes.NewReader(b.before), options); err != nil {
		return err
	}
	if err := b.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return err
	}
	env := []string{"ROLLOUT_TASK_INSTRUCTION=" + instructionPath}
	if err := b.exec(ctx, id, "/rollout/install.sh", env); err != nil {
		return err
	}
	if err := b.exec(ctx, id, "/rollout/execute.sh", env); err != nil {
		return err
	}
	options.AllowOverwriteDirWithFile = true
	if err := b.api.CopyToContainer(ctx, id, "/", bytes.NewReader(b.tests), options); err != nil {
		return err
	}
	if err := b.exec(ctx, id, "/tests/test.sh", nil); err != nil {
		return err
	}
	return b.logs(ctx, id)
}

func (b *bare) exec(ctx context.Context, id, script string, env []string) error {
	created, err := b.api.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: []string{"bash", script}, Env: env, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return err
	}
	conn, err := b.api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	_, err = stdcopy.StdCopy(io.Discard, io.Discard, conn.Reader)
	conn.Close()
	if err != nil {
		return err
	}
	state, err := b.api.ContainerExecInspect(ctx, created.ID)
	if err == nil && (state.Running || state.ExitCode != 0) {
		return fmt.Errorf("%s did not end with 0: %+v", script, state)
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
	archive := tar.NewReader(stream)
	rewarded := false
	for {
		header, err := archive.Next()
		switch {
		case err == io.EOF && rewarded:
			return nil
		case err == io.EOF:
			return errors.New("the bare trial left no reward")
		case err != nil:
			return err
		}
		rewarded = rewarded || header.Name == "logs/verifier/reward.txt"
	}
}
