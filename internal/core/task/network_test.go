package task

import (
	"fmt"
	"strings"
	"testing"
)

func TestNetworksOfPhases(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "public public public",
		"[environment]\nnetwork = \"none\"": "none none none",
		"[environment]\nnetwork = \"none\"\nnetwork_during_install = true":                                                                              "public none none",
		"[environment]\nnetwork = \"none\"\nnetwork_during_verify = true":                                                                               "none none public",
		"[environment]\nnetwork = \"allowlist\"\nallowed_hosts = [\"pypi.org\", \"*.pypi.org:8443\"]":                                                   "allowlist [pypi.org *.pypi.org:8443] allowlist [pypi.org *.pypi.org:8443] allowlist [pypi.org *.pypi.org:8443]",
		"[environment]\nallow_internet = false":                                                                                                         "none none none",
		"[environment]\nallow_internet = true":                                                                                                          "public public public",
		"[environment]\nallow_internet = false\nnetwork_mode = \"no-network\"":                                                                          "none none none",
		"[environment]\nnetwork_mode = \"public\"\n[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"a.example\"]":                              "public allowlist [a.example] public",
		"[environment]\nnetwork_mode = \"public\"\n[verifier]\nnetwork_mode = \"no-network\"":                                                           "public public none",
		"[environment]\nnetwork_mode = \"no-network\"\n[verifier]\nnetwork_mode = \"public\"":                                                           "none none public",
		"[environment]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"a.example\"]\n[agent]\nallowed_hosts = [\"b.example\"]":                        "allowlist [a.example] allowlist [b.example] allowlist [a.example]",
		"[environment]\nnetwork_mode = \"no-network\"\nnetwork_during_install = true\nnetwork_during_verify = true\n[agent]\nnetwork_mode = \"public\"": "public public public",
	} {
		document := "version = \"1.0\"\n" + text
		dir := newTask(t, map[string]string{"task.toml": document})
		got := Load(dir)
		equalProblems(t, dir, got, nil)
		n := got.Config.Environment.Networks
		if said := fmt.Sprint(n.Install, " ", n.Agent, " ", n.Verify); said != want {
			t.Errorf("%s\nis read as %s, want %s", text, said, want)
		}
		if err := checkSchema(t, document); err != nil {
			t.Errorf("%s\nthe schema: %v", text, err)
		}
	}
}

func TestContradictingNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"network = \"off\"":                            `task.toml:3:1: "environment.network" must be one of public, none, allowlist, not "off"`,
		"network = \"none\"\nnetwork_mode = \"none\"":  `task.toml:4:1: "environment.network" and "environment.network_mode" are the same setting (keep one of them)`,
		"network = \"public\"\nallow_internet = false": `task.toml:4:1: "environment.allow_internet" contradicts the network, which is public (keep one of them)`,
		"network = \"none\"\nallow_internet = true":    `task.toml:4:1: "environment.allow_internet" contradicts the network, which is none (keep one of them)`,
		"allow_internet = \"no\"":                      `task.toml:3:1: "environment.allow_internet" must be true or false, not the string "no" (write false)`,
		"allowed_hosts = [\"pypi.org\"]":               `task.toml:3:1: "environment.allowed_hosts" is given, but the network is no allowlist (write network = "allowlist", or remove the hosts)`,
		"network = \"allowlist\"":                      `task.toml:3:1: warning: an allowlist without allowed_hosts allows nothing (write none, or list hosts: allowed_hosts = ["pypi.org"])`,
		"network = \"allowlist\"\nallowed_hosts = [\"https://x/\", 1, \"b.example\"]": `task.toml:4:18: "environment.allowed_hosts[0]": "https://x/" is more than a host: write it without https:// and without a path
task.toml:4:32: "environment.allowed_hosts[1]" must be a string, not the number 1 (write it in quotes: "1")`,
		"network = \"allowlist\"\nallowed_hosts = \"pypi.org\"": `task.toml:4:1: "environment.allowed_hosts" must be a list of hosts, not the string "pypi.org" (write allowed_hosts = ["pypi.org"])`,
	} {
		dir := newTask(t, map[string]string{"task.toml": "version = \"1.0\"\n[environment]\n" + text + "\n"})
		equalProblems(t, dir, Load(dir), strings.Split(want, "\n"))
	}
}
