package examples

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/test/testenv"
)

// trialOutcome is what both programs say about a trial.
type trialOutcome struct {
	Rewards map[string]float64 // empty if there is none
	Failed  bool               // the trial or one of its steps has an error
	Steps   []stepOutcome
}

type stepOutcome struct {
	Name    string
	Rewards map[string]float64
	Failed  bool
}

// TestBesideHarbor runs the tasks of testdata/harbor with Harbor and with Rollout, whose job file
// is imported from Harbor's, with an agent that solves them and one that does nothing. Both have to
// come to the outcome that the task's file names.
func TestBesideHarbor(t *testing.T) {
	r := besideRunner(t, "job.yaml")
	tasks := filepath.Join(r.dir, "tasks")
	want := besideTasks(t, "testdata/harbor", tasks)
	theirJob := filepath.Join(r.dir, "harbor.yaml")
	writeText(t, theirJob, fmt.Sprintf("job_name: beside\njobs_dir: %s\nn_concurrent_trials: 4\nenvironment: {type: docker, delete: true}\n"+
		"agents: [{name: oracle}, {name: nop}]\ndatasets: [{path: %s}]\n", filepath.Join(r.dir, "harbor"), tasks))
	inContainer(t, r.dir, "harbor==0.26.0", "harbor run --yes --config "+theirJob)
	r.run(t, "import", "harbor", theirJob, "--output", r.job)
	compareTrials(t, r, runBeside(t, r, "docker"), want, outcomesOfHarbor(t, filepath.Join(r.dir, "harbor/beside")))
}

// TestHarborTasks runs the tasks of testdata/harbor that need one container in sandboxes. They come
// to the same as with Harbor.
func TestHarborTasks(t *testing.T) {
	testenv.Long(t, "runs forty trials")
	if testenv.ImageArchive() == "" {
		t.Skip("needs ROLLOUT_TEST_IMAGE_ARCHIVE")
	}
	dir := t.TempDir()
	r := runner{dir: dir, job: filepath.Join(dir, "tasks"), provider: providers["sandbox"], env: providers["sandbox"].prepare(t, dir), binary: build(t)}
	want := besideTasks(t, "testdata/harbor", r.job)
	for name := range want {
		if strings.Contains(name, "services") {
			removeTask(t, r.job, name)
		}
	}
	compareTrials(t, r, runBeside(t, r, "sandbox", append(images("sandbox"), "--task-format", "harbor")...), want, nil)
}

// TestKubernetesHarborTasks runs the tasks of testdata/harbor as pods; for a change only those with
// services or steps. They come to the same as with Harbor.
func TestKubernetesHarborTasks(t *testing.T) {
	k := newKube(t)
	dir := t.TempDir()
	r := runner{dir: dir, job: filepath.Join(dir, "tasks"), binary: released(t)}
	r.env = []string{"KUBECONFIG=" + testenv.Kubeconfig(t)}
	r.provider.left = func(t *testing.T, _, _ string) []string { return k.trials(t) }
	want := besideTasks(t, "testdata/harbor", r.job)
	for name := range want {
		if testenv.Times(1, 2) == 1 && !strings.Contains(name, "services") && !strings.HasPrefix(name, "steps-") {
			removeTask(t, r.job, name)
		}
		for _, file := range []string{"environment/docker-compose.yaml", "tests/docker-compose.yaml"} {
			file = filepath.Join(r.job, name, file)
			if text, err := os.ReadFile(file); err == nil {
				own := testenv.Registry(t) + "/" + testenv.Image
				writeText(t, file, strings.ReplaceAll(string(text), testenv.Image, own))
			}
		}
	}
	job := runBeside(t, r, "kubernetes", "--task-format", "harbor", "--set", "environment.provider_config.namespace="+k.namespace,
		"--set", "environment.provider_config.registry="+k.registry, "--set", "environment.provider_config.builder=docker")
	compareTrials(t, r, job, want, nil)
}

