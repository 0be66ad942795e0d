package modal

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// sandboxEnv is a sandbox as an environment. The guest in it serves commands, copies and
// connections.
type sandboxEnv struct {
	*podinit.Environment
	p         *Provider
	sandbox   *sdk.Sandbox
	labels    environment.Labels
	limits    environment.Limits
	since     time.Time
	installed atomic.Bool // the guest runs
	noGzip    atomic.Bool
	stopping  atomic.Bool // Stop ends its processes
	ended     atomic.Bool // Stop or Destroy was called

	mu      sync.Mutex
	until   time.Time // when it was destroyed
	network environment.Network
}

var (
	_ environment.Environment   = (*sandboxEnv)(nil)
	_ environment.NetworkSetter = (*sandboxEnv)(nil)
	_ environment.LimitReporter = (*sandboxEnv)(nil)
)

// ID implements environment.Environment.
func (e *sandboxEnv) ID() string { return e.sandbox.SandboxID }

// Unenforced implements environment.LimitReporter: a sandbox has no limit of processes, and the
// client asks for no disk.
func (e *sandboxEnv) Unenforced() []string {
	var names []string
	if e.limits.Pids > 0 {
		names = append(names, "pids")
	}
	if e.limits.Storage > 0 {
		names = append(names, "storage")
	}
	return names
}

// Cost implements environment.Environment.
func (e *sandboxEnv) Cost() float64 {
	e.mu.Lock()
	until := e.until
	e.mu.Unlock()
	if until.IsZero() {
		until = time.Now()
	}
	return e.p.config.price.of(e.limits, until.Sub(e.since))
}

// explain returns why the sandbox does not answer, or nil if it runs as far as is known. It
// implements podinit.Options.Explain.
func (e *sandboxEnv) explain(ctx context.Context) error {
	if e.ended.Load() {
		return lost("sandbox %s was ended by Rollout", e.ID())
	}
	code, err := e.sandbox.Poll(ctx, nil)
	switch {
	case isGone(err):
		return lost("sandbox %s is gone", e.ID())
	case err != nil || code == nil:
		return nil //nolint:nilerr // it is not known
	case *code == timedOut:
		return lost("sandbox %s has reached the end of its lifetime", e.ID())
	case *code == terminated:
		return lost("sandbox %s was terminated", e.ID())
	}
	return lost("sandbox %s has ended with code %d", e.ID(), *code)
}

// What the client makes of the states of a sandbox that has ended.
const (
	timedOut   = 124
	terminated = 137
)

// lostNow returns the error of an operation that ended because the environment was ended meanwhile.
func (e *sandboxEnv) lostNow(ctx context.Context, err error) error {
	if err == nil || environment.KindOf(err) == environment.KindLost || ctx.Err() != nil {
		return err
	}
	if e.stopping.Load() || e.ended.Load() {
		return lost("sandbox %s was ended by Rollout", e.ID())
	}
	return err
}

// CopyTo implements environment.Environment.
func (e *sandboxEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	return e.lostNow(ctx, e.Environment.CopyTo(ctx, files...))
}

// CopyFrom implements environment.Environment.
func (e *sandboxEnv) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	out, err := e.Environment.CopyFrom(ctx, src, dst, opts)
	return out, e.lostNow(ctx, err)
}

// Exec implements environment.Environment.
func (e *sandboxEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	code, err := e.Environment.Exec(ctx, script, opts)
	return e.outcome(ctx, code, err)
}

// ExecTerminal implements environment.TerminalRunner.
func (e *sandboxEnv) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	code, err := e.Environment.ExecTerminal(ctx, script, opts, t)
	return e.outcome(ctx, code, err)
}

// outcome returns that of a command. One that was killed by Stop is lost.
func (e *sandboxEnv) outcome(ctx context.Context, code int, err error) (int, error) {
	if err == nil && e.stopping.Load() {
		return -1, lost("sandbox %s was ended by Rollout", e.ID())
	}
	return code, e.lostNow(ctx, err)
}

// Stop implements environment.Environment: all processes but the guest end, and the sandbox is
// tagged as kept. It stays, and costs, until its lifetime ends.
func (e *sandboxEnv) Stop(ctx context.Context) error {
	doing := "stop sandbox " + e.ID()
	if !e.ended.Load() {
		e.stopping.Store(true) // commands that are killed now may return before KillAll does
		err := e.KillAll(ctx)
		if err == nil {
			err = e.Stay(ctx)
		}
		if err != nil && e.explain(ctx) == nil && !e.ended.Load() {
			e.stopping.Store(false)
			return failed(ctx, environment.KindTeardown, doing, err)
		}
	}
	e.ended.Store(true)
	e.Close()
	tags := tagsOf(e.labels)
	maps.Copy(tags, map[string]string{tagKept: "1"})
	err := e.sandbox.SetTags(ctx, tags, nil)
	if isGone(err) {
		return nil
	}
	return failed(ctx, environment.KindTeardown, doing, err)
}

// Destroy implements environment.Environment.
func (e *sandboxEnv) Destroy(ctx context.Context) error {
	e.ended.Store(true)
	err := terminate(ctx, e.sandbox)
	if err == nil {
		e.mu.Lock()
		if e.until.IsZero() {
			e.until = time.Now()
		}
		e.mu.Unlock()
	}
	e.Close()
	return failed(ctx, environment.KindTeardown, "end sandbox "+e.ID(), err)
}

// SetNetwork implements environment.NetworkSetter: Modal replaces the list of what the sandbox may
// reach, and ends connections that the new one does not have.
func (e *sandboxEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if err := checkNetwork(n); err != nil {
		return err
	}
	if err := e.explainEnded(); err != nil {
		return err
	}
	e.mu.Lock()
	before := e.network
	e.mu.Unlock()
	if before.Public() != n.Public() {
		allowed := allowed(n)
		err := e.sandbox.UpdateNetworkPolicy(ctx, &sdk.SandboxUpdateNetworkPolicyParams{OutboundCIDRAllowlist: allowed.cidrs, OutboundDomainAllowlist: allowed.domains})
		if isGone(err) {
			return lost("sandbox %s is gone", e.ID())
		}
		if err != nil {
			return failed(ctx, environment.KindStart, "set the network of sandbox "+e.ID(), err)
		}
	}
	if err := e.SetProxy(ctx, n); err != nil {
		return e.lostNow(ctx, err)
	}
	e.mu.Lock()
	e.network = n
	e.mu.Unlock()
	return nil
}

func (e *sandboxEnv) explainEnded() error {
	if e.ended.Load() {
		return lost("sandbox %s was ended by Rollout", e.ID())
	}
	return nil
}

// checkNetwork refuses a network whose list cannot be read.
func checkNetwork(n environment.Network) error {
	if n.Mode != environment.NetworkAllowlist {
		return nil
	}
	if _, err := egress.Parse(n.Hosts); err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("allowed_hosts: %w", err)}
	}
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
