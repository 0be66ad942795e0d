package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/test/gittest"
)

// registryScene is a registry on a web server, whose tasks are in a repository on a git server.
type registryScene struct {
	*testing.T
	repo     *gittest.Repo
	git      *gittest.Server
	web      *httptest.Server
	registry func() string // what the web server has now
	dir      string        // the current directory
	env      map[string]string
}

func newRegistryScene(t *testing.T) *registryScene {
	t.Helper()
	root := t.TempDir()
	s := &registryScene{T: t, repo: gittest.NewRepo(t, filepath.Join(root, "tasks.git")), git: gittest.Serve(t, root), dir: t.TempDir()}
	s.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(s.registry())) }))
	t.Cleanup(s.web.Close)
	s.env = map[string]string{"XDG_CACHE_HOME": filepath.Join(t.TempDir(), "cache"), "HOME": t.TempDir()}
	return s
}

// rollout runs a command line.
func (s *registryScene) rollout(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	var out, errs bytes.Buffer
	env := Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &out, Stderr: &errs, Dir: s.dir, Now: time.Now,
		Getenv: func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
	}
	code = Main(s.Context(), s.Context(), env, args)
	return code, out.String(), errs.String()
}

func (s *registryScene) write(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

func registryOf(url, commit string, tasks ...string) string {
	type task map[string]string
	var list []task
	for _, name := range tasks {
		list = append(list, task{"name": "org/" + name, "git_url": url, "git_commit_id": commit, "path": "tasks/" + name})
	}
	text, _ := json.Marshal([]any{
		map[string]any{"name": "bench", "version": "1.0", "description": "Old.", "tasks": list[:1]},
		map[string]any{"name": "bench", "version": "2.0", "description": "A bench.", "tasks": list},
	})
	return string(text)
}

// TestARegistrysDatasetIsRun from the web, and again when neither server can be reached.
func TestARegistrysDatasetIsRun(t *testing.T) {
	t.Parallel()
	s := newRegistryScene(t)
	id := s.repo.Commit("main", gittest.Tasks("tasks/one", "tasks/two"))
	s.repo.Commit("main", map[string]string{"README.md": "gone"})
	s.registry = func() string { return registryOf(s.git.URL+"/tasks.git", id[:7], "one", "two", "tow") }
	s.write("job.yaml", `
agents: [{name: oracle}]
environment: {type: fake}
datasets:
  - registry: {url: "`+s.web.URL+`/registry.json"}
    name: bench
`)
	run := func(name string) result.Job {
		code, stdout, stderr := s.rollout("run", "job.yaml", "--name", name)
		if code != 1 || !strings.Contains(stdout, "task_not_found") {
			t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
		}
		if name == "offline" && strings.Count(stderr, "the copy of") != 1 {
			t.Errorf("nobody says that the registry is an old copy:\n%s", stderr)
		}
		tree, err := result.ReadTree(filepath.Join(s.dir, "jobs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range tree.Trials {
			if tr.TaskGitCommitID == nil || *tr.TaskGitCommitID != id {
				t.Errorf("%s: commit %v, want %s", tr.Task, tr.TaskGitCommitID, id)
			}
			if tr.Task == "org/tow" && !strings.Contains(tr.Error.Message, "did you mean tasks/two?") {
				t.Errorf("a task that is not there: %s", tr.Error.Message)
			}
		}
		for _, task := range tree.Plan.Tasks {
			if task.GitCommitID != id || task.GitPath != "tasks/"+strings.TrimPrefix(task.Task, "org/") || task.Path != "" {
				t.Errorf("plan: %+v", task)
			}
		}
		return result.Summarize(tree.Plan, tree.Trials)
	}
	first := run("online")
	if first.CompletedTrials != 2 || first.PassRate != 1 {
		t.Errorf("%+v", first)
	}
	if n := s.git.Count("git-upload-pack"); n > 12 {
		t.Errorf("%d requests", n)
	}
	s.git.Close()
	s.web.Close()
	second := run("offline")
	if second.PlanDigest != first.PlanDigest {
		t.Errorf("the plan's digest changed from %s to %s", first.PlanDigest, second.PlanDigest)
	}
}

// contents is the digest of everything below a directory, times and modes included.
func contents(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.ModTime(), info.Size())
		if e.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum.Write(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// TestShardsOfARegistrysDataset fit together, leave the cache as it is, and are merged by a machine
// that has nothing.
func TestShardsOfARegistrysDataset(t *testing.T) {
	t.Parallel()
	s := newRegistryScene(t)
	s.repo.Commit("main", gittest.Tasks("tasks/one", "tasks/two"))
	s.registry = func() string { return registryOf(s.git.URL+"/tasks.git", "HEAD", "one", "two") }
	s.write("job.yaml", `
name: sharded
agents: [{name: oracle}]
environment: {type: fake}
datasets: [{registry: {url: "`+s.web.URL+`/registry.json"}, name: bench, version: "2.0"}]
`)
	must := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := s.rollout(args...)
		if code != want {
			t.Fatalf("rollout %s: exit code %d\n%s\n%s", strings.Join(args, " "), code, stdout, stderr)
		}
		return stdout + stderr
	}
	if out := must(0, "validate", "job.yaml"); !strings.Contains(out, "1 agent × 2 tasks × 1 attempt = 2 trials") {
		t.Errorf("%s", out)
	}
	kept := filepath.Join(s.env["XDG_CACHE_HOME"], "rollout", cache.DirsName)
	before := contents(t, kept)
	must(0, "run", "job.yaml", "--shard", "1/2")
	must(0, "run", "job.yaml", "--shard", "2/2")
	if after := contents(t, kept); after != before {
		t.Error("a run changed the cache")
	}
	if out := must(0, "cache", "ls"); !strings.Contains(out, s.git.URL+"/tasks.git at ") || strings.Contains(out, "in use") {
		t.Errorf("cache ls:\n%s", out)
	}
	must(0, "cache", "prune", "--all")
	if out := must(0, "cache", "ls"); !strings.HasPrefix(out, "0 entries, 0 B in ") {
		t.Errorf("cache ls:\n%s", out)
	}
	s.git.Close()
	s.web.Close()
	if out := must(0, "merge", "jobs"); !strings.Contains(out, "sharded") {
		t.Errorf("%s", out)
	}
	job, _, err := result.ReadJob(filepath.Join(s.dir, "jobs", "sharded"))
	if err != nil || job.CompletedTrials != 2 || job.PassRate != 1 {
		t.Errorf("%+v, %v", job, err)
	}
	if code, _, stderr := s.rollout("plan", "job.yaml"); code != 3 || !strings.Contains(stderr, "the registry "+s.web.URL+"/registry.json cannot be loaded: ") {
		t.Errorf("offline with an empty cache: %d %s", code, stderr)
	}
}

// TestDownload copies a dataset, which then is a directory like any other.
func TestDownload(t *testing.T) {
	s := newRegistryScene(t)
	s.repo.Commit("main", gittest.Tasks("tasks/one", "tasks/two"))
	s.write("registry.json", registryOf(s.git.URL+"/tasks.git", "main", "one", "two"))
	code, stdout, stderr := s.rollout("datasets", "download", "bench", "--registry", "registry.json", "--output", "here/bench")
	if code != 0 || stdout != "2 tasks of bench@2.0 in here/bench; for the job file: {path: \"here/bench\", format: harbor}\n" || !strings.Contains(stderr, "datasets: fetching 2 tasks of "+s.git.URL+"/tasks.git at ") {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	s.write("job.yaml", "agents: [{name: oracle}]\nenvironment: {type: fake}\ndatasets: [{path: here/bench}]\n")
	if code, stdout, stderr := s.rollout("run", "job.yaml"); code != 0 {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
}

// TestFormatOfARegistrysDataset: tasks of a registry are read by Harbor's rules unless the job or
// the registry says otherwise, and jobs that began when that was different stay what they are.
func TestFormatOfARegistrysDataset(t *testing.T) {
	s := newRegistryScene(t)
	files := gittest.Tasks("tasks/one")
	files["tasks/one/tests/test.sh*"] = "#!/bin/bash\necho 0 >/logs/verifier/reward.txt\nexit 1\n" // an honest 0, as Harbor's tests say it
	id := s.repo.Commit("main", files)
	s.registry = func() string { return registryOf(s.git.URL+"/tasks.git", id, "one") }
	s.write("job.yaml", "agents: [{name: nop}]\nenvironment: {type: fake}\ndatasets:\n  - registry: {url: \""+s.web.URL+"/registry.json\"}\n    name: bench\n")
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := s.rollout(args...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s\n%s", args, code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	configOf := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(s.dir, "jobs", name, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run(0, "run", "job.yaml", "--name", "new")
	if !strings.Contains(configOf("new"), `"format": "harbor"`) {
		t.Errorf("config.json does not say what was run:\n%s", configOf("new"))
	}
	// A job of before: its config.json has the format that was the default then.
	run(1, "run", "job.yaml", "--name", "old", "--set", "datasets.0.format=rollout")
	if !strings.Contains(configOf("old"), `"format": "rollout"`) {
		t.Fatalf("config.json:\n%s", configOf("old"))
	}
	run(1, "resume", "jobs/old")
	if _, stderr := run(2, "run", "job.yaml", "--name", "old", "--resume"); !strings.Contains(stderr, `datasets.bench.format: was "rollout", is "harbor"`) {
		t.Errorf("nobody says what differs:\n%s", stderr)
	}
	if _, stderr := run(0, "run", "job.yaml", "--name", "taken", "--reuse", "jobs/new"); strings.Contains(stderr, "another format") {
		t.Errorf("the same format is another:\n%s", stderr)
	}
	if _, stderr := run(1, "run", "job.yaml", "--name", "not-taken", "--set", "datasets.0.format=rollout", "--reuse", "jobs/new"); !strings.Contains(stderr, "1 of the task in another format") {
		t.Errorf("nobody says why nothing is taken over:\n%s", stderr)
	}
	// The registry says otherwise.
	text := s.registry()
	s.registry = func() string { return strings.ReplaceAll(text, `"version"`, `"format":"rollout","version"`) }
	run(1, "run", "job.yaml", "--name", "ours")
	if stdout, _ := run(0, "datasets", "show", "bench", "--registry", s.web.URL+"/registry.json"); !strings.Contains(stdout, "format: rollout") {
		t.Errorf("show does not say it:\n%s", stdout)
	}
}

// TestValidateNamesARegistrysTask by its name, repository and path: its directory on this
// machine does not help the user.
func TestValidateNamesARegistrysTask(t *testing.T) {
	s := newRegistryScene(t)
	files := gittest.Tasks("tasks/one")
	files["tasks/one/task.toml"] = "version = \"1.0\"\n\n[environment]\ntpu = 1\n\n[solution.env]\nKEY = \"${NOBODY_HAS_THIS}\"\n"
	files["tasks/one/environment/Dockerfile"] = "FROM debian:bookworm\nWORKDIR /app\nRUNS x\n"
	id := s.repo.Commit("main", files)
	s.registry = func() string { return registryOf(s.git.URL+"/tasks.git", id, "one") }
	s.write("job.yaml", "agents: [{name: oracle}]\nenvironment: {type: fake}\ndatasets:\n  - registry: {url: \""+s.web.URL+"/registry.json\"}\n    name: bench\n")
	label := "org/one (tasks/one of " + s.git.URL + "/tasks.git at " + id[:12] + ")"
	cached := s.env["XDG_CACHE_HOME"]
	see := func(what, text string, want ...string) {
		t.Helper()
		if strings.Contains(text, cached) {
			t.Errorf("%s names the cache:\n%s", what, text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, text)
			}
		}
	}
	_, stdout, stderr := s.rollout("validate", "job.yaml")
	see("validate", stdout+stderr, label+": task.toml:4:1: \"environment.tpu\" is not supported", label+": environment/Dockerfile:3: ")
	_, stdout, stderr = s.rollout("validate", "job.yaml", "--format", "json")
	see("validate --format json", stdout+stderr, `"file": "`+label+`: environment/Dockerfile"`)
	for _, format := range []string{"text", "junit", "markdown", "annotations", "json"} {
		_, stdout, stderr = s.rollout("validate", "--run", "job.yaml", "--name", format, "--format", format)
		see("validate --run --format "+format, stdout+stderr, "environment/Dockerfile")
	}
	_, stdout, stderr = s.rollout("run", "job.yaml", "--name", "run")
	see("run", stdout+stderr, "org/one (tasks/one of")
	result, err := os.ReadFile(filepath.Join(s.dir, "jobs/run/oracle/bench/org-one__1/result.json"))
	if err != nil {
		t.Fatal(err)
	}
	see("result.json", string(result), "the task is invalid: "+label+": task.toml:4:1: ")
	files["tasks/one/task.toml"] = "version = \"1.0\"\n\n[solution.env]\nKEY = \"${NOBODY_HAS_THIS}\"\n"
	id = s.repo.Commit("main", files)
	label = "org/one (tasks/one of " + s.git.URL + "/tasks.git at " + id[:12] + ")"
	_, stdout, stderr = s.rollout("validate", "job.yaml")
	see("validate", stdout+stderr, label+": task.toml:4:1: \"solution.env.KEY\" needs")
}
