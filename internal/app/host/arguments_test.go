package host

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/lib/redact"
)

func TestPrintedArgumentsHaveNoSecrets(t *testing.T) {
	vars := Variables{Environ: func() []string {
		return []string{"API_TOKEN=from-the-environment", "HOME=/home/somebody", "SHORT_KEY=abc"}
	}}
	secrets := vars.SecretsOf([]string{"of-the-job"})
	for name, c := range map[string]struct{ args, want []string }{
		"what is no secret stays": {
			[]string{"run", "/home/somebody/job.yaml", "--set", "environment.override_memory=4G", "--set=n_attempts=3", "-a", "abc", "--agent-env", "NAME", "--baseline", "https://h/result.json"},
			[]string{"run", "/home/somebody/job.yaml", "--set", "environment.override_memory=4G", "--set=n_attempts=3", "-a", "abc", "--agent-env", "NAME", "--baseline", "https://h/result.json"},
		},
		"variables of agents and providers": {
			[]string{"--set", "agents.0.env.MODEL=large", "--set=agents.mine.env={A: b}", "--set", "environment.provider_config.token=x", "--agent-env", "NAME=x", "--agent-env=NAME=x", "--set", "agents.0.env.KEY="},
			[]string{"--set", "agents.0.env.MODEL=VALUE", "--set=agents.mine.env=VALUE", "--set", "environment.provider_config.token=VALUE", "--agent-env", "NAME=VALUE", "--agent-env=NAME=VALUE", "--set", "agents.0.env.KEY="},
		},
		"values of the environment and of the job": {
			[]string{"--set", "agents.0.description=from-the-environment", "--execute", "curl -H from-the-environment", "--install=x of-the-job", "--name", "of-the-job", "--set", "from-the-environment=1"},
			[]string{"--set", "agents.0.description=VALUE", "--execute", "VALUE", "--install=INSTALL", "--name", "VALUE", "--set", "SET"},
		},
		"URLs with credentials": {
			[]string{"--baseline", "https://user:pass@h/x", "--registry=https://h/x?sig=1", "--baseline=https://h/x#y"},
			[]string{"--baseline", "BASELINE", "--registry=REGISTRY", "--baseline=BASELINE"},
		},
		"a flag without a value": {[]string{"--set"}, []string{"--set"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PublicArguments(c.args, secrets); !slices.Equal(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
	if got := PublicArguments([]string{"--name", "x"}, redact.New(nil)); !slices.Equal(got, []string{"--name", "x"}) {
		t.Errorf("without secrets: %q", got)
	}
}
