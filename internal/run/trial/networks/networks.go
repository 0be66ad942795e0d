package networks

import (
	"cmp"
	"fmt"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Of returns the networks of a trial's phases. The job's settings replace the task's, key
// by key: the job may allow less, and with an explicit network: public or allowlist also more, of
// which the trial warns.
func Of(job config.Job, t task.Config) task.Networks {
	env, n := job.Environment, t.Environment.Networks
	if own, _ := env.ProviderConfig["network"].(string); own == string(environment.NetworkNone) {
		none := environment.Network{Mode: environment.NetworkNone}
		return task.Networks{Install: none, Agent: none, Verify: none}
	}
	during := func(job *bool, phase environment.Network) environment.Network {
		switch {
		case job != nil && *job:
			return environment.Network{}
		case job != nil && permissiveness[phase.Mode] > permissiveness[n.Agent.Mode]:
			return n.Agent
		}
		return phase
	}
	if env.Network != "" {
		all := environment.Network{Mode: environment.NetworkMode(env.Network), Hosts: env.AllowedHosts}
		n.Install, n.Agent, n.Verify = all, all, all
		if n.PublicDuringInstall {
			n.Install = environment.Network{}
		}
		if n.PublicDuringVerify {
			n.Verify = environment.Network{}
		}
	}
	n.Install = during(env.NetworkDuringInstall, n.Install)
	n.Verify = during(env.NetworkDuringVerify, n.Verify)
	return n
}

// CheckSwitches returns an error if a phase after the first needs another network than the current
// one, and env cannot change it. It is called before the agent runs, because the agent's work would
// be lost.
func CheckSwitches(env environment.Environment, current environment.Network, n task.Networks, provider string) error {
	if _, ok := environment.As[environment.NetworkSetter](env); ok {
		return nil
	}
	for _, phase := range []struct {
		who     string
		network environment.Network
	}{{"the agent", n.Agent}, {"the verifier", n.Verify}} {
		if !phase.network.Is(current) {
			return failure.Newf(result.EnvironmentStartFailed, "the environment begins with the network %s and %s has %s, but the provider %s cannot change the network of an environment: "+
				"give all phases one network (environment.network in the job, without network_during_*)", current, phase.who, phase.network, provider)
		}
	}
	return nil
}

// Restriction returns a network in words, or "" if it is public.
func Restriction(n environment.Network) string {
	if n.Public() {
		return ""
	}
	return n.String()
}

// Record returns the networks of the phases for the result; nil if all are public.
func Record(n task.Networks) *result.Network {
	if n.Install.Public() && n.Agent.Public() && n.Verify.Public() {
		return nil
	}
	noted := &result.Network{AllowedHosts: map[string][]string{}}
	for _, phase := range []struct {
		name string
		to   *string
		n    environment.Network
	}{{"install", &noted.Install, n.Install}, {"agent", &noted.Agent, n.Agent}, {"verifier", &noted.Verifier, n.Verify}} {
		*phase.to = string(cmp.Or(phase.n.Mode, environment.NetworkPublic))
		if phase.n.Mode == environment.NetworkAllowlist {
			noted.AllowedHosts[phase.name] = phase.n.Hosts
		}
	}
	return noted
}

// Warnings returns a warning for each phase in which the job allows more access than the task, or
// the task more than the job, which may not know the task. n has the networks of the trial.
func Warnings(job config.Job, t task.Config, n task.Networks) []string {
	var out []string
	env := job.Environment
	if wanted := t.Environment.Networks.Agent; permissiveness[n.Agent.Mode] > permissiveness[wanted.Mode] {
		out = append(out, fmt.Sprintf("the task's network is %s, but the job gives the agent %s", wanted, n.Agent))
	}
	if mode := environment.NetworkMode(env.Network); permissiveness[mode] == permissiveness[environment.NetworkPublic] {
		return out
	}
	for _, phase := range []struct {
		key string
		job *bool
		n   environment.Network
	}{{"network_during_install", env.NetworkDuringInstall, n.Install}, {"network_during_verify", env.NetworkDuringVerify, n.Verify}} {
		if phase.job == nil && phase.n.Public() {
			out = append(out, fmt.Sprintf("the job's network is %s, but the task's %[2]s makes it public then: the job can say %[2]s: false", env.Network, phase.key))
		}
	}
	return out
}

// permissiveness orders network modes by the access that they allow.
var permissiveness = map[environment.NetworkMode]int{environment.NetworkNone: 1, environment.NetworkAllowlist: 2, environment.NetworkPublic: 3, "": 3}