// TestBesideTerminalBench runs the tasks of testdata/terminal-bench with the program of
// terminal-bench 1 and with Rollout, as TestBesideHarbor does with Harbor.
func TestBesideTerminalBench(t *testing.T) {
	r := besideRunner(t, "tasks")
	want := besideTasks(t, "testdata/terminal-bench", r.job)
	script := ""
	for _, agent := range besideAgents {
		script += fmt.Sprintf("tb run --dataset-path %s --agent %s --run-id %[2]s --output-path theirs --n-concurrent 4 --n-attempts 1\n", r.job, agent)
	}
	inContainer(t, r.dir, "terminal-bench==0.2.18", script)
	theirs := map[string]trialOutcome{}
	for _, agent := range besideAgents {
		var results struct {
			Results []struct {
				Task     string `json:"task_id"`
				Resolved *bool  `json:"is_resolved"`
				Failure  string `json:"failure_mode"`
			} `json:"results"`
		}
		readJSON(t, filepath.Join(r.dir, "theirs", agent, "results.json"), &results)
		for _, trial := range results.Results {
			var rewards map[string]float64
			if trial.Resolved != nil {
				rewards = map[string]float64{"reward": 0}
				if *trial.Resolved {
					rewards["reward"] = 1
				}
			}
			theirs[trial.Task+"/"+agent] = trialOutcome{Rewards: rewards, Failed: trial.Failure != "none" && trial.Failure != "unset"}
		}
	}
	compareTrials(t, r, runBeside(t, r, "docker"), want, theirs)
}

// besideAgents are the agents that other programs have, too.
var besideAgents = []string{"nop", "oracle"}

// besideRunner returns a runner for a job file or a directory of tasks that are to be made.
func besideRunner(t *testing.T, job string) runner {
	t.Helper()
	if !testenv.Requires("beside") {
		t.Skip("takes minutes and needs the registry of PyPI: ROLLOUT_TEST_REQUIRE=beside,docker,trixie")
	}
	provider, dir := providers["docker"], t.TempDir()
	return runner{dir: dir, job: filepath.Join(dir, job), provider: provider, env: provider.prepare(t, dir), binary: build(t)}
}

// runBeside runs the job and returns its directory.
func runBeside(t *testing.T, r runner, provider string, args ...string) string {
	t.Helper()
	args = append(args, "--min-pass-rate", "0", "--max-failed-trials", "-1", "--env-type", provider, "--jobs-dir", filepath.Join(r.dir, "jobs"))
	for _, agent := range besideAgents {
		args = append(args, "--agent", agent)
	}
	job, _ := r.start(t, "beside", args...)
	return job
}

// compareTrials compares the trials of a job with what is wanted, and those of another program, if
// there is one.
func compareTrials(t *testing.T, r runner, job string, want map[string]wanted, theirs map[string]trialOutcome) {
	t.Helper()
	tasks := names(t, filepath.Join(r.dir, "tasks"))
	if len(tasks) == 0 {
		t.Fatal("there are no tasks")
	}
	for _, name := range tasks {
		for _, agent := range besideAgents {
			t.Run(name+"/"+agent, func(t *testing.T) {
				trial := filepath.Join(r.dir, job, agent, "tasks", name+"__1/result.json")
				ours := readOutcome(t, trial)
				if theirs != nil {
					same(t, "the outcome, and the other program's", ours, theirs[name+"/"+agent])
				}
				if want, ok := want[name]; ok {
					same(t, "the rewards", ours.Rewards, some(want.rewards[agent]))
					same(t, "whether it failed", ours.Failed, slices.Contains(want.Fails, agent))
					same(t, "the steps", describeSteps(ours.Steps), want.Steps[agent])
				}
				if t.Failed() {
					t.Logf("%s", read(t, trial))
				}
			})
		}
	}
}

// wanted is what a task of testdata/harbor comes to: the rewards and steps (see describeSteps) of
// each agent, and the agents whose trials have an error.
type wanted struct {
	Fails   []string
	Steps   map[string]string
	rewards map[string]map[string]float64
}

