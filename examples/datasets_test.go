package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/test/testenv"
)

// What a proof runs of each task.
// A change proves each task once on each provider; the nightly run proves it as users do.
var oracleRuns, nopRuns = testenv.Times(1, 3), 1

// proof is the report of rollout validate --run --report-json.
type proof struct {
	Outcome  string         `json:"outcome"`
	Verdicts map[string]int `json:"verdicts"`
	Tasks    []struct {
		Name     string     `json:"task_name"`
		Verdict  string     `json:"verdict"`
		Oracle   []proofRun `json:"oracle"`
		Nop      []proofRun `json:"nop"`
		Findings []struct {
			Rule    string `json:"rule"`
			Message string `json:"message"`
			Ignored string `json:"ignored"` // the reason
		} `json:"findings"`
	} `json:"tasks"`
}

type proofRun struct {
	Reward *float64 `json:"reward"`
}

// hasty holds the rewards of the scripted agent of datasets/job.yaml; 0 on every other task.
var hasty = map[string]float64{"break-in": 0.1667, "proxy-mended": 0.1429}

// TestDatasetsAreListed keeps the registry and the table of tasks in step with the directories.
func TestDatasetsAreListed(t *testing.T) {
	var registry []struct {
		Tasks []struct {
			Name string `json:"name"`
			Path string `json:"path"`
		} `json:"tasks"`
	}
	readJSON(t, "datasets/registry.json", &registry)
	if len(registry) != 1 {
		t.Fatalf("the registry has %d datasets", len(registry))
	}
	var listed []string
	for _, task := range registry[0].Tasks {
		listed = append(listed, task.Name)
		same(t, "the path of "+task.Name, task.Path, "core/"+task.Name)
	}
	var inTable []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z-]+-[a-z-]+|[a-z]+) \|`).FindAllStringSubmatch(read(t, "datasets/README.md"), -1) {
		inTable = append(inTable, row[1])
	}
	tasks := names(t, "datasets/core")
	same(t, "the tasks of the registry", listed, tasks)
	same(t, "the tasks of the table", inTable, append([]string{"task"}, tasks...))
	for _, task := range names(t, "datasets/cheats") {
		if !slices.Contains(tasks, task) {
			t.Errorf("datasets/cheats has %s, which is no task", task)
		}
	}
}

// TestDatasets proves the tasks of datasets/core with the real binary, on each provider that they
// are meant for. On the sandbox it also tries the cheats and runs the job that takes the dataset
// from a registry. Images are built with Debian's packages, once on each.
func TestDatasets(t *testing.T) {
	if !slices.Contains(strings.Split(os.Getenv("ROLLOUT_TEST_REQUIRE"), ","), "datasets") {
		t.Skip("takes minutes, and builds images with packages of Debian's mirror; ROLLOUT_TEST_REQUIRE=datasets has it run, as CI does")
	}
	tasks := names(t, "datasets/core")
	if len(tasks) < 12 {
		t.Fatalf("there are only %d tasks: %q", len(tasks), tasks)
	}
	binary := build(t)
	for _, name := range sortedKeys(providers) {
		t.Run(name, func(t *testing.T) {
			r := runner{dir: t.TempDir(), binary: binary, provider: providers[name]}
			r.env = r.provider.prepare(t, r.dir)
			args := append([]string{"--env-type", name}, images(name)...)
			t.Run("every task is proven", func(t *testing.T) { prove(t, r, tasks, args) })
			if name == "sandbox" {
				t.Run("the job comes out as expected", func(t *testing.T) { runDataset(t, r, tasks, args) })
				t.Run("cheats", func(t *testing.T) { tryCheats(t, r, args) })
			}
		})
	}
}

// images returns the flags that make a provider use exactly the base image of the tasks.
func images(provider string) []string {
	if provider != "sandbox" {
		return nil
	}
	args := []string{"--set", "environment.provider_config.base=image"}
	if archive := testenv.ImageArchive(); archive != "" {
		args = append(args, "--set", fmt.Sprintf("environment.provider_config.images=[%q]", archive))
	}
	return args
}

// at returns a path below this directory, for a binary that runs elsewhere.
func at(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func prove(t *testing.T, r runner, tasks, args []string) {
	name := fmt.Sprintf("example-proof-%d", os.Getpid())
	r.run(t, append([]string{"validate", "--run", at(t, "datasets/core"), "--name", name, "--report-json", "proof.json",
		"--runs", strconv.Itoa(oracleRuns), "--nop-runs", strconv.Itoa(nopRuns), "--log-format", "plain"}, args...)...)
	same(t, "environments that are left", r.provider.left(t, r.dir, name), []string{})

	var got proof
	readJSON(t, filepath.Join(r.dir, "proof.json"), &got)
	same(t, "the outcome", got.Outcome, "passed")
	same(t, "the number of proven tasks", got.Verdicts["proven"], len(tasks))
	var proven []string
	for _, task := range got.Tasks {
		proven = append(proven, task.Name)
		same(t, task.Name+": the verdict", task.Verdict, "proven")
		same(t, task.Name+": oracle", rewards(task.Oracle), slices.Repeat([]float64{1}, oracleRuns))
		same(t, task.Name+": nop", rewards(task.Nop), slices.Repeat([]float64{0}, nopRuns))
		for _, finding := range task.Findings {
			if finding.Ignored == "" {
				t.Errorf("%s: %s: %s", task.Name, finding.Rule, finding.Message)
			}
		}
	}
	same(t, "the tasks of the proof", proven, tasks)
}

// rewards returns the rewards of runs, with -1 for a run without one.
func rewards(runs []proofRun) []float64 {
	all := []float64{}
	for _, run := range runs {
		if run.Reward == nil {
			all = append(all, -1)
			continue
		}
		all = append(all, *run.Reward)
	}
	return all
}

func runDataset(t *testing.T, r runner, tasks, args []string) {
	r.job = at(t, "datasets/job.yaml")
	dir, _ := r.start(t, "dataset", args...)
	want := expected{Dataset: "core", Attempts: 1, Rewards: map[string]map[string]float64{"oracle": {}, "nop": {}, "hasty": {}}}
	for _, task := range tasks {
		want.Rewards["oracle"][task], want.Rewards["nop"][task], want.Rewards["hasty"][task] = 1, 0, hasty[task]
	}
	checkNumbers(t, filepath.Join(r.dir, dir), want)
}

var atMost = regexp.MustCompile(`(?m)^# at most: ([0-9.]+)$`)

