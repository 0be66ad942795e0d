package task

import (
	"cmp"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/internal/lib/fields"
)

// Networks are the networks of a trial's phases. The default is public.
type Networks struct {
	Install environment.Network // the agent's install script
	Agent   environment.Network
	Verify  environment.Network
	// PublicDuringInstall and PublicDuringVerify make these phases public, whatever their network.
	PublicDuringInstall, PublicDuringVerify bool
}

// networks returns the networks of a task.toml: [environment] network (or Harbor's network_mode or
// allow_internet) for all phases, [agent] and [verifier] for these two. As in Harbor, the agent's
// install script has the network of [environment], and so has the verifier in an environment apart,
// unless [verifier.environment] has a network.
func (r *reader) networks(apart bool) Networks {
	f, env := &r.file, &r.file.Environment
	all := r.environmentNetwork(fields.Path{"environment"}, env)
	verify := all
	if apart && r.Root.Given(separateAt...) != nil && f.Verifier.Own.given {
		verify = r.environmentNetwork(separateAt, &f.Verifier.Own.environmentKeys)
	}
	n := Networks{
		Install:             all,
		Agent:               r.network(fields.Path{"agent"}, all, "", f.Agent.Network, f.Agent.AllowedHosts),
		Verify:              r.network(fields.Path{"verifier"}, verify, "", f.Verifier.Network, f.Verifier.AllowedHosts),
		PublicDuringInstall: env.NetworkDuringInstall,
		PublicDuringVerify:  env.NetworkDuringVerify,
	}
	if n.PublicDuringInstall {
		n.Install = environment.Network{}
	}
	if n.PublicDuringVerify {
		n.Verify = environment.Network{}
	}
	return n
}

// environmentNetwork returns the network of the environment whose table is at at.
func (r *reader) environmentNetwork(at fields.Path, env *environmentKeys) environment.Network {
	n := r.network(at, environment.Network{}, networkMode(env.Network), env.NetworkMode, env.AllowedHosts)
	r.allowInternet(at, env.AllowInternet, &n)
	return n
}

// networkMode is a value of network_mode, or of network.
type networkMode string

func (m networkMode) mode() environment.NetworkMode {
	switch m {
	case "public":
		return ""
	case "no-network": // source: Harbor, "Network Policy"
		return environment.NetworkNone
	}
	return environment.NetworkMode(m)
}

// network returns the network of the table at table with the keys network, network_mode and
// allowed_hosts, which may be empty.
func (r *reader) network(table fields.Path, inherited environment.Network, own, second networkMode, hosts []string) environment.Network {
	n, key := inherited, table.Child("network_mode")
	if own != "" {
		ownKey := table.Child("network")
		if second != "" {
			r.Problem(key, "keep one of them", "%q and %q are the same setting", ownKey, key)
		}
		key = ownKey
	}
	mode := cmp.Or(own, second)
	if mode != "" {
		n = environment.Network{Mode: mode.mode()}
	}
	at := table.Child("allowed_hosts")
	if r.Root.Given(at...) != nil {
		n.Hosts = r.hosts(at, hosts, n.Mode)
	}
	if mode != "" && n.Mode == environment.NetworkAllowlist && len(n.Hosts) == 0 && !r.BadBelow(at) {
		r.Warn(r.Root.Locate(key, false), `write none, or list hosts: allowed_hosts = ["pypi.org"]`, "an allowlist without allowed_hosts allows nothing")
	}
	return n
}

// hosts checks allowed_hosts, which need an allowlist.
func (r *reader) hosts(at fields.Path, hosts []string, mode environment.NetworkMode) []string {
	if len(hosts) > 0 && mode != environment.NetworkAllowlist {
		r.Problem(at, `write network = "allowlist", or remove the hosts`, "%q is given, but the network is no allowlist", at)
		return nil
	}
	for i, host := range hosts {
		if _, err := egress.ParseRule(host); err != nil {
			r.Problem(at.Index(i), "", "%q: %v", at.Index(i), err)
		}
	}
	return hosts
}

// allowInternet applies Harbor's older key of the table at table. In tasks made for Harbor, the
// newer keys win; in others it must not contradict them.
func (r *reader) allowInternet(table fields.Path, allowed *bool, n *environment.Network) {
	if allowed == nil {
		return
	}
	at := table.Child("allow_internet")
	given := func(key string) bool { return r.Root.Given(table.Child(key)...) != nil }
	named := given("network") || given("network_mode")
	switch {
	case r.opts.Format == FormatHarbor && (named || given("allowed_hosts")):
	case named && *allowed != n.Public():
		r.Problem(at, "keep one of them", "%q contradicts the network, which is %s", at, n)
	case !named && !*allowed:
		*n = environment.Network{Mode: environment.NetworkNone}
	}
}