// describeSteps returns "first reward=1 style=0.5, second failed".
func describeSteps(steps []stepOutcome) string {
	var all []string
	for _, s := range steps {
		text := s.Name
		for _, name := range slices.Sorted(maps.Keys(s.Rewards)) {
			text += fmt.Sprintf(" %s=%v", name, s.Rewards[name])
		}
		if s.Failed {
			text += " failed"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// besideTasks writes the tasks of a directory of archives to another directory, and returns what
// each comes to. The tasks in the directory ROLLOUT_TEST_BESIDE take their place, if it is given:
// they may come to anything on which both programs agree.
func besideTasks(t *testing.T, from, dir string) map[string]wanted {
	t.Helper()
	if others := os.Getenv("ROLLOUT_TEST_BESIDE"); others != "" {
		if err := os.CopyFS(dir, os.DirFS(others)); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	files, err := filepath.Glob(filepath.Join(from, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tasks: %v", err)
	}
	all := map[string]wanted{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := txtar.Write(archive, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, comes, _ := strings.Cut(string(archive.Comment), "\n\n")
		all[name] = wantedOf(t, comes)
	}
	return all
}

func removeTask(t *testing.T, tasks, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(tasks, name)); err != nil {
		t.Fatal(err)
	}
}

// some returns nil for no rewards.
func some(rewards map[string]float64) map[string]float64 {
	if len(rewards) == 0 {
		return nil
	}
	return rewards
}

func wantedOf(t *testing.T, text string) wanted {
	t.Helper()
	var read struct {
		Oracle, Nop map[string]float64
		Fails       []string
		Steps       map[string]string
	}
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	return wanted{read.Fails, read.Steps, map[string]map[string]float64{"oracle": read.Oracle, "nop": read.Nop}}
}

// inContainer installs a package of PyPI in a container that may use the engine and dir, and runs a
// script there. Both programs remove the images of a task's services in the end: the one that other
// tests use stays because a container of it exists.
func inContainer(t *testing.T, dir, requirement, script string) {
	t.Helper()
	trusted(t, dir)
	file := filepath.Join(dir, "install.sh")
	writeText(t, file, `set -e
mkdir -p /etc/ssl/certs
cp "$1/ca.crt" /etc/ssl/certs/ca-certificates.crt
apt-get update -qq
apt-get install -qq -y --no-install-recommends ca-certificates docker-cli docker-compose docker-buildx python3-venv git > /dev/null
cp "$1/ca.crt" /etc/ssl/certs/ca-certificates.crt
python3 -m venv /installed
/installed/bin/pip install --quiet --disable-pip-version-check "$2"
PATH=/installed/bin:$PATH
`+script)
	name := fmt.Sprintf("rollout-peer-%d", time.Now().UnixNano())
	keeps := name + "-image"
	if output, err := exec.CommandContext(t.Context(), "docker", "create", "--name", keeps, testenv.Image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	t.Cleanup(func() {
		if output, err := exec.Command("docker", "rm", "--force", name, keeps).CombinedOutput(); err != nil && !strings.Contains(string(output), "No such container") {
			t.Errorf("%v: %s", err, output)
		}
	})
	cmd := exec.CommandContext(t.Context(), "docker", "run", "--name", name, "--network", "host", "-v", "/var/run/docker.sock:/var/run/docker.sock", "-v", dir+":"+dir, "-w", dir,
		"-e", "DEBIAN_FRONTEND=noninteractive", "-e", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt", "-e", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
		"debian:trixie", "bash", file, dir, requirement)
	output, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", script, output)
	if err != nil {
		t.Fatal(err)
	}
}

// outcomesOfHarbor returns the outcomes of a job of Harbor by task and agent, TASK/AGENT.
func outcomesOfHarbor(t *testing.T, job string) map[string]trialOutcome {
	t.Helper()
	type graded struct {
		Verifier *struct {
			Rewards map[string]float64 `json:"rewards"`
		} `json:"verifier_result"`
		Exception *struct{} `json:"exception_info"`
		Step      string    `json:"step_name"`
	}
	rewards := func(g graded) map[string]float64 {
		if g.Verifier == nil {
			return nil
		}
		return some(g.Verifier.Rewards)
	}
	files, err := filepath.Glob(filepath.Join(job, "*/result.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("Harbor left no trials in %s: %v", job, err)
	}
	all := map[string]trialOutcome{}
	for _, file := range files {
		var trial struct {
			graded
			Task  struct{ Path string } `json:"task_id"`
			Agent struct{ Name string } `json:"agent_info"`
			Steps []graded              `json:"step_results"`
		}
		readJSON(t, file, &trial)
		o := trialOutcome{Rewards: rewards(trial.graded), Failed: trial.Exception != nil}
		for _, s := range trial.Steps {
			o.Steps = append(o.Steps, stepOutcome{s.Step, rewards(s), s.Exception != nil})
			o.Failed = o.Failed || s.Exception != nil
		}
		all[filepath.Base(trial.Task.Path)+"/"+trial.Agent.Name] = o
	}
	return all
}

// readOutcome returns the outcome in a result.json of Rollout.
func readOutcome(t *testing.T, file string) trialOutcome {
	t.Helper()
	type graded struct {
		Name    string             `json:"name"`
		Reward  *float64           `json:"reward"`
		Rewards map[string]float64 `json:"rewards"`
		Error   *struct{}          `json:"error"`
	}
	rewards := func(g graded) map[string]float64 {
		if g.Reward != nil && len(g.Rewards) == 0 {
			return map[string]float64{"reward": *g.Reward}
		}
		return some(g.Rewards)
	}
	var trial struct {
		graded
		Steps []graded `json:"steps"`
	}
	readJSON(t, file, &trial)
	o := trialOutcome{Rewards: rewards(trial.graded), Failed: trial.Error != nil}
	for _, s := range trial.Steps {
		o.Steps = append(o.Steps, stepOutcome{s.Name, rewards(s), s.Error != nil})
	}
	return o
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
