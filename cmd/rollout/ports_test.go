//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// A task whose solution starts a server on a port: an agent that does nothing must fail, even while
// the servers of others run.
var serving = map[string]string{
	"evals/serve/task.toml":      "version = \"1.0\"\n[agent]\ntimeout_sec = 600\n[verifier]\ntimeout_sec = 600\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
	"evals/serve/instruction.md": "Start a server on port 8123 of 127.0.0.1 that answers with the line: served\n",
	"evals/serve/solution/solve.sh": `#!/bin/bash
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, ReuseAddr => 1, LocalAddr => "127.0.0.1:8123") or die "$!\n";
	while ($c = $s->accept) { print $c "served\n"; close $c }' > /dev/null 2>&1 &
for ((i = 0; i < 600; i++)); do (: < /dev/tcp/127.0.0.1/8123) 2> /dev/null && exit; sleep 0.05; done
exit 1
`,
	// Slow enough for trials to overlap.
	"evals/serve/tests/test.sh": `#!/bin/bash
reward=0
for ((i = 0; i < 10; i++)); do
	if [ "$(cat < /dev/tcp/127.0.0.1/8123)" = served ]; then reward=1; fi 2> /dev/null
	sleep 0.1
done
echo $reward > /logs/verifier/reward.txt
`,
	"job.yaml": `
name: serve
n_attempts: 2
n_concurrent_trials: 6
environment: {type: sandbox, provider_config: {base: host}}
agents:
  - name: oracle
  - name: nop
  - name: lazy
    execute: "true"
datasets:
  - path: evals
`,
}

func servingDir(t *testing.T) string {
	t.Helper()
	needSandbox(t)
	dir := t.TempDir()
	for name, text := range serving {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func TestTrialsHaveSeparateNetworks(t *testing.T) {
	dir := servingDir(t)
	start(t, dir, "job.yaml").exit(t)
	tree, err := result.ReadTree(filepath.Join(dir, "jobs", "serve"))
	must(t, err)
	if len(tree.Trials) != 6 {
		t.Fatalf("%d trials, want 6", len(tree.Trials))
	}
	want := map[string]float64{"oracle": 1, "nop": 0, "lazy": 0}
	for _, trial := range tree.Trials {
		if trial.Error != nil || trial.Reward == nil || *trial.Reward != want[trial.Key.Agent] {
			t.Errorf("%s: reward %v, error %+v; want %v", trial.Key, trial.Reward, trial.Error, want[trial.Key.Agent])
		}
	}
}

func TestProofOfTaskWithServer(t *testing.T) {
	r := start(t, servingDir(t), "validate", "--run", "job.yaml", "--n-concurrent", "6")
	if code := r.exit(t); code != 0 || !strings.Contains(r.output.String(), "1 of 1 proven") || strings.Contains(r.output.String(), "trivial") {
		t.Errorf("exit code %d, want 0 and the task proven", code)
	}
}
