//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// engine is a separate Docker engine of the test, which can be restarted without disturbing other
// tests.
type engine struct {
	t    *testing.T
	dir  string
	host string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func startEngine(t *testing.T) *engine {
	t.Helper()
	e := newEngine(t)
	e.start()
	return e
}

// newEngine returns an engine that has not been started. It is stopped at the end of the test.
func newEngine(t *testing.T) *engine {
	t.Helper()
	testenv.NeedDocker(t)
	testenv.NeedRoot(t, "to start a Docker engine of its own")
	if _, err := exec.LookPath("dockerd"); err != nil {
		testenv.Lacks(t, "docker", "dockerd: "+err.Error())
	}
	// Not t.TempDir: a socket's path must be short, and mounts may outlive the test briefly.
	dir, err := os.MkdirTemp("", "engine-")
	must(t, err)
	e := &engine{t: t, dir: dir, host: "unix://" + filepath.Join(dir, "sock")}
	t.Cleanup(func() {
		if e.cmd != nil {
			e.stop()
		}
		unmountBelow(t, dir)
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("dockerd:\n%s", tail(e.log.String(), 4000))
		}
	})
	return e
}

// unmountBelow unmounts the leftovers of an engine that went down.
func unmountBelow(t *testing.T, dir string) {
	table, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], dir+"/") {
			if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("unmount %s: %v", fields[1], err)
			}
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (e *engine) start() {
	e.t.Helper()
	e.cmd = exec.Command("dockerd", "--host", e.host, "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"),
		"--bridge", "none", "--iptables=false")
	// In a separate network namespace: with --bridge none, dockerd removes the machine's docker0.
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	must(e.t, e.cmd.Start())
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if _, err := e.client().Ping(e.t.Context()); err == nil {
			return
		} else if time.Now().After(deadline) {
			e.t.Fatalf("the engine does not answer: %v", err)
		}
		time.Sleep(50 * time.Millisecond) // polls
	}
}

func (e *engine) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	_ = e.cmd.Wait()
}

func (e *engine) client() *client.Client {
	c, err := client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation())
	must(e.t, err)
	return c
}

// takeImage copies the tests' image from the machine's engine.
func (e *engine) takeImage() {
	e.t.Helper()
	from, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must(e.t, err)
	defer from.Close()
	archive, err := from.ImageSave(context.Background(), []string{testenv.Image})
	must(e.t, err)
	defer archive.Close()
	loaded, err := e.client().ImageLoad(context.Background(), archive)
	must(e.t, err)
	defer loaded.Body.Close()
	_, err = io.Copy(io.Discard, loaded.Body)
	must(e.t, err)
}

func TestEngineRestart(t *testing.T) {
	e := startEngine(t)
	e.takeImage()
	j := hangingJob(t, "docker", 1)
	job := filepath.Join(j.dir, "job.yaml")
	text, err := os.ReadFile(job)
	must(t, err)
	before, after, _ := strings.Cut(string(text), "agents:\n")
	must(t, os.WriteFile(job, []byte(before+`retry:
  max_attempts: 30
  initial_delay_ms: 200
  max_delay_ms: 1000
agents:
  - name: first
    execute: echo hi
`+strings.Replace(after, "datasets:", "  - name: last\n    execute: echo hi\ndatasets:", 1)), 0o644))

	r := &run{cmd: exec.Command(binary, "job.yaml", "--n-concurrent", "1"), output: &bytes.Buffer{}}
	r.cmd.Dir = j.dir
	r.cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.host)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	must(t, r.cmd.Start())
	j.waitRunning(t, 1)
	e.stop()
	e.start()
	code := r.exit(t)
	t.Logf("rollout:\n%s", r.output)

	if code != 1 {
		t.Errorf("exit code %d, want 1: one trial was lost", code)
	}
	tree, err := result.ReadTree(filepath.Join(j.dir, "jobs", j.name))
	must(t, err)
	got := map[string]string{}
	for _, trial := range tree.Trials {
		if trial.Error != nil {
			got[trial.Key.Agent] = string(trial.Error.Type)
		} else if trial.Passed() {
			got[trial.Key.Agent] = "passed"
		}
	}
	want := map[string]string{"first": "passed", "hanger": string(result.EnvironmentLost), "last": "passed"}
	for agent, outcome := range want {
		if got[agent] != outcome {
			t.Errorf("%s: %q, want %q", agent, got[agent], outcome)
		}
	}
	left, err := e.client().ContainerList(context.Background(), container.ListOptions{All: true})
	must(t, err)
	if len(left) != 0 {
		for _, c := range left {
			// This engine cannot remove a container into which it was copying when it went down:
			// its own mount stays busy. Rollout must say so, as it is the only one that can.
			if c.State == "removing" && strings.Contains(r.output.String(), "environments of this job may be left") {
				t.Logf("the engine could not remove %s, and rollout said so", c.Names)
				continue
			}
			t.Errorf("a container is left: %s, %s, %s, %v", c.Names, c.State, c.Status, c.Labels)
		}
	}
}

