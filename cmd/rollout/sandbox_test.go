//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// errorOf returns the error of a job's only trial.
func (j job) errorOf(t *testing.T) result.Error {
	t.Helper()
	tree, err := result.ReadTree(filepath.Join(j.dir, "jobs", j.name))
	must(t, err)
	if len(tree.Trials) != 1 || tree.Trials[0].Error == nil {
		t.Fatalf("want one trial with an error, have %+v, unreadable: %v", tree.Trials, tree.Unreadable)
	}
	return *tree.Trials[0].Error
}

// wantNoScratch checks that the store of these tests contains no files of sandboxes, except those
// that are reused.
func wantNoScratch(t *testing.T) {
	t.Helper()
	if stores, err := filepath.Glob(filepath.Join(scratch, "cache/rollout/sandbox/*")); err != nil || len(stores) == 0 {
		t.Errorf("this test has lost its point: there is no store of sandboxes in %s (%v)", scratch, err)
	}
	for _, directory := range []string{"env", "tmp"} {
		left, err := filepath.Glob(filepath.Join(scratch, "cache/rollout/sandbox/*", directory, "*"))
		must(t, err)
		if len(left) > 0 {
			t.Errorf("files of sandboxes are left: %q", left)
		}
	}
}

func TestKilledEnvironmentIsLost(t *testing.T) {
	realProviders(t, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 1)
		r := j.start(t, "job.yaml")
		j.waitRunning(t, 1)
		inside := j.insideOf(t, r.cmd.Process.Pid, 1)
		if provider == sandbox.Name {
			inits := inside.inits()
			if len(inits) != 1 {
				t.Fatalf("processes 1: %v, want one", inits)
			}
			must(t, syscall.Kill(inits[0].pid, syscall.SIGKILL))
		} else {
			j.killContainer(t)
		}
		if code := r.exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if failed := j.errorOf(t); failed.Type != result.EnvironmentLost || !strings.Contains(failed.Message, "during agent execution") {
			t.Errorf("the trial's error is %+v, want %s", failed, result.EnvironmentLost)
		}
		inside.wantGone(t)
		j.wantLeft(t, 0, "after the job")
	})
}

// killContainer kills the job's container.
func (j job) killContainer(t *testing.T) {
	t.Helper()
	p, err := open(j.provider)
	must(t, err)
	defer p.Close()
	listed, err := p.List(context.Background())
	must(t, err)
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must(t, err)
	defer engine.Close()
	for _, l := range listed {
		if l.Labels.Job == j.name {
			must(t, engine.ContainerKill(context.Background(), l.ID, "KILL"))
		}
	}
}

func TestFullDiskOfSandboxes(t *testing.T) {
	needSandbox(t)
	testenv.NeedRoot(t, "to mount a small file system")
	small := t.TempDir()
	// Enough for the snapshot of this machine's directories on which sandboxes are based.
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=512m"); err != nil {
		testenv.Lacks(t, sandbox.Name, "the right to mount a small file system: "+err.Error())
	}
	defer func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) }()
	j := hangingJob(t, sandbox.Name, 1)
	r := j.start(t, "job.yaml", "--set", "environment.provider_config.dir="+filepath.Join(small, "store"),
		"--set", "agents=[{name: greedy, execute: head -c 1G /dev/zero >/big}]", "--set", "environment.min_free_disk=0")
	if code := r.exit(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if failed := j.errorOf(t); failed.Type != result.AgentExecutionFailed {
		t.Errorf("the trial's error is %+v, want %s", failed, result.AgentExecutionFailed)
	}
	said, err := os.ReadFile(filepath.Join(j.dir, "jobs", j.name, "greedy/evals/hang__1/command/stderr.txt"))
	must(t, err)
	if !strings.Contains(string(said), "No space left on device") {
		t.Errorf("the agent was told %q", said)
	}
	left, err := filepath.Glob(filepath.Join(small, "store/*/env/*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// In a user namespace whose owner has set its quota of mount namespaces to 0, as hardened machines
// do for all.
func TestMissingNamespacesStopTheJobFirst(t *testing.T) {
	needSandbox(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		testenv.Lacks(t, sandbox.Name, "unshare: "+err.Error())
	}
	j := hangingJob(t, sandbox.Name, 1)
	r := &run{output: &bytes.Buffer{}, cmd: exec.Command("unshare", "--user", "--map-root-user", "sh", "-c",
		`echo 0 >/proc/sys/user/max_mnt_namespaces && exec "$0" job.yaml`, binary)}
	r.cmd.Dir = j.dir
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	must(t, r.cmd.Start())
	code := r.exit(t)
	for _, part := range []string{"does not let rollout make sandboxes", "environment.type: docker"} {
		if code != 3 || !strings.Contains(r.output.String(), part) {
			t.Errorf("exit code %d, want 3, and %q is not in:\n%s", code, part, r.output)
		}
	}
	if _, err := os.Stat(filepath.Join(j.dir, "jobs")); err == nil {
		t.Error("a directory was made")
	}
}

func TestUnreachableRegistryFailsTrial(t *testing.T) {
	realProviders(t, func(t *testing.T, provider string) {
		const nowhere = "nowhere.invalid/none/such:1"
		j := hangingJob(t, provider, 1)
		toml := filepath.Join(j.dir, "evals/hang/task.toml")
		text, err := os.ReadFile(toml)
		must(t, err)
		must(t, os.WriteFile(toml, bytes.ReplaceAll(text, []byte(testenv.Image), []byte(nowhere)), 0o644))
		args := []string{"job.yaml"}
		if provider == sandbox.Name {
			args = append(args, "--set", "environment.provider_config.base=image")
		}
		if code := j.start(t, args...).exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if failed := j.errorOf(t); failed.Type != result.EnvironmentImagePullFailed || !strings.Contains(failed.Message, nowhere) {
			t.Errorf("the trial's error is %+v, want %s of %s", failed, result.EnvironmentImagePullFailed, nowhere)
		}
	})
}
