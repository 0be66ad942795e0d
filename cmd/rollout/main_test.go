//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/testenv"
	"github.com/org/rollout-action/providers/docker"
)

// binary is the real thing, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rollout-binary-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "rollout")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// job is a folder with a job file whose single agent reports that it runs, detaches a child and never
// ends. What it starts can be told by its trial's label.
type job struct {
	dir  string
	name string
}

func hangingJob(t *testing.T, provider string, attempts int) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: fmt.Sprintf("hang-%d-%d", os.Getpid(), time.Now().UnixNano())}
	for name, text := range map[string]string{
		"job.yaml": fmt.Sprintf(`
name: %s
n_attempts: %d
n_concurrent_trials: 8
environment:
  type: %s
agents:
  - name: hanger
    execute: |
      echo working
      setsid nohup sleep 3600 &
      sleep 3600
datasets:
  - path: evals
`, j.name, attempts, provider),
		"evals/hang/task.toml":      "version = \"1.0\"\n[agent]\ntimeout_sec = 3600\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
		"evals/hang/instruction.md": "Wait.\n",
		"evals/hang/tests/test.sh":  "echo 1 > /logs/verifier/reward.txt\n",
	} {
		path := filepath.Join(j.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return j
}

// run is a started rollout.
type run struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
}

func start(t *testing.T, dir string, args ...string) *run {
	t.Helper()
	r := &run{cmd: exec.Command(binary, args...), output: &bytes.Buffer{}}
	r.cmd.Dir = dir
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	must(t, r.cmd.Start())
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("rollout %s:\n%s", strings.Join(args, " "), r.output)
		}
	})
	return r
}

// exit waits for the end and returns the exit code; -1 if a signal ended it.
func (r *run) exit(t *testing.T) int {
	t.Helper()
	var failed *exec.ExitError
	if err := r.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return r.cmd.ProcessState.ExitCode()
}

// waitRunning returns when n agents have begun, as their captured output tells.
func (j job) waitRunning(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		running := 0
		files, _ := filepath.Glob(filepath.Join(j.dir, "jobs", j.name, "hanger/evals/*/command/stdout.txt"))
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "working") {
				running++
			}
		}
		if running >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after two minutes %d of %d agents run", running, n)
		}
		time.Sleep(20 * time.Millisecond) // polls a file
	}
}

func (j job) result(t *testing.T) result.Job {
	t.Helper()
	var res result.Job
	data, err := os.ReadFile(filepath.Join(j.dir, "jobs", j.name, result.ResultFile))
	must(t, err)
	must(t, json.Unmarshal(data, &res))
	return res
}

// containers are the engine's containers of this job, alive or not.
func (j job) containers(t *testing.T) int {
	t.Helper()
	p, err := docker.New(context.Background(), nil)
	must(t, err)
	defer p.Close()
	listed, err := p.List(context.Background())
	must(t, err)
	n := 0
	for _, l := range listed {
		if l.Labels.Job == j.name {
			n++
		}
	}
	return n
}

// providersHere are the providers that the tests of this file run on.
func providersHere(t *testing.T, test func(t *testing.T, provider string)) {
	t.Run("docker", func(t *testing.T) {
		testenv.NeedDocker(t)
		test(t, "docker")
	})
	t.Run("fake", func(t *testing.T) { test(t, "fake") })
}

func TestASignalStopsTheJobInGoodOrder(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			providersHere(t, func(t *testing.T, provider string) {
				j := hangingJob(t, provider, 10)
				r := start(t, j.dir, "job.yaml")
				j.waitRunning(t, 8)
				begin := time.Now()
				must(t, r.cmd.Process.Signal(signal))
				code := r.exit(t)
				took := time.Since(begin)

				if code != 130 {
					t.Errorf("exit code %d, want 130", code)
				}
				if took > 5*time.Second { // a promise to users, kept by timers of our own
					t.Errorf("it took %s", took)
				}
				res := j.result(t)
				if !res.Cancelled || res.TotalTrials != 10 || res.Errors[result.Cancelled] != 8 || res.SkippedTrials != 2 || len(res.Skipped) != 2 {
					t.Errorf("result.json says %+v, errors %v", res.Summary, res.Errors)
				}
				tree, err := result.ReadTree(filepath.Join(j.dir, "jobs", j.name))
				must(t, err)
				if len(tree.Trials) != 8 || len(tree.Unreadable) != 0 {
					t.Errorf("%d trials on disk, unreadable: %v", len(tree.Trials), tree.Unreadable)
				}
				if provider == "docker" && j.containers(t) != 0 {
					t.Errorf("%d containers are left", j.containers(t))
				}
			})
		})
	}
}

func TestAReaderThatIsGoneDoesNotKeepTheCleanUpFromHappening(t *testing.T) {
	providersHere(t, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 4)
		reader, writer, err := os.Pipe()
		must(t, err)
		cmd := exec.Command(binary, "job.yaml")
		cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, writer, writer
		must(t, cmd.Start())
		must(t, writer.Close())
		j.waitRunning(t, 4)
		must(t, reader.Close())
		must(t, cmd.Process.Signal(os.Interrupt))
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("it ended with %s, want exit code 130", cmd.ProcessState)
		}
		if res := j.result(t); !res.Cancelled || res.Errors[result.Cancelled] != 4 {
			t.Errorf("result.json says %+v, errors %v", res.Summary, res.Errors)
		}
		if provider == "docker" && j.containers(t) != 0 {
			t.Errorf("%d containers are left", j.containers(t))
		}
	})
}