// TestDeadEngineIsReportedOnce: trials that ran when the engine died have errors in their results,
// but the message is printed once. When the engine is back, a resume runs all of them.
func TestDeadEngineIsReportedOnce(t *testing.T) {
	const trials, workers = 20, 4
	e := startEngine(t)
	e.takeImage()
	j := hangingJob(t, "docker", trials)
	job := filepath.Join(j.dir, "job.yaml")
	text, err := os.ReadFile(job)
	must(t, err)
	before, after, _ := strings.Cut(string(text), "    execute: |\n")
	_, datasets, _ := strings.Cut(after, "datasets:")
	must(t, os.WriteFile(job, []byte(before+"    env: {NAP: \"${NAP}\"}\n    execute: echo working; sleep \"$NAP\"\ndatasets:"+datasets), 0o644))
	rollout := func(nap string, args ...string) *run {
		r := &run{cmd: exec.Command(binary, args...), output: &bytes.Buffer{}}
		r.cmd.Dir = j.dir
		r.cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.host, "NAP="+nap)
		r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
		must(t, r.cmd.Start())
		return r
	}
	r := rollout("3600", "job.yaml", "--n-concurrent", strconv.Itoa(workers))
	j.waitRunning(t, workers)
	must(t, e.cmd.Process.Kill())
	_ = e.cmd.Wait()
	code := r.exit(t)
	t.Logf("rollout:\n%s", r.output)
	if code != 3 {
		t.Errorf("exit code %d, want 3: the engine is not the agent's", code)
	}
	wantSentence := func(output string) {
		t.Helper()
		_, summary, _ := strings.Cut(output, "Job "+j.name)
		want := fmt.Sprintf("✗ %d trials ended because the provider did not answer any more (environment_lost).", workers)
		if n := strings.Count(strings.Join(strings.Fields(summary), " "), want); n != 1 {
			t.Errorf("the summary says %d times %q", n, want)
		}
		if n := strings.Count(summary, string(result.EnvironmentLost)) + strings.Count(summary, string(result.EnvironmentStartFailed)); n != 1 {
			t.Errorf("the summary names the errors of single trials: %d\n%s", n, summary)
		}
	}
	wantSentence(r.output.String())
	_, last, _ := strings.Cut(r.output.String(), "rollout: the Docker engine at "+e.host+" does not answer any more")
	if want := "resume the job with: rollout resume jobs/" + j.name; !strings.Contains(last, want) {
		t.Errorf("its last words are not why, and %q", want)
	}
	tree, err := result.ReadTree(filepath.Join(j.dir, "jobs", j.name))
	must(t, err)
	if len(tree.Trials) != workers {
		t.Errorf("%d trials have a result, want those %d that ran", len(tree.Trials), workers)
	}
	for _, trial := range tree.Trials {
		if trial.Error == nil || trial.Error.Type != result.EnvironmentLost || !trial.EndedUnreachable() || trial.Error.Message == "" {
			t.Errorf("the result of %s has the error %+v", trial.Key, trial.Error)
		}
	}
	again := rollout("3600", "report", "jobs/"+j.name, "--markdown", "report.md")
	again.exit(t)
	wantSentence(again.output.String())
	markdown, err := os.ReadFile(filepath.Join(j.dir, "report.md"))
	must(t, err)
	if n := strings.Count(string(markdown), "4 trials ended because the provider did not answer any more"); n != 1 {
		t.Errorf("the report says it %d times:\n%s", n, markdown)
	}

	e.start()
	resumed := rollout("0", "resume", "jobs/"+j.name)
	if code := resumed.exit(t); code != 0 {
		t.Errorf("the resume ends with %d:\n%s", code, resumed.output)
	}
	if res := j.result(t); res.CompletedTrials != trials || res.PassRate != 1 {
		t.Errorf("after the resume: %+v", res.Summary)
	}
}

// TestAgentThatFillsEngineDisk: an agent fills the disk of the engine, and leaves a process behind
// that repeatedly frees a little of it and writes a reward. The verifier frees all of it, and
// writes another one. Whatever still works on such a disk, the agent's process must have ended by
// then.
func TestAgentThatFillsEngineDisk(t *testing.T) {
	e := newEngine(t)
	data := filepath.Join(e.dir, "data")
	must(t, os.Mkdir(data, 0o711))
	must(t, syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1400m"))
	e.start()
	e.takeImage()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"job.yaml": "name: full\nenvironment: {type: docker, min_free_disk: 0}\ntasks: [t]\nagents:\n  - name: filler\n    execute: |\n" +
			"      (while :; do : > /part; echo 1 > /logs/verifier/reward.txt; done) > /dev/null 2>&1 &\n" +
			"      head -c 1000000 /dev/zero > /part\n" +
			"      cat /dev/zero > /full\n" +
			"      echo the disk is full > /dev/stderr; df / > /dev/stderr; sleep 1000\n",
		"t/instruction.md": "Fill the disk.\n",
		"t/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n[agent]\ntimeout_sec = 30\n",
		"t/tests/test.sh":  "rm -f /full\necho 0 > /logs/verifier/reward.txt\nsleep 2\ncat /logs/verifier/reward.txt\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	r := &run{cmd: exec.Command(binary, "job.yaml"), output: &bytes.Buffer{}}
	r.cmd.Dir = dir
	r.cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.host)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	must(t, r.cmd.Start())
	code := r.exit(t)
	t.Logf("exit code %d:\n%s", code, r.output)
	tree, err := result.ReadTree(filepath.Join(dir, "jobs", "full"))
	must(t, err)
	if len(tree.Trials) != 1 {
		t.Fatalf("%d results, want 1", len(tree.Trials))
	}
	trial := tree.Trials[0]
	logs, _ := os.ReadFile(filepath.Join(dir, "jobs", "full", trial.Key.Dir(), "command", "stderr.txt"))
	if !strings.Contains(string(logs), "the disk is full") {
		t.Errorf("the disk was not filled within the time:\n%s", logs)
	}
	if trial.Error == nil {
		t.Error("the trial has no error")
	}
	if trial.Reward != nil && *trial.Reward != 0 {
		t.Errorf("the reward is %v, which a process wrote that should be dead", *trial.Reward)
	}
	left, err := e.client().ContainerList(context.Background(), container.ListOptions{All: true})
	must(t, err)
	for _, c := range left {
		t.Errorf("a container is left: %s, %s", c.Names, c.Status)
	}
}
