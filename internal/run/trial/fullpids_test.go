package trial_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/sandbox"
)

// fewProcesses returns a place whose environments have few processes at most.
func fewProcesses(p place) place {
	const most = 48
	p.open = func(t testing.TB) environment.Provider {
		t.Helper()
		var made environment.Provider
		var err error
		if p.name == docker.Name {
			testenv.NeedDocker(t)
			made, err = docker.New(t.Context(), map[string]any{"pids_limit": most})
		} else {
			cfg := map[string]any{"base": "host", "dir": filepath.Join(stores, "host"), "pids_limit": most}
			made, err = sandbox.New(context.Background(), cfg, sandbox.Options{Dial: hosts.Dial})
		}
		testenv.Check(t, p.name, err)
		t.Cleanup(func() { made.Close() })
		return made
	}
	return p
}

// fillProcesses starts processes until there can be no more, or far more than the limit. It then
// does what its argument says.
const fillProcesses = `perl -e '
	for (my $n = 0; ; $n++) {
		my $child = $n < 300 ? fork : undef;
		if (!defined $child) { open(my $full, ">", "/tmp/full"); %s; next }
		if (!$child) { sleep 3600; exit }
	}' >/dev/null 2>&1 &
until [ -e /tmp/full ]; do read -rt 0.1 <&1; done
true
`

// An agent that leaves no room for the processes of the tests has failed, like one that removes
// bash. The tests have not failed.
func TestAgentThatFillsItsProcessesHasFailed(t *testing.T) {
	inPlaces(t, realPlaces, func(t *testing.T, p place) {
		p = fewProcesses(p)
		for name, then := range map[string]string{
			"takes the place of each process that ends": "select(undef, undef, undef, 0.01)",
			"sleeps": "sleep 3600",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := story{
					agent: agent.Agent{Execute: fmt.Sprintf(fillProcesses, then)},
					files: map[string]string{"tests/test.sh": `exec perl -e '
						my $refused;
						my @children = map { my $child = fork; $refused = 1 if !defined $child; if (defined $child && !$child) { sleep 3600; exit } $child } 1..16;
						kill "KILL", grep { defined } @children;
						exit 3 if $refused;
						open(my $reward, ">", "/logs/verifier/reward.txt");
						print $reward 1'`},
				}
				o := p.newScene(t, s).run(s, s.task(t, p), 1)
				if slices.Contains(o.Trial.Environment.Unenforced, "pids") {
					testenv.Lacks(t, p.name, "a limit of processes")
				}
				o.check(t, want{err: result.AgentExecutionFailed, says: []string{"the agent left"}})
			})
		}
	})
}