// tryCheats runs each datasets/cheats/TASK/NAME.sh as an agent. Its first line states the maximum
// reward.
func tryCheats(t *testing.T, r runner, args []string) {
	cheats, err := filepath.Glob("datasets/cheats/*/*.sh")
	if err != nil || len(cheats) < 12 {
		t.Fatalf("there are %d cheats (%v)", len(cheats), err)
	}
	for _, cheat := range cheats {
		task := filepath.Base(filepath.Dir(cheat))
		name := strings.TrimSuffix(filepath.Base(cheat), ".sh")
		t.Run(task+" "+name, func(t *testing.T) {
			script := read(t, cheat)
			bound := atMost.FindStringSubmatch(script)
			if bound == nil {
				t.Fatalf("%s does not say how much it may earn", cheat)
			}
			limit, err := strconv.ParseFloat(bound[1], 64)
			if err != nil || limit >= 1 {
				t.Fatalf("%s may earn %s (%v)", cheat, bound[1], err)
			}
			if got := earns(t, r, task, name, script, args); got > limit {
				t.Errorf("it earned %v, more than %v: %s", got, limit, task)
			}
		})
	}
}

// earns returns the reward of an agent that executes the script on a task. It must get one: a
// script that fails proves nothing.
func earns(t *testing.T, r runner, task, name, script string, args []string) float64 {
	t.Helper()
	job, err := yaml.Marshal(map[string]any{
		"agents": []any{map[string]any{"name": "cheat", "execute": script}},
		"tasks":  []any{at(t, filepath.Join("datasets/core", task))},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.job = filepath.Join(r.dir, task+"-"+name+".yaml")
	if err := os.WriteFile(r.job, job, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, _ := r.start(t, task+"-"+name, args...)
	var got jobResult
	readJSON(t, filepath.Join(r.dir, dir, "result.json"), &got)
	if len(got.Results) != 1 || got.Results[0].Reward == nil {
		t.Fatalf("there is no reward: %+v", got.Results)
	}
	return *got.Results[0].Reward
}
