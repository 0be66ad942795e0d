package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/flight"
)

// Name is the value of environment.type that selects this provider.
const Name = "docker"

// Provider runs environments on a Docker engine. See environment.Provider for the contract of its
// methods.
type Provider struct {
	api    *client.Client
	info   system.Info
	config config

	flights flight.Group // builds and pulls under way
	killers *killers
	heard
	noProfile atomic.Bool // the engine, Podman, cannot read the file with our seccomp profile

	reachTime time.Duration

	noStorage atomic.Bool // the engine refused a storage limit

	mu       sync.Mutex
	buildkit *bool               // nil: not known yet
	settings map[string]settings // of images, by reference
}

var (
	_ environment.Provider    = (*Provider)(nil)
	_ environment.GPUProvider = (*Provider)(nil)
)

// New connects to the engine that DOCKER_HOST, DOCKER_CONTEXT or the Docker configuration names, as
// the docker command does. cfg is environment.provider_config, as accepted by Check.
// An engine that cannot be used is a KindUnavailable with a hint.
func New(ctx context.Context, cfg map[string]any) (*Provider, error) {
	conf, err := parseConfig(cfg)
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	p := &Provider{config: conf, killers: newKillers(), reachTime: reachTime}
	p.api, err = connect(os.Getenv, &p.heard)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if p.info, err = p.api.Info(limited); err != nil {
		p.api.Close()
		return nil, unreachable(ctx, p.api.DaemonHost(), err)
	}
	return p, nil
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Describe implements environment.Describer.
func (p *Provider) Describe() string {
	return fmt.Sprintf("%s %s at %s", p.product(), p.info.ServerVersion, p.api.DaemonHost())
}

// Close implements environment.Provider.
func (p *Provider) Close() error {
	p.killers.close()
	return p.api.Close()
}
