package networks_test

import (
	"reflect"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/networks"
)

var (
	public = environment.Network{}
	none   = environment.Network{Mode: environment.NetworkNone}
)

func listed(hosts ...string) environment.Network {
	return environment.Network{Mode: environment.NetworkAllowlist, Hosts: hosts}
}

func TestNetworksOf(t *testing.T) {
	yes, no := true, false
	offline := task.Networks{Install: none, Agent: none, Verify: none}
	for name, c := range map[string]struct {
		task task.Networks
		job  config.Environment
		want task.Networks
	}{
		"nobody says anything": {},
		"the task says it":     {offline, config.Environment{}, offline},
		"the job allows less":  {task.Networks{}, config.Environment{Network: "none"}, offline},
		"the job allows more in so many words": {offline, config.Environment{Network: "public"},
			task.Networks{Install: environment.Network{Mode: "public"}, Agent: environment.Network{Mode: "public"}, Verify: environment.Network{Mode: "public"}}},
		"the job's list takes the place of the task's": {
			task.Networks{Install: listed("a.example"), Agent: listed("a.example"), Verify: listed("a.example")},
			config.Environment{Network: "allowlist", AllowedHosts: []string{"b.example"}},
			task.Networks{Install: listed("b.example"), Agent: listed("b.example"), Verify: listed("b.example")}},
		"the job's network, the task's phases": {
			task.Networks{Install: public, Agent: none, Verify: none, PublicDuringInstall: true},
			config.Environment{Network: "none"},
			task.Networks{Install: public, Agent: none, Verify: none, PublicDuringInstall: true}},
		"the job opens phases": {offline, config.Environment{NetworkDuringInstall: &yes, NetworkDuringVerify: &yes},
			task.Networks{Install: public, Agent: none, Verify: public}},
		"the job closes phases": {task.Networks{Install: public, Agent: none, Verify: public},
			config.Environment{NetworkDuringInstall: &no, NetworkDuringVerify: &no}, offline},
		"closing a phase does not open it": {task.Networks{Install: none, Agent: public, Verify: none},
			config.Environment{NetworkDuringInstall: &no, NetworkDuringVerify: &no}, task.Networks{Install: none, Agent: public, Verify: none}},
		"the provider's own": {task.Networks{}, config.Environment{ProviderConfig: map[string]any{"network": "none"}, NetworkDuringInstall: &yes}, offline},
	} {
		t.Run(name, func(t *testing.T) {
			got := networks.Of(config.Job{Environment: c.job}, task.Config{Environment: task.Environment{Networks: c.task}})
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}
