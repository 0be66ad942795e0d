package task

import (
	"fmt"

	"github.com/org/rollout-action/internal/egress"
	"github.com/org/rollout-action/internal/environment"
)

// Networks are the networks of a trial's phases. The default is public.
type Networks struct {
	Install environment.Network // the agent's install script
	Agent   environment.Network
	Verify  environment.Network
	// PublicDuringInstall and PublicDuringVerify make these phases public, whatever their network.
	PublicDuringInstall, PublicDuringVerify bool
}

// modes maps the values of network and network_mode. Source of "no-network": Harbor, "Network Policy".
var modes = map[string]environment.NetworkMode{
	"public": "", "none": environment.NetworkNone, "no-network": environment.NetworkNone,
	"allowlist": environment.NetworkAllowlist,
}

// readNetworks reads the networks of a task.toml: [environment] network (or Harbor's network_mode or allow_internet) for all
// phases, [agent] and [verifier] for these two. As in Harbor, the agent's install script has the network of [environment].
func readNetworks(env, agent, verifier table) Networks {
	all := env.network(environment.Network{}, "network", "network_mode")
	env.allowInternet(&all)
	n := Networks{Install: all, Agent: agent.network(all, "network_mode"), Verify: verifier.network(all, "network_mode")}
	env.flag("network_during_install", &n.PublicDuringInstall)
	env.flag("network_during_verify", &n.PublicDuringVerify)
	if n.PublicDuringInstall {
		n.Install = environment.Network{}
	}
	if n.PublicDuringVerify {
		n.Verify = environment.Network{}
	}
	return n
}

// network reads a mode and its hosts. keys are the names of the mode; at most one may be set.
func (t table) network(inherited environment.Network, keys ...string) environment.Network {
	n, said := inherited, ""
	for _, key := range keys {
		var text string
		t.text(key, &text)
		if text == "" {
			continue
		}
		mode, ok := modes[text]
		switch {
		case !ok:
			t.problem(key, fmt.Sprintf("%q must be public, none or allowlist, not %q", t.name(key), text), "")
		case said != "":
			t.problem(key, fmt.Sprintf("%q and %q are the same setting", t.name(said), t.name(key)), "keep one of them")
		default:
			n, said = environment.Network{Mode: mode}, key
		}
	}
	if t.has("allowed_hosts") {
		n.Hosts = t.hosts(n.Mode)
	}
	if said != "" && n.Mode == environment.NetworkAllowlist && len(n.Hosts) == 0 {
		t.warning(said, "an allowlist without allowed_hosts allows nothing", `write none, or list hosts: allowed_hosts = ["pypi.org"]`)
	}
	return n
}

// hosts reads allowed_hosts, which need an allowlist.
func (t table) hosts(mode environment.NetworkMode) []string {
	const key = "allowed_hosts"
	list, ok := t.values[key].([]any)
	if !ok {
		t.wrongType(key, "a list of hosts", `write allowed_hosts = ["pypi.org"]`)
		return nil
	}
	if len(list) > 0 && mode != environment.NetworkAllowlist {
		t.problem(key, fmt.Sprintf("%q is given, but the network is no allowlist", t.name(key)), `write network = "allowlist", or remove the hosts`)
		return nil
	}
	var hosts []string
	for i, item := range list {
		text, ok := item.(string)
		if !ok {
			t.problem(key, fmt.Sprintf("entry %d of %q must be a string", i+1, t.name(key)), "")
			continue
		}
		if _, err := egress.ParseRule(text); err != nil {
			t.problem(key, fmt.Sprintf("entry %d of %q: %v", i+1, t.name(key), err), "")
			continue
		}
		hosts = append(hosts, text)
	}
	return hosts
}

// allowInternet reads Harbor's older key, which must not contradict the newer ones.
func (t table) allowInternet(n *environment.Network) {
	const key = "allow_internet"
	allowed := true
	if !t.has(key) || !t.flag(key, &allowed) {
		return
	}
	said := t.has("network") || t.has("network_mode")
	switch {
	case said && allowed != n.Public():
		t.problem(key, fmt.Sprintf("%q contradicts the network, which is %s", t.name(key), n), "keep one of them")
	case !said && !allowed:
		*n = environment.Network{Mode: environment.NetworkNone}
	}
}

// flag reads a boolean, and reports whether there was one.
func (t table) flag(key string, to *bool) bool {
	v, ok := t.values[key]
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		t.wrongType(key, "true or false", fmt.Sprintf("write %s = true", key))
		return false
	}
	*to = b
	return true
}
