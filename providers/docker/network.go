package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
)

// The engine's own networks.
const (
	networkNone   = "none"
	networkBridge = "bridge"
)

// networkMode returns the network with which a container is created.
func (c config) networkMode(n environment.Network) container.NetworkMode {
	if !n.Public() {
		return networkNone
	}
	return container.NetworkMode(c.network)
}

// policy returns the policy that the tunnel enforces. It refuses a Network that contradicts the
// configuration.
func (c config) policy(n environment.Network) (egress.Policy, error) {
	refused := func(hint, format string, args ...any) (egress.Policy, error) {
		return egress.Policy{}, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf(format, args...), Hint: hint}
	}
	shared := c.network == "host" || strings.HasPrefix(c.network, "container:")
	switch {
	case n.Public():
		return egress.Policy{}, nil
	case shared:
		return refused("remove network from provider_config, or set environment.network: public",
			"the network is to be %s, but environment.provider_config.network is %s, which cannot be restricted", n.Mode, c.network)
	case c.network == networkNone && n.Mode == environment.NetworkAllowlist:
		return refused("remove network from provider_config", "environment.provider_config.network is none, so no host can be allowed")
	case n.Mode == environment.NetworkNone:
		return egress.Policy{}, nil
	}
	policy, err := egress.Parse(n.Hosts)
	if err != nil {
		return refused("", "allowed_hosts: %w", err)
	}
	return policy, nil
}

// SetNetwork implements environment.NetworkSetter. Removing a device from a container ends all
// connections through it, whichever process holds them.
func (e *containerEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	policy, err := e.p.config.policy(n)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return failedInside(environment.KindStart, "set the container's network", err)
	}
	tunnel := n.Mode == environment.NetworkAllowlist
	if e.group != nil {
		err = e.group.check(n)
	} else {
		err = e.connect(ctx, n.Public())
	}
	if err == nil && tunnel {
		err = e.tunnel.open(ctx, e)
	}
	if err != nil {
		return err
	}
	e.tunnel.set(policy, tunnel, n.Refused)
	return nil
}

// connect puts the container into the configured network, or into none.
func (e *containerEnv) connect(ctx context.Context, public bool) error {
	if public == e.connected || public && e.p.config.network == networkNone {
		return nil
	}
	if err := e.disconnect(ctx, public); err != nil {
		return podmanNetworks(e.p, err)
	}
	if public {
		name := e.p.config.network
		if name == "" || name == "default" {
			name = networkBridge
		}
		if err := e.p.api.NetworkConnect(ctx, name, e.id, nil); err != nil {
			return podmanNetworks(e.p, failedInside(environment.KindStart, "connect the container to the network "+name, err))
		}
	}
	e.connected = public
	return nil
}

// disconnect takes the container out of all networks. A container in "none" can be in no other, so
// that it has to leave that one before it joins another.
func (e *containerEnv) disconnect(ctx context.Context, leaveNone bool) error {
	if own := e.p.config.network; !leaveNone && own != "" && own != "default" && own != networkBridge {
		// The engine's own name server stays behind in the container, and goes on asking others.
		return &environment.Error{
			Kind: environment.KindStart,
			Err:  fmt.Errorf("the container cannot be disconnected from the network %s: the engine would still resolve names for it", own),
			Hint: "remove network from provider_config, or network_during_install",
		}
	}
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	if err != nil {
		return failedInside(environment.KindStart, "see which networks the container is in", err)
	}
	if state.NetworkSettings == nil {
		return &environment.Error{Kind: environment.KindStart, Err: errors.New("the engine does not say which networks the container is in")}
	}
	for _, name := range slices.Sorted(maps.Keys(state.NetworkSettings.Networks)) {
		if name == networkNone && !leaveNone {
			continue
		}
		err := e.p.api.NetworkDisconnect(ctx, name, e.id, false)
		if err != nil && !cerrdefs.IsNotFound(err) {
			return failedInside(environment.KindStart, "disconnect the container from the network "+name, err)
		}
	}
	return nil
}
