package modal

import (
	"context"
	"sync"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// sandboxEnv is a sandbox as an environment. The guest in it serves commands, copies and
// connections.
type sandboxEnv struct {
	*hosted.Environment
	p         *Provider
	sandbox   *sdk.Sandbox
	labels    environment.Labels
	installer hosted.Installer

	mu      sync.Mutex
	network environment.Network
}

var (
	_ environment.Environment   = (*sandboxEnv)(nil)
	_ environment.NetworkSetter = (*sandboxEnv)(nil)
)

// ID implements environment.Environment.
func (e *sandboxEnv) ID() string { return e.sandbox.SandboxID }

// explain returns why the sandbox does not answer, or nil if it runs as far as is known. It
// implements podinit.Options.Explain.
func (e *sandboxEnv) explain(ctx context.Context) error {
	if err := e.CheckEnded(); err != nil {
		return err
	}
	code, err := e.sandbox.Poll(ctx, nil)
	switch {
	case isGone(err):
		return hosted.Lost("sandbox %s is gone", e.ID())
	case err != nil || code == nil:
		return nil //nolint:nilerr // it is not known
	case *code == timedOut:
		return hosted.Lost("sandbox %s has reached the end of its lifetime", e.ID())
	case *code == terminated:
		return hosted.Lost("sandbox %s was terminated", e.ID())
	}
	return hosted.Lost("sandbox %s has ended with code %d", e.ID(), *code)
}

// What the client makes of the states of a sandbox that has ended.
const (
	timedOut   = 124
	terminated = 137
)

// Stop implements environment.Environment: all processes but the guest end, and the sandbox is
// tagged as kept. It stays, and costs, until its lifetime ends.
func (e *sandboxEnv) Stop(ctx context.Context) error {
	doing := "stop sandbox " + e.ID()
	if err := e.Halt(ctx, e.explain); err != nil {
		return failed(ctx, environment.KindTeardown, doing, err)
	}
	tags := hosted.TagsOf(e.labels)
	tags[hosted.TagKept] = "1"
	err := e.sandbox.SetTags(ctx, tags, nil)
	if isGone(err) {
		return nil
	}
	return failed(ctx, environment.KindTeardown, doing, err)
}

// Destroy implements environment.Environment.
func (e *sandboxEnv) Destroy(ctx context.Context) error {
	e.End()
	err := terminate(ctx, e.sandbox)
	if err == nil {
		e.Gone()
	}
	e.Close()
	return failed(ctx, environment.KindTeardown, "end sandbox "+e.ID(), err)
}

// SetNetwork implements environment.NetworkSetter: Modal replaces the list of what the sandbox may
// reach, and ends connections that the new one does not have.
func (e *sandboxEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if err := hosted.CheckNetwork(n); err != nil {
		return err
	}
	if err := e.CheckEnded(); err != nil {
		return err
	}
	e.mu.Lock()
	before := e.network
	e.mu.Unlock()
	if before.Public() != n.Public() {
		allowed := allowed(n)
		err := e.sandbox.UpdateNetworkPolicy(ctx, &sdk.SandboxUpdateNetworkPolicyParams{OutboundCIDRAllowlist: allowed.cidrs, OutboundDomainAllowlist: allowed.domains})
		if isGone(err) {
			return hosted.Lost("sandbox %s is gone", e.ID())
		}
		if err != nil {
			return failed(ctx, environment.KindStart, "set the network of sandbox "+e.ID(), err)
		}
	}
	if err := e.SetProxy(ctx, n); err != nil {
		return e.LostNow(ctx, err)
	}
	e.mu.Lock()
	e.network = n
	e.mu.Unlock()
	return nil
}

type allowlists struct{ cidrs, domains *sdk.Allowlist }

// allowed returns what a sandbox may reach: all, or nothing. The proxy of an allowlist is on the
// loopback device, and its connections begin in this process.
func allowed(n environment.Network) allowlists {
	if n.Public() {
		return allowlists{&sdk.Allowlist{Entries: []string{"0.0.0.0/0", "::/0"}}, &sdk.Allowlist{Entries: []string{"*"}}}
	}
	return allowlists{&sdk.Allowlist{Entries: []string{}}, &sdk.Allowlist{Entries: []string{}}}
}
