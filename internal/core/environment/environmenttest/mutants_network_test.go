package environmenttest

import (
	"context"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// changeNetwork returns hooks that change every requested network.
func changeNetwork(change func(n *environment.Network)) hooks {
	return hooks{
		create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
			change(&o.Network)
			return m.make(ctx, o)
		},
		setNetwork: func(e *brokenEnv, ctx context.Context, n environment.Network) error {
			change(&n)
			return environment.SetNetwork(ctx, e.Environment, n)
		},
	}
}

// everywhere returns hooks that run scripts that contain word in the first environment that was
// created.
func everywhere(word string) hooks {
	return hooks{exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
		if strings.Contains(script, word) {
			e.m.mu.Lock()
			first := e.m.envs[0]
			e.m.mu.Unlock()
			return first.Environment.Exec(ctx, script, o)
		}
		return e.Environment.Exec(ctx, script, o)
	}}
}

var networkMutants = []broken{
	{"has one loopback for all", []string{"servers on loopback are each environment's own"}, everywhere("direct 127.0.0.1")},
	{"reaches this machine", []string{"servers on this machine's loopback are not reached"},
		hooks{exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			if strings.Contains(script, "direct 127.0.0.1:") {
				script = "echo hello"
			}
			return e.Environment.Exec(ctx, script, o)
		}}},
	{"looks no names up", []string{"names lead to hosts"}, changeNetwork(func(n *environment.Network) { *n = suite.None })},
	{"ends processes with their network", []string{"processes outlive the network that they had"},
		hooks{setNetwork: func(e *brokenEnv, ctx context.Context, n environment.Network) error {
			_ = e.Environment.Stop(ctx)
			return environment.SetNetwork(ctx, e.Environment, n)
		}}},
	{"has no network", []string{"a public environment reaches the network", "a network that is added later works, and processes keep running"},
		changeNetwork(func(n *environment.Network) { *n = suite.None })},
	{"has the public network always", []string{
		"an environment without a network reaches nothing", "an allowlist allows listed hosts and reports others",
		"an allowlist without hosts allows nothing", "an allowlist that cannot be read makes no environment",
		"a list takes the place of another", "the proxies of two environments are separate",
	}, changeNetwork(func(n *environment.Network) { *n = environment.Network{} })},
	{"tells nobody of what it refuses", []string{"an allowlist allows listed hosts and reports others"},
		changeNetwork(func(n *environment.Network) { n.Refused = nil })},
	{"keeps the network that it began with", []string{
		"a network that is taken away is gone for what ran before", "a connection does not outlive the network that it was made in",
		"a network that is added later works, and processes keep running", "a list takes the place of another",
	}, hooks{setNetwork: func(*brokenEnv, context.Context, environment.Network) error { return nil }}},
	{"ends everything when it changes the network", []string{"a network that is added later works, and processes keep running"},
		hooks{setNetwork: func(e *brokenEnv, ctx context.Context, n environment.Network) error {
			_ = e.Environment.Stop(ctx)
			return environment.SetNetwork(ctx, e.Environment, n)
		}}},
	{"sets the network of what is gone", []string{"the network of a destroyed environment cannot be set"},
		hooks{setNetwork: func(*brokenEnv, context.Context, environment.Network) error { return nil }}},
}
