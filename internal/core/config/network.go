package config

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/internal/lib/fields"
)

// network checks the network keys of environment, and that they do not contradict each other.
func (c *checker) network() {
	env := c.out.Job.Environment
	mode := environment.NetworkMode(env.Network)
	at := func(key string) fields.Path { return fields.Path{"environment", key} }
	if c.Bad(at("network")) || c.Bad(at("allowed_hosts")) {
		return
	}
	switch {
	case len(env.AllowedHosts) > 0 && mode != environment.NetworkAllowlist:
		c.Problem(at("allowed_hosts"), "write network: allowlist above it, or remove the hosts (--set environment.allowed_hosts=[])",
			"environment.allowed_hosts is given, but environment.network is not allowlist")
	case len(env.AllowedHosts) == 0 && mode == environment.NetworkAllowlist:
		c.Warn(c.Root.Locate(at("network"), false), "write none, or list hosts: allowed_hosts: [pypi.org]",
			"environment.network: an allowlist without allowed_hosts allows nothing")
	}
	for i, host := range env.AllowedHosts {
		if _, err := egress.ParseRule(host); err != nil {
			c.Problem(at("allowed_hosts").Index(i), "", "%s: %v", at("allowed_hosts").Index(i), err)
		}
	}
	for key, during := range map[string]*bool{"network_during_install": env.NetworkDuringInstall, "network_during_verify": env.NetworkDuringVerify} {
		if during != nil && mode == environment.NetworkPublic {
			c.Warn(c.Root.Locate(at(key), false), "", "environment.%s has no effect: the network is public in all phases", key)
		}
	}
	c.ownNetwork(mode)
}

// ownNetwork compares the mode with the network in the provider's configuration, which applies if
// the mode is public.
func (c *checker) ownNetwork(mode environment.NetworkMode) {
	own, _ := c.out.Job.Environment.ProviderConfig["network"].(string)
	shared := own == "host" || strings.HasPrefix(own, "container:")
	if own == "host" {
		c.Warn(c.Root.Locate(fields.Path{"environment", "provider_config", "network"}, false), "leave it out to give each trial its own network",
			"environment.provider_config.network is host: trials share this machine's network, and reach each other's servers and everything on localhost")
	}
	restricted := mode == environment.NetworkNone || mode == environment.NetworkAllowlist
	if shared && restricted || own == "none" && mode != "" && mode != environment.NetworkNone {
		at := fields.Path{"environment", "provider_config", "network"}
		c.Problem(at, "remove one of them", "%s", fmt.Sprintf("%s is %s, but environment.network is %s", at, fields.Shorten(own), mode))
	}
}