func TestASecondSignalSkipsTheCleanUp(t *testing.T) {
	providersHere(t, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 8)
		r := start(t, j.dir, "job.yaml")
		j.waitRunning(t, 8)
		must(t, r.cmd.Process.Signal(os.Interrupt))
		must(t, r.cmd.Process.Signal(syscall.SIGTERM))
		if code := r.exit(t); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		if res := j.result(t); !res.Cancelled || res.Errors[result.Cancelled]+res.SkippedTrials != 8 {
			t.Errorf("result.json says %+v, errors %v", res.Summary, res.Errors)
		}
		if provider == "docker" {
			clean(t)
			if n := j.containers(t); n != 0 {
				t.Errorf("%d containers are left after rollout clean", n)
			}
		}
	})
}

func clean(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(binary, "clean").CombinedOutput(); err != nil {
		t.Errorf("rollout clean: %v\n%s", err, out)
	}
}

func TestWhatAKilledRunLeavesIsRemovedAndALiveRunIsNot(t *testing.T) {
	testenv.NeedDocker(t)
	killed, alive := hangingJob(t, "docker", 3), hangingJob(t, "docker", 2)
	r, a := start(t, killed.dir, "job.yaml"), start(t, alive.dir, "job.yaml")
	killed.waitRunning(t, 3)
	alive.waitRunning(t, 2)
	must(t, r.cmd.Process.Kill())
	r.exit(t)
	if n := killed.containers(t); n != 3 {
		t.Fatalf("%d containers are left by the killed run, want 3", n)
	}

	report := start(t, killed.dir, "report", filepath.Join("jobs", killed.name))
	if code := report.exit(t); code != 1 || !strings.Contains(report.output.String(), "incomplete") {
		t.Errorf("report ends with %d and says:\n%s", code, report.output)
	}
	clean(t)
	if n := killed.containers(t); n != 0 {
		t.Errorf("%d containers of the killed run are left", n)
	}
	if n := alive.containers(t); n != 2 {
		t.Errorf("%d containers of the live run are left, want 2", n)
	}
	must(t, a.cmd.Process.Signal(os.Interrupt))
	if code := a.exit(t); code != 130 {
		t.Errorf("the live run ends with %d, want 130", code)
	}
}

func TestTheNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	testenv.NeedDocker(t)
	killed, next := hangingJob(t, "docker", 2), hangingJob(t, "docker", 1)
	r := start(t, killed.dir, "job.yaml")
	killed.waitRunning(t, 2)
	must(t, r.cmd.Process.Kill())
	r.exit(t)
	if code := start(t, next.dir, "job.yaml", "--set", "agents=[{name: nop}]").exit(t); code != 0 {
		t.Errorf("the next run ends with %d", code)
	}
	if n := killed.containers(t); n != 0 {
		t.Errorf("%d containers of the killed run are left", n)
	}
}

func TestOnAFullDiskNoRewardIsLost(t *testing.T) {
	testenv.NeedRoot(t, "to mount a small file system")
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=400k"); err != nil {
		testenv.Lacks(t, "docker", "the right to mount a small file system: "+err.Error())
	}
	defer func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) }()
	j := hangingJob(t, "fake", 200)
	r := start(t, j.dir, "job.yaml", "--jobs-dir", small, "--set", "agents=[{name: a, execute: echo hi}]")
	if code := r.exit(t); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if !strings.Contains(r.output.String(), "no space left on device") || !strings.Contains(r.output.String(), "(reward 1)") {
		t.Error("the output names neither the cause nor the reward that could not be written")
	}
	tree, err := result.ReadTree(filepath.Join(small, j.name))
	must(t, err)
	if len(tree.Trials) == 0 || len(tree.Trials) == 200 {
		t.Errorf("%d trials on disk: the disk was too small or too large for this test", len(tree.Trials))
	}
	if len(tree.Unreadable) != 0 {
		t.Errorf("torn results: %v", tree.Unreadable)
	}
	for _, trial := range tree.Trials {
		if trial.Reward == nil && trial.Error.Type != result.Cancelled {
			t.Errorf("%s on disk has no reward: %v", trial.Key, trial.Error)
		}
	}
}

func TestAJobsFolderThatCannotBeMadeIsSaid(t *testing.T) {
	j := hangingJob(t, "fake", 1)
	must(t, os.WriteFile(filepath.Join(j.dir, "file"), nil, 0o644))
	r := start(t, j.dir, "job.yaml", "--jobs-dir", "file")
	if code := r.exit(t); code != 3 || !strings.Contains(r.output.String(), "make the job's folder") {
		t.Errorf("exit code %d, output:\n%s", code, r.output)
	}
}

func TestNoEngineIsSaidBeforeAnythingIsStarted(t *testing.T) {
	j := hangingJob(t, "docker", 1)
	r := &run{cmd: exec.Command(binary, "job.yaml"), output: &bytes.Buffer{}}
	r.cmd.Dir = j.dir
	r.cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+filepath.Join(j.dir, "no.sock"))
	r.cmd.Stdout, r.cmd.Stderr = io.Discard, r.output
	must(t, r.cmd.Start())
	if code := r.exit(t); code != 3 || !strings.Contains(r.output.String(), "start Docker") {
		t.Errorf("exit code %d, output:\n%s", code, r.output)
	}
	if _, err := os.Stat(filepath.Join(j.dir, "jobs")); err == nil {
		t.Error("a folder was made")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
