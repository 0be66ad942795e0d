package stages_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

func write(t *testing.T, h *host.Host, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.Path(name)), 0o755), os.WriteFile(h.Path(name), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// load loads and plans job.yaml.
func load(t *testing.T, h *host.Host, req stages.JobRequest) (*stages.Planned, error) {
	t.Helper()
	req.File = "job.yaml"
	p, err := stages.LoadPlan(t.Context(), h, req)
	if p != nil {
		t.Cleanup(p.Close)
	}
	return p, err
}

// Problems of datasets and of agents' files are reported at once, each with its place.
func TestProblemsOfFilesAreReportedTogether(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, "job.yaml", "environment: {type: fake}\nagents: [{name: mine, execute: \"true\", files: [./nowhere]}]\ndatasets: [{path: evals}, {path: absent}]\n")
	_, err := load(t, h, stages.JobRequest{})
	var list diag.List
	if !errors.As(err, &list) {
		t.Fatalf("%v is no list of problems", err)
	}
	text := ""
	for _, d := range list {
		text += d.String() + "\n"
	}
	for _, want := range []string{"job.yaml:2:", "nowhere", "job.yaml:3:", "absent"} {
		if !strings.Contains(text, want) {
			t.Errorf("the problems lack %q:\n%s", want, text)
		}
	}
}

func TestWhatIsNoJobIsRefused(t *testing.T) {
	h, _ := apptest.New(t)
	for file, want := range map[string]string{
		"evals/one/task.toml": "is a file of a task, not a job file",
		"none.yaml":           "none.yaml",
		"jobs/none":           "jobs/none",
	} {
		p, err := stages.LoadPlan(t.Context(), h, stages.JobRequest{File: file})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
		if p != nil {
			p.Close()
		}
	}
	for name, req := range map[string]stages.JobRequest{
		"no such agent": {Agents: []string{"oracel"}},
		"no such key":   {Sets: []config.Override{{Path: "environment.typo", Value: "1", Origin: "--set environment.typo=1"}}},
		"no task left":  {Overrides: []config.Override{{Path: "include_tasks", Literal: []string{"two*"}, Origin: "--task"}}},
	} {
		if _, err := load(t, h, req); err == nil {
			t.Errorf("%s: it was planned", name)
		}
	}
}

