package main

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/org/rollout-action/internal/core/environment"
)

// idleService only keeps its container running.
var idleService = []string{"sleep", "infinity"}

// withServices creates an environment of three services, and destroys it.
func withServices(p environment.Provider, image string) func(context.Context) error {
	in := map[string]environment.Endpoint{"default": {}}
	service := func(name string) environment.Service {
		return environment.Service{Name: name, Image: image, Entrypoint: idleService, Networks: in}
	}
	services := environment.Services{
		Main: environment.Service{Name: environment.MainService, Networks: in}, Others: []environment.Service{service("api"), service("db")},
		Networks: []environment.ServiceNetwork{{Name: "default"}},
	}
	opts := environment.CreateOptions{Image: image, Labels: environment.Labels{Job: "bench", Trial: "services", Owner: environment.Self()}, Limits: environment.Limits{MilliCPUs: 1000, Memory: 2 << 30, Pids: 4096}}
	return func(ctx context.Context) error {
		env, err := environment.CreateWithServices(ctx, p, opts, services)
		if err != nil {
			return err
		}
		return env.Destroy(ctx)
	}
}

// services makes only the engine calls of an environment of three services: a network, and three
// containers in it, which are created, started, looked at and removed at the same time.
func (b *bare) services(ctx context.Context) (err error) {
	name := "rollout-bench-" + strings.ToLower(rand.Text()[:8])
	if _, err := b.api.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Labels: b.labels}); err != nil {
		return err
	}
	made := make([]string, 3)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, together(slices.DeleteFunc(made, func(id string) bool { return id == "" }), func(_ int, id string) error {
			return b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		}), b.api.NetworkRemove(ctx, name))
	}()
	return together([]string{"api", "db", "main"}, func(i int, service string) error {
		created, err := b.api.ContainerCreate(ctx,
			&container.Config{Image: b.image, Cmd: idleService, Labels: b.labels},
			&container.HostConfig{NetworkMode: container.NetworkMode(name), Resources: container.Resources{NanoCPUs: 1e9, Memory: 2 << 30, MemorySwap: 2 << 30, PidsLimit: new(int64(4096))}},
			&network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{name: {Aliases: []string{service}}}}, nil, "")
		if err != nil {
			return err
		}
		made[i] = created.ID
		if err := b.api.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
			return err
		}
		_, err = b.api.ContainerInspect(ctx, created.ID)
		return err
	})
}

// together calls do with each of a list at the same time.
func together(list []string, do func(i int, of string) error) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, of := range list {
		all.Go(func() { errs[i] = do(i, of) })
	}
	all.Wait()
	return errors.Join(errs...)
}
