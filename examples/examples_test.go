package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// expected is an example's expected.json: the reward of every agent on every task, in each attempt.
type expected struct {
	Needs    string                        `json:"needs"` // a provider
	Dataset  string                        `json:"dataset"`
	Attempts int                           `json:"attempts"`
	Installs []string                      `json:"installs"` // agents with an install script
	Rewards  map[string]map[string]float64 `json:"rewards"`
	Costs    map[string]float64            `json:"costs"`  // of one trial, in US dollars, of the agents with a model
	Judges   []string                      `json:"judges"` // of each trial
	// Ranks are the scores of judges of groups, by agent. Their files are in the first agent's
	// trial.
	Ranks   map[string]map[string]float64 `json:"ranks"`
	Judging map[string]float64            `json:"judging"` // cost of the judges of one trial, in US dollars, by agent
}

// TestExamples runs every directory with a job.yaml as a user would. TestDatasets runs those in
// datasets.
func TestExamples(t *testing.T) {
	jobs, err := filepath.Glob("*/job.yaml")
	jobs = slices.DeleteFunc(jobs, func(job string) bool { return filepath.Dir(job) == "datasets" })
	if err != nil || len(jobs) == 0 {
		t.Fatalf("there are no examples: %v", err)
	}
	for _, job := range jobs {
		t.Run(filepath.Dir(job), func(t *testing.T) {
			var want expected
			readJSON(t, filepath.Join(filepath.Dir(job), "expected.json"), &want)
			provider, ok := providers[want.Needs]
			if !ok {
				t.Fatalf("expected.json needs %q, not one of %q", want.Needs, sortedKeys(providers))
			}
			abs, err := filepath.Abs(job)
			if err != nil {
				t.Fatal(err)
			}
			r := runner{dir: t.TempDir(), job: abs, provider: provider}
			r.env = provider.prepare(t, r.dir)
			r.binary = build(t)
			t.Run("comes out as expected", func(t *testing.T) { checkRun(t, r, want) })
			t.Run("is not solved by doing nothing", func(t *testing.T) { checkNop(t, r, want) })
		})
	}
}

// runner runs the binary in a directory of the test.
type runner struct {
	binary, dir, job string
	provider         needs
	env              []string // in addition to the test's own
}

// run returns the stdout of the binary, which must end with exit code 0.
func (r runner) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(r.binary, args...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), r.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Logf("rollout %s\n%s%s", strings.Join(args, " "), &stderr, &stdout)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("exit code %d, want 0", exit.ExitCode())
	}
	if err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

// start runs the job under the given name and returns its directory.
func (r runner) start(t *testing.T, name string, args ...string) (dir, stdout string) {
	t.Helper()
	name = fmt.Sprintf("example-%s-%d", name, os.Getpid())
	stdout = r.run(t, append([]string{r.job, "--name", name}, args...)...)
	same(t, "environments that are left", r.provider.left(t, r.dir, name), []string{})
	return filepath.Join("jobs", name), stdout
}

func checkRun(t *testing.T, r runner, want expected) {
	r.run(t, "validate", r.job)
	dir, stdout := r.start(t, "run")

	checkTree(t, filepath.Join(r.dir, dir), want)
	checkNumbers(t, filepath.Join(r.dir, dir), want)
	if again := r.run(t, "report", dir); again != stdout {
		t.Errorf("rollout report prints another summary:\n%s\nthan the run:\n%s", again, stdout)
	}
}

// checkNop runs the job with the agent that does nothing: a task that gives it a reward is broken.
func checkNop(t *testing.T, r runner, want expected) {
	dir, _ := r.start(t, "nop", "--agent", "nop", "--n-attempts", "1", "--min-pass-rate", "0") // the gate does not apply to this agent
	nothing := map[string]float64{}
	for task := range want.Rewards["oracle"] {
		nothing[task] = 0
	}
	checkNumbers(t, filepath.Join(r.dir, dir), expected{
		Dataset: want.Dataset, Attempts: 1, Rewards: map[string]map[string]float64{"nop": nothing},
	})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