// The environment wins over files of variables, and a later file over an earlier one.
func TestVariablesComeFromFiles(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, "job.yaml", "environment: {type: fake}\nagents: [{name: mine, execute: \"true\", env: {A: \"${NAME}-${OTHER}-${THIRD}\"}}]\ndatasets: [{path: evals}]\n")
	write(t, h, "a.env", "NAME=a\nOTHER=a\nTHIRD=a\n")
	write(t, h, "b.env", "# of today\nOTHER=b\nTHIRD=b\n")
	h.Getenv = func(name string) (string, bool) { return "env", name == "THIRD" }
	p, err := load(t, h, stages.JobRequest{EnvFiles: []string{"a.env", "b.env"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"NAME": "a", "OTHER": "b", "THIRD": "env"} {
		if got, _ := p.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	write(t, h, "b.env", "OTHER=b\nno assignment\n")
	_, err = load(t, h, stages.JobRequest{EnvFiles: []string{"a.env", "b.env"}})
	if err == nil || !strings.Contains(err.Error(), "b.env:2") {
		t.Errorf("a line without =: %v", err)
	}
	_, err = load(t, h, stages.JobRequest{EnvFiles: []string{"c.env"}})
	if err == nil || !strings.Contains(err.Error(), "c.env: there is no such file") {
		t.Errorf("a missing file: %v", err)
	}
}

// The number in a job's name is one more than the highest in jobs_dir, whose other entries do not
// count.
func TestNumberedNamesGoOn(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, "job.yaml", "name: nightly-{run}\nenvironment: {type: fake}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n")
	for _, name := range []string{"nightly-7", "nightly-12", "nightly-012", "nightly-x", "nightly-99999999999999999999", "other-50"} {
		if err := os.MkdirAll(h.Path("jobs/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, err := load(t, h, stages.JobRequest{})
	if err != nil || p.Job.Name != "nightly-13" {
		t.Errorf("%v", err)
	}
}

// Trials of a task stay in one shard, and the parts of all shards are the job.
func TestShardsDivideTheJob(t *testing.T) {
	h, _ := apptest.New(t)
	write(t, h, "evals/two/task.toml", "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n")
	write(t, h, "evals/two/instruction.md", "Do it.\n")
	write(t, h, "evals/two/tests/test.sh", "echo 1 >/logs/verifier/reward.txt\n")
	seen := map[result.Key]int{}
	for i := 1; i <= 2; i++ {
		p, err := load(t, h, stages.JobRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Split(&result.Shard{Index: i, Total: 2}, ""); err != nil {
			t.Fatal(err)
		}
		tasks := map[string]bool{}
		for _, key := range job.Keys(p.Own()) {
			seen[key]++
			tasks[key.Task] = true
		}
		if len(tasks) != 1 || len(p.Specs) != 4 {
			t.Errorf("shard %d has %d tasks, of %d trials", i, len(tasks), len(p.Specs))
		}
	}
	if len(seen) != 4 {
		t.Errorf("the shards have %d trials, want 4", len(seen))
	}
	p, err := load(t, h, stages.JobRequest{})
	if err != nil {
		t.Fatal(err)
	}
	apptest.Refused(t, p.Split(&result.Shard{Index: 1, Total: 2}, "nowhere"), "--timings nowhere: there is no such directory or file")
}

// A cancel while the provider connects leaves no directory.
func TestACancelBeforeTheJobLeavesNothing(t *testing.T) {
	h, _ := apptest.New(t)
	p, err := load(t, h, stages.JobRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	closed := false
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		cancel()
		return closing{fake.New(fake.Options{}), &closed}, nil
	}
	if _, err := p.Connect(ctx, ""); !errors.Is(err, host.ErrCancelled) || !closed {
		t.Errorf("%v; the provider was closed: %t", err, closed)
	}
	if _, err := os.Stat(h.Path("jobs")); err == nil {
		t.Error("there is a directory")
	}
}

// closing is a provider that notes that it was closed.
type closing struct {
	environment.Provider
	closed *bool
}

func (c closing) Close() error {
	*c.closed = true
	return c.Provider.Close()
}

// A provider that cannot work ends the job before it has a directory, with the way out.
func TestAProviderThatFailsEndsTheJob(t *testing.T) {
	h, _ := apptest.New(t)
	p, err := load(t, h, stages.JobRequest{})
	if err != nil {
		t.Fatal(err)
	}
	h.Providers[0].New = func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("no engine answers"), Hint: "start one"}
	}
	if _, err := p.Connect(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no engine answers") {
		t.Errorf("%v", err)
	}
}

// Two runs of one name do not share a directory: the second one is refused, and says how to go on.
func TestAnExistingDirectoryIsNotOverwritten(t *testing.T) {
	h, _ := apptest.New(t)
	apptest.PlannedJob(t, h.Path("jobs/nightly"), time.Now())
	p, err := load(t, h, stages.JobRequest{})
	if err != nil {
		t.Fatal(err)
	}
	provider, err := p.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	o, err := p.Open(t.Context(), provider, nil)
	apptest.Refused(t, err, "jobs/nightly")
	if o != nil {
		o.Close(t.Context())
		t.Error("it was opened")
	}
}

func TestJobsToReuseFromMustBeDirectories(t *testing.T) {
	h, _ := apptest.New(t)
	apptest.PlannedJob(t, h.Path("jobs/old"), time.Now())
	apptest.PlannedJob(t, h.Path("jobs/nightly"), time.Now())
	sources, err := stages.ReuseSources(h.Paths, []string{"jobs/old"}, "jobs/nightly")
	if err != nil || len(sources) != 1 {
		t.Errorf("%d sources, %v", len(sources), err)
	}
	for path, want := range map[string]string{
		"github:main": "results are taken over with their logs", "jobs/nightly": "is the job itself", "job.yaml": "is not the directory of a job", "evals": "it has no plan.json",
	} {
		_, err := stages.ReuseSources(h.Paths, []string{path}, "jobs/nightly")
		apptest.Refused(t, err, want)
	}
	write(t, h, "jobs/old/plan.json", "{\x1b[31m")
	if _, err = stages.ReuseSources(h.Paths, []string{"jobs/old"}, "jobs/nightly"); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("a plan that is no JSON: %v", err)
	}
}
