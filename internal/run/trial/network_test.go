package trial_test

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
)

// outside returns a server that environments of the place reach while their network is public.
func (p place) outside(t testing.TB) string {
	t.Helper()
	if p.name != docker.Name {
		return hosts.Outside(t)
	}
	testenv.NeedDocker(t)
	bridge, err := net.InterfaceByName("docker0")
	if err != nil {
		testenv.Lacks(t, "docker", "the engine's bridge on this machine: "+err.Error())
	}
	addrs, err := bridge.Addrs()
	if err != nil || len(addrs) == 0 {
		t.Fatalf("the bridge has no address: %v", err)
	}
	ip, _, err := net.ParseCIDR(addrs[0].String())
	if err != nil {
		t.Fatal(err)
	}
	return environmenttest.Outside(t, ip.String())
}

// phase returns a script that reports in /logs/agent/seen the servers it reaches: with a proxy if
// there is one, and past it.
func phase(name, address string) string {
	return environmenttest.BashClient + `
try() { if [ "$("$@" 2>/dev/null)" = hello ]; then echo yes; else echo no; fi; }
echo ` + name + ` $(try fetch ` + address + `) $(try direct ` + address + `) >> /logs/agent/seen
`
}

func TestPhasesReachAllowedHosts(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		address := p.outside(t)
		yes := true
		for _, c := range []struct {
			name, toml, agent string
			job               config.Environment
			want              string
			noted             *result.Network
			warns             string
		}{
			{name: "by default", want: "install yes yes, agent yes yes, verifier yes yes"},
			{name: "none", job: config.Environment{Network: "none"}, want: "install no no, agent no no, verifier no no",
				noted: &result.Network{Install: "none", Agent: "none", Verifier: "none", AllowedHosts: map[string][]string{}}},
			{name: "the task says none", toml: "environment.allow_internet = false", want: "install no no, agent no no, verifier no no",
				noted: &result.Network{Install: "none", Agent: "none", Verifier: "none", AllowedHosts: map[string][]string{}}},
			{name: "the oracle obeys, too", agent: agent.Oracle, job: config.Environment{Network: "none"}, want: "agent no no, verifier no no",
				noted: &result.Network{Install: "none", Agent: "none", Verifier: "none", AllowedHosts: map[string][]string{}}},
			{name: "none but for the install script", job: config.Environment{Network: "none", NetworkDuringInstall: &yes},
				want:  "install yes yes, agent no no, verifier no no",
				noted: &result.Network{Install: "public", Agent: "none", Verifier: "none", AllowedHosts: map[string][]string{}}},
			{name: "none but for the verifier", job: config.Environment{Network: "none", NetworkDuringVerify: &yes},
				want:  "install no no, agent no no, verifier yes",
				noted: &result.Network{Install: "none", Agent: "none", Verifier: "public", AllowedHosts: map[string][]string{}}},
			{name: "the task opens what the job closes", toml: "environment.network_during_verify = true", job: config.Environment{Network: "none"},
				want:  "install no no, agent no no, verifier yes",
				noted: &result.Network{Install: "none", Agent: "none", Verifier: "public", AllowedHosts: map[string][]string{}},
				warns: "the job's network is none, but the task's network_during_verify makes it public then: the job can say network_during_verify: false"},
			{name: "the job allows more than the task", toml: "environment.network = \"none\"", job: config.Environment{Network: "public"},
				want: "install yes yes, agent yes yes, verifier yes yes", warns: "the task's network is none, but the job gives the agent public"},
			{name: "what is listed", toml: "environment.network = \"allowlist\"\nenvironment.allowed_hosts = [\"" + address + "\"]",
				want: "install yes no, agent yes no, verifier yes no",
				noted: &result.Network{Install: "allowlist", Agent: "allowlist", Verifier: "allowlist",
					AllowedHosts: map[string][]string{"install": {address}, "agent": {address}, "verifier": {address}}}},
			{name: "what is not", toml: "[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"pypi.org\"]",
				want: "install yes yes, agent no no, verifier yes", warns: "the agent tried to reach " + address + ", which allowed_hosts does not list",
				noted: &result.Network{Install: "public", Agent: "allowlist", Verifier: "public", AllowedHosts: map[string][]string{"agent": {"pypi.org"}}}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := story{toml: c.toml, agent: agent.Agent{Name: c.agent, Install: phase("install", address), Execute: phase("agent", address)},
					files: map[string]string{
						"solution/solve.sh": phase("agent", address),
						"tests/test.sh":     phase("verifier", address) + "echo 1 > /logs/verifier/reward.txt\n",
					},
					job: func(j *config.Job) {
						c.job.Type, c.job.PreserveEnv = j.Environment.Type, j.Environment.PreserveEnv
						j.Environment = c.job
					}}
				if c.agent == agent.Oracle {
					s.agent = agent.Agent{Name: agent.Oracle}
				}
				o := p.run(t, s)
				if o.Trial.Error != nil || o.Trial.Reward == nil || *o.Trial.Reward != 1 {
					t.Fatalf("error %+v, reward %v", o.Trial.Error, o.Trial.Reward)
				}
				seen, err := os.ReadFile(filepath.Join(o.dir, "logs/agent/seen"))
				got := strings.ReplaceAll(strings.TrimSpace(string(seen)), "\n", ", ")
				if err != nil || !strings.HasPrefix(got, c.want) {
					t.Errorf("%q, %v; want %q", got, err, c.want)
				}
				if !reflect.DeepEqual(o.Trial.Environment.Network, c.noted) {
					t.Errorf("noted %+v, want %+v", o.Trial.Environment.Network, c.noted)
				}
				if warnings := strings.Join(o.Trial.Warnings, "\n"); warnings != c.warns {
					t.Errorf("warnings %q, want %q", warnings, c.warns)
				}
			})
		}
	})
}
