package trial

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// NetworksOf returns the networks of a trial's phases. The job's settings replace the task's, key
// by key: the job may allow less, and with an explicit network: public or allowlist also more, of
// which the trial warns.
func NetworksOf(job config.Job, t task.Config) task.Networks {
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

// Networks returns the networks of a trial's phases.
func (s Spec) Networks(job config.Job) task.Networks {
	if s.Offline {
		none := environment.Network{Mode: environment.NetworkNone}
		return task.Networks{Install: none, Agent: none, Verify: none}
	}
	return NetworksOf(job, s.Task.Config)
}

// initialNetwork returns the network of a new environment: that of its first phase.
func (p *plan) initialNetwork(agentInstalled bool) environment.Network {
	if p.spec.Agent.Install != "" && !agentInstalled {
		return p.networks.Install
	}
	return p.networks.Agent
}

// checkNetworkSwitches returns an error if a later phase needs another network and env cannot
// change it. It is called before the agent runs, because the agent's work would be lost.
func (p *plan) checkNetworkSwitches(env environment.Environment, network environment.Network, provider string) error {
	if _, ok := environment.As[environment.NetworkSetter](env); ok {
		return nil
	}
	for _, phase := range []struct {
		who     string
		network environment.Network
	}{{"the agent", p.networks.Agent}, {"the verifier", p.networks.Verify}} {
		if !phase.network.Is(network) {
			return failure.Newf(result.EnvironmentStartFailed, "the environment begins with the network %s and %s has %s, but the provider %s cannot change the network of an environment: "+
				"give all phases one network (environment.network in the job, without network_during_*)", network, phase.who, phase.network, provider)
		}
	}
	return nil
}

// restriction returns a network in words, or "" if it is public.
func restriction(n environment.Network) string {
	if n.Public() {
		return ""
	}
	return n.String()
}

// networkRecord returns the networks of the phases for the result; nil if all are public.
func networkRecord(n task.Networks) *result.Network {
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

// networkWarnings returns a warning for each phase in which the job allows more access than the
// task, or the task more than the job, which may not know the task.
func (p *plan) networkWarnings() []string {
	var out []string
	n, env := p.networks, p.job.Environment
	if wanted := p.spec.Task.Config.Environment.Networks.Agent; permissiveness[n.Agent.Mode] > permissiveness[wanted.Mode] {
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

// maxRefused limits the refused hosts that are counted, and maxNamed those that a trial's warnings
// name.
const (
	maxRefused = 1000
	maxNamed   = 10
)

// refusals counts the requests that the filtering proxy refused. Its methods may be called by many
// goroutines.
type refusals struct {
	mu    sync.Mutex
	actor string
	count map[refusal]int
	more  int
}

type refusal struct{ actor, where, reason string }

// setActor sets the name of the process that makes the following requests.
func (r *refusals) setActor(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.actor = who
}

// record returns n as a network that reports refused requests to r.
func (r *refusals) record(n environment.Network) environment.Network {
	n.Refused = func(no environment.Refusal) {
		where := no.Host
		if no.Port != 80 && no.Port != 443 {
			where = net.JoinHostPort(no.Host, strconv.Itoa(int(no.Port)))
		}
		reason := "which allowed_hosts does not list"
		if no.Listed {
			reason = "which was refused, because " + no.Reason
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		one := refusal{cmp.Or(r.actor, "something in the environment"), where, reason}
		if _, known := r.count[one]; !known && len(r.count) == maxRefused {
			r.more++
			return
		}
		if r.count == nil {
			r.count = map[refusal]int{}
		}
		r.count[one]++
	}
	return n
}

// warn warns of the refused requests, the most frequent first.
func (r *refusals) warn(warn func(format string, args ...any)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(r.count), func(x, y refusal) int {
		return cmp.Or(cmp.Compare(r.count[y], r.count[x]), cmp.Compare(x.actor, y.actor), cmp.Compare(x.where, y.where), cmp.Compare(x.reason, y.reason))
	})
	for i, one := range all {
		if i == maxNamed {
			warn("%d more hosts were refused", len(all)-i+r.more)
			break
		}
		times := ""
		if n := r.count[one]; n > 1 {
			times = fmt.Sprintf(" (%d times)", n)
		}
		warn("%s tried to reach %s%s, %s", one.actor, one.where, times, one.reason)
	}
}
